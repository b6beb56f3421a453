"""Ray Tune runs the trials: the only file that imports it.

Tune schedules, places and supervises; everything that must survive is in the store. Its own
state is disposable: continuing a sweep is a new Tune run over the trials that have not ended.
A trial is one actor's work in slices of about a second, so that results, interruption and
schedulers reach it between slices.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

SETTINGS = {
    # Tune's own records are not ours: no CSV, JSON and TensorBoard files, no state snapshots
    # (each rewrites one JSON of all trials), no change of the working directory.
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "100000000",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    # Signals are the driver's to handle.
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_TRAIN_ENABLE_V2_MIGRATION_WARNINGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
os.environ.update({name: value for name, value in SETTINGS.items() if name not in os.environ})

import ray  # noqa: E402 (its settings are read on import)
from ray import tune  # noqa: E402
from ray.tune.experiment import Trial as TuneTrial  # noqa: E402
from ray.tune.schedulers import FIFOScheduler  # noqa: E402
from ray.tune.search import Searcher  # noqa: E402

from sweepd.attempt import Attempt, ledger_columns  # noqa: E402
from sweepd.errors import EnvironmentFailure  # noqa: E402
from sweepd.jury import Outcome  # noqa: E402
from sweepd.options import Resources  # noqa: E402
from sweepd.plan import Trial  # noqa: E402
from sweepd.search import Search  # noqa: E402
from sweepd.store import Store  # noqa: E402

SLICE_SECONDS = 1.0
"""How long a trial trains between two reports to Tune."""


@dataclass(frozen=True)
class Job:
    """What the workers need besides the trial: a few strings, and every trial by its index."""

    address: str
    sweep: str
    base: Path
    launch: int
    checkpoint_seconds: float
    trials: tuple[Trial, ...]
    attempt: type[Attempt] = Attempt
    """what runs a trial; a simulation brings its own"""


class Listener(Protocol):
    """Who is told what happens. Called from the driver's thread."""

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        """A trial has trained on: `step`, and `acc` of its latest check."""

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        """An attempt has ended: `status`, `acc`, `loss`, `error`."""


class Worker(tune.Trainable):
    """An actor that runs one attempt after another.

    An attempt begins with its first step: Tune may set an actor up for a trial and then, before
    that, give the trial to an actor that has become free.
    """

    def setup(self, config: dict[str, Any], job: Job) -> None:  # type: ignore[override]
        import torch

        self.job = job
        self.store = Store.open(job.address)
        self.device = config["device"]
        torch.set_num_threads(config["threads"])
        self.attempt: Attempt | None = None

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        return True

    def step(self) -> dict[str, Any]:
        attempt = self.attempt = self.attempt or self._begin()
        attempt.advance(SLICE_SECONDS)
        return {
            "status": attempt.status,
            "acc": attempt.acc,
            "error": attempt.error,
            "step": attempt.latest.step if attempt.latest else 0,
            "loss": attempt.loss,
            "chain_acc": attempt.score and attempt.score.chain_acc,
            "total": attempt.score and attempt.score.total,
            "done": attempt.status is not None,
        }

    def cleanup(self) -> None:
        """Whoever takes this actor from an unfinished attempt interrupts it."""
        if self.attempt:
            self.attempt.interrupt()
            self.attempt = None

    def _begin(self) -> Attempt:
        return self.job.attempt(
            self.store,
            self.job.trials[self.config["index"]],
            self.config["attempt"],
            self.job.sweep,
            self.job.base,
            self.device,
            self.job.checkpoint_seconds,
        )


class _Disposable:
    """A part of a Tune run that is not carried over: pickled (Tune does, to restore runs, which
    we never do) it is nothing, copied it is itself."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return object, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class _Suggestions(_Disposable, Searcher):
    """Hands the search's trials to Tune and their endings back."""

    def __init__(
        self, job: Job, search: Search, listener: Listener, worker: dict[str, Any]
    ) -> None:
        super().__init__(metric="step", mode="max")
        self.job, self.search, self.listener, self.worker = job, search, listener, worker
        self.index = {trial.id: i for i, trial in enumerate(job.trials)}
        self.out: dict[str, Trial] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        trial = self.search.next()
        if trial is None:
            return Searcher.FINISHED if self.search.finished else None
        self.out[trial_id] = trial
        attempt = self.job.launch * 1000 + self.search.tries[trial.id]
        return {"index": self.index[trial.id], "attempt": attempt, **self.worker}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        if result["status"] is None:
            self.listener.running(self.out[trial_id], result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        trial = self.out.pop(trial_id)
        if error:
            self.search.ended(trial, Outcome("failed"))
        elif result and result["status"] is not None:
            score = result[self.search.plan.grid.goal.metric]
            self.search.ended(trial, Outcome(result["status"], score, result["total"]))
            self.listener.ended(trial, result)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the truth."""


class _LostWorkers(_Disposable, tune.Callback):
    """Records the attempts that could not do so themselves: their worker was killed or lost."""

    def __init__(self, job: Job, store: Store, listener: Listener) -> None:
        self.job, self.store, self.listener = job, store, listener

    def on_trial_error(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        lost = self.job.trials[trial.config["index"]]
        ending = {"status": "failed", "acc": None, "loss": None, "error": _reason(trial)}
        columns = ledger_columns(lost, trial.config["attempt"], self.job.sweep)
        self.store.write_trials([{**columns, **ending}])
        self.listener.ended(lost, ending)


def _reason(trial: TuneTrial) -> str:
    """Tune's account of why an actor was lost; its first line only counts failures."""
    account = Path(trial.error_file).read_text() if trial.error_file else ""
    return account.partition("\n")[2].strip() or "the worker was lost"


class _NoTheft(FIFOScheduler):
    """First in, first out, without taking a freed actor to a trial whose own is starting.

    FIFO offers the oldest pending trial; Tune then gives it the freed actor and kills the one
    being started for it, so that trials shorter than an actor's start end up running one at a
    time. With nothing offered, pending trials start by Tune's other path, in the same order.
    Only for schedules that never pause a trial.
    """

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        return None


class _StopWhen(_Disposable, tune.Stopper):
    """Ends the run once the driver was asked to stop."""

    def __init__(self, stopping: threading.Event) -> None:
        self.stopping = stopping

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.stopping.is_set()


def start_ray() -> None:
    """A private Ray on this machine, seen by nobody else, quiet."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=True,
        logging_level=logging.ERROR,
    )
    for number, handler in handlers.items():  # Ray's own would abort the process on SIGTERM
        signal.signal(number, handler)


def run(
    job: Job,
    search: Search,
    store: Store,
    per_trial: Resources,
    listener: Listener,
    stopping: threading.Event,
) -> None:
    """Run the search to its end, or until `stopping` is set. Success is judged by the ledger."""
    if not ray.is_initialized():
        start_ray()
    worker = {
        "threads": max(1, int(per_trial.cpus)),
        "device": "cuda" if per_trial.gpus else "cpu",
    }
    suggestions = _Suggestions(job, search, listener, worker)
    with tempfile.TemporaryDirectory(prefix="sweepd-tune-") as scratch:
        tuner = tune.Tuner(
            tune.with_resources(
                tune.with_parameters(Worker, job=job),
                {"cpu": per_trial.cpus, "gpu": per_trial.gpus},
            ),
            tune_config=tune.TuneConfig(
                search_alg=suggestions,
                scheduler=_NoTheft(),  # type: ignore[no-untyped-call]
                num_samples=-1,
                max_concurrent_trials=slots(per_trial),
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=scratch,
                callbacks=[_LostWorkers(job, store, listener)],
                stop=_StopWhen(stopping),
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=0),
                verbose=0,
            ),
        )
        tuner.fit()


def slots(per_trial: Resources) -> int:
    """How many trials the Ray at hand runs at once.

    EnvironmentFailure if not even one: Ray itself would wait for more hardware without a word.
    """
    have = ray.cluster_resources()  # type: ignore[no-untyped-call]
    counts = []
    for name, key, wanted in (("cores", "CPU", per_trial.cpus), ("GPUs", "GPU", per_trial.gpus)):
        there = have.get(key, 0)
        if wanted > there:
            raise EnvironmentFailure(
                f"a trial asks for {wanted:g} {name}, and there are {there:g}: "
                "change `resources` in the grid or `per_trial` in the cluster file"
            )
        if wanted:
            counts.append(int(there / wanted))
    return min(counts)
