"""The trackers that there are, each through its own client, which is imported only here."""

import os
import time
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from sweepd.errors import UserError
from sweepd.statuses import DONE
from sweepd.trackers.base import TrackedRun, Tracker, Values


class TensorBoard:
    """Through tensorboardX: one folder of event files for each trial."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        self.folder = folder / "tensorboard"
        self.writers: dict[str, Any] = {}

    def begin(self, run: TrackedRun) -> None:
        folder = self.folder / run.sweep / run.id
        self.writers[run.id] = self.client.SummaryWriter(str(folder), write_to_disk=True)
        settings = "\n".join(f"{name}: {value}  " for name, value in run.settings.items())
        self.writers[run.id].add_text("settings", f"{run.name}\n\n{settings}")

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        for name, value in values.items():
            self.writers[run.id].add_scalar(name, value, step)

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        writer = self.writers.pop(run.id)
        plain = (bool, int, float, str)
        settings = {k: v if isinstance(v, plain) else str(v) for k, v in run.settings.items()}
        final = {f"final/{name}": value for name, value in scores.items()}
        writer.add_text("status", status)
        writer.add_hparams(settings, final, name="settings")
        writer.close()

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()


class WeightsAndBiases:
    """A project is a sweep. Where WANDB_MODE=offline is set, nothing leaves this machine."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        self.runs: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        known = signature(client.init).parameters
        if "reinit" in known:  # several runs at a time
            self.options["reinit"] = "create_new"
        if "dir" in known and "WANDB_DIR" not in os.environ:
            folder.mkdir(parents=True, exist_ok=True)
            self.options["dir"] = str(folder)
        if "embed" in known:  # trackio: nothing is shown in a notebook
            self.options["embed"] = False
        if hasattr(client, "Settings"):
            self.options["settings"] = client.Settings(silent=True, console="off")

    def begin(self, run: TrackedRun) -> None:
        self.runs[run.id] = self.client.init(
            project=run.sweep,
            name=f"{run.name} ({run.id[:8]})",
            config={**run.settings, "trial": run.id},
            **self.options,
        )

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        self.runs[run.id].log(dict(values), step=step)

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        client = self.runs.pop(run.id)
        final = {f"final_{name}": value for name, value in scores.items()}
        if hasattr(client, "summary"):
            client.summary.update({**final, "status": status})
            client.finish(exit_code=0 if status in DONE else 1)
        else:
            client.log(final)
            client.finish()

    def close(self) -> None:
        for client in self.runs.values():
            client.finish()


class MLflow:
    MOST_AT_ONCE = 1000
    """Metrics that a call may hold."""

    def __init__(self, client: Any, folder: Path) -> None:
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient

        address = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder / 'mlflow.db'}"
        folder.mkdir(parents=True, exist_ok=True)
        self.client = MlflowClient(address)
        self.metric = Metric
        self.experiments: dict[str, str] = {}
        self.runs: dict[str, str] = {}
        self.waiting: dict[str, list[Any]] = {}

    def begin(self, run: TrackedRun) -> None:
        if run.sweep not in self.experiments:
            known = self.client.get_experiment_by_name(run.sweep)
            id_ = known.experiment_id if known else self.client.create_experiment(run.sweep)
            self.experiments[run.sweep] = id_
        tags = {"mlflow.runName": run.name, "sweepd.trial": run.id}
        made = self.client.create_run(self.experiments[run.sweep], tags=tags)
        self.runs[run.id] = made.info.run_id
        for name, value in run.settings.items():
            self.client.log_param(made.info.run_id, name, value)

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        now = int(1000 * time.time())
        waiting = self.waiting.setdefault(run.id, [])
        waiting += [self.metric(name, value, now, step) for name, value in values.items()]
        if len(waiting) >= self.MOST_AT_ONCE - len(values):
            self._send(run.id)

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        self._send(run.id)
        id_ = self.runs.pop(run.id)
        for name, value in scores.items():
            self.client.log_metric(id_, f"final_{name}", value)
        self.client.set_tag(id_, "sweepd.status", status)
        self.client.set_terminated(id_, "FINISHED" if status in DONE else "FAILED")

    def close(self) -> None:
        for trial in list(self.runs):
            self._send(trial)

    def _send(self, trial: str) -> None:
        if metrics := self.waiting.pop(trial, []):
            self.client.log_batch(self.runs[trial], metrics=metrics)


KINDS: dict[str, tuple[str, Callable[[Any, Path], Tracker]]] = {
    "tensorboard": ("tensorboardX", TensorBoard),
    "wandb": ("wandb", WeightsAndBiases),
    "trackio": ("trackio", WeightsAndBiases),
    "mlflow": ("mlflow", MLflow),
}
"""The trackers that one can choose: the package that each needs, which `pip install sweepd[NAME]`
installs, and its client."""


def connect(name: str, folder: Path) -> Tracker:
    """Returns the client of a tracker. folder: where a tracker that writes files puts them, unless
    its own settings (WANDB_DIR, MLFLOW_TRACKING_URI and so on) say otherwise.

    Raises UserError for an unknown name, or where the tracker's package is missing.
    """
    if name not in KINDS:
        raise UserError(f"{name!r}: a tracker is one of {', '.join(KINDS)}")
    package, make = KINDS[name]
    try:
        client = import_module(package)
    except ImportError as error:
        raise UserError(
            f"{name} needs the package {package}: pip install 'sweepd[{name}]' ({error})"
        ) from None
    return make(client, folder)
