"""Weights & Biases, and trackio, which has the same functions."""

from __future__ import annotations

import os
from inspect import signature
from pathlib import Path
from typing import Any

from sweepd.statuses import DONE
from sweepd.trackers.base import TrackedRun, Values


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


connect = WeightsAndBiases
