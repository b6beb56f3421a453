"""Ray Tune runs the trials: the only file that imports it.

Tune schedules, places and supervises; everything that must survive is in the store. Its own
state is disposable: continuing a sweep is a new Tune run over the trials that have not ended.
A trial is one actor's work in slices of about a second, so that results, interruption and
schedulers reach it between slices.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import re
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol, Self

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
    # Long enough for Ray to say whether it was a worker or its node that no longer answers.
    "RAY_timeout_ms_task_wait_for_death_info": "60000",
}
os.environ.update({name: value for name, value in SETTINGS.items() if name not in os.environ})

import ray  # noqa: E402 (its settings are read on import)
from ray import tune  # noqa: E402
from ray._private import ray_constants  # noqa: E402
from ray._private.utils import (  # noqa: E402
    detect_fate_sharing_support_linux,
    set_kill_on_parent_death_linux,
)
from ray.exceptions import RayError  # noqa: E402
from ray.tune.experiment import Trial as TuneTrial  # noqa: E402
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler  # noqa: E402
from ray.tune.search import Searcher  # noqa: E402
from ray.tune.stopper import TrialPlateauStopper  # noqa: E402

from sweepd.attempt import Attempt, ledger_columns, storable  # noqa: E402
from sweepd.errors import EnvironmentFailure  # noqa: E402
from sweepd.jury import Outcome  # noqa: E402
from sweepd.nodes import at_once, probe, reach  # noqa: E402
from sweepd.options import Goal, Place  # noqa: E402
from sweepd.plan import Trial, competitors  # noqa: E402
from sweepd.search import MOST_MOVES, Search  # noqa: E402
from sweepd.store import Store  # noqa: E402

SLICE_SECONDS = 1.0
"""How long a trial trains between two reports to Tune."""
NODE_LOST = re.compile("[Nn]ode has (died|crashed)|The actor .* is unavailable")
"""How Ray says that an actor was lost with its node, or that, after a minute, it can't tell."""
VITAL = (ray_constants.PROCESS_TYPE_GCS_SERVER, ray_constants.PROCESS_TYPE_RAYLET)
LOOK_SECONDS = 1.0
"""How often one looks whether these still run."""


@dataclass(frozen=True)
class Job:
    """What the workers need besides the trial: a few strings, and every trial by its index."""

    address: str
    sweep: str
    base: Path
    launch: int
    checkpoint_seconds: float
    trials: tuple[Trial, ...]
    goal: Goal
    """whose metric the rules watch that give up on trials"""
    attempt: type[Attempt] = Attempt
    """what runs a trial; a simulation brings its own"""
    tune: tuple[str, ...] = ()
    """nuisance axes, in which competitors differ"""
    in_full: frozenset[str] = frozenset()
    """ids of trials that no rule may give up on"""
    hang_seconds: float = 0.0
    """how long a trial may make no step before its worker is killed; 0: for ever"""
    record: Mapping[str, Any] | None = None
    """what every worker must read in the results of this launch; None where it can't but do so"""


class Listener(Protocol):
    """Who is told what happens. Called from the driver's thread."""

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        """A trial has trained on: `step`, and `acc` of its latest check."""

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        """An attempt has ended: `status`, `acc`, `loss`, `error`."""

    def lost_ray(self, reason: str) -> NoReturn:
        """Nothing can run or be stopped any more. From another thread; must end the process."""


class Worker(tune.Trainable):
    """An actor that runs one attempt after another.

    An attempt begins with its first step: Tune may set an actor up for a trial and then, before
    that, give the trial to an actor that has become free.
    """

    def setup(self, config: dict[str, Any], job: Job) -> None:  # type: ignore[override]
        if job.hang_seconds:  # the watchdog of _Workers begins once this has ended
            faulthandler.dump_traceback_later(job.hang_seconds, exit=True)
        if detect_fate_sharing_support_linux():  # type: ignore[no-untyped-call]
            # A driver that is killed takes its Ray with it, and so this worker at once. By itself
            # Ray takes seconds, in which a trial could end that the next driver has begun anew.
            set_kill_on_parent_death_linux()  # type: ignore[no-untyped-call]
        import torch

        self.job = job
        self.store = Store.open(job.address)
        self.device = config["device"]
        torch.set_num_threads(config["threads"])
        self.attempt: Attempt | None = None
        self.reached = False
        faulthandler.cancel_dump_traceback_later()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        return True

    def step(self) -> dict[str, Any]:
        try:
            attempt = self.attempt = self.attempt or self._begin()
            news = attempt.news()  # what an earlier attempt checked comes before any training
            if not news:
                attempt.advance(SLICE_SECONDS)
                news = attempt.news()
        except EnvironmentFailure as failure:  # no fault of the trial: the whole run ends
            self.attempt = None
            return {"status": None, "failure": str(failure), "checks": [], "done": True}
        return {
            "status": attempt.status,
            "acc": attempt.acc,
            "error": attempt.error,
            "step": attempt.latest.step if attempt.latest else 0,
            "loss": attempt.loss,
            "chain_acc": attempt.score and attempt.score.chain_acc,
            "total": attempt.score and attempt.score.total,
            "checks": [(check.step, getattr(check, self.job.goal.metric)) for check in news],
            "failure": None,
            "done": attempt.status is not None,
        }

    def give_up(self) -> None:
        """End the attempt as `stopped`, where a rule that Tune runs has given up on the trial."""
        assert self.attempt is not None
        self.attempt.give_up()

    def cleanup(self) -> None:
        """Whoever takes this actor from an unfinished attempt interrupts it."""
        if self.attempt:
            self.attempt.interrupt()
            self.attempt = None

    def _begin(self) -> Attempt:
        if self.job.record and not self.reached:  # a node may have come after the probe
            reach(self.job.address, self.job.launch, self.job.record)
            self.reached = True
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
        self,
        job: Job,
        search: Search,
        listener: Listener,
        worker: dict[str, Any],
        end: _EndOfRun,
    ) -> None:
        super().__init__(metric="step", mode="max")
        self.job, self.search, self.listener, self.worker = job, search, listener, worker
        self.end = end
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
            return  # _Workers knows why
        if result and result["failure"]:
            self.end.failure = self.end.failure or result["failure"]
        elif result and result["status"] is None:  # signals end the run without this call
            self.search.ended(trial, Outcome("stopped"))
            self.listener.ended(trial, {**result, "status": "stopped", "acc": None})
        elif result:
            score = result[self.search.plan.grid.goal.metric]
            self.search.ended(trial, Outcome(result["status"], score, result["total"]))
            self.listener.ended(trial, result)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the truth."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the truth."""


class _Workers(_Disposable, tune.Callback):
    """Watches over the workers: kills those that hang, and records the attempts that could not do
    so themselves: `failed` if their worker was killed, `interrupted`, to go on elsewhere, if their
    node was lost."""

    def __init__(
        self, job: Job, search: Search, store: Store, listener: Listener, end: _EndOfRun
    ) -> None:
        self.job, self.search, self.store = job, search, store
        self.listener, self.end = listener, end
        self.now, self.looked = 0.0, time.monotonic()
        self.moved: dict[TuneTrial, float] = {}
        """when each trial that runs last made a step"""
        self.hung: set[TuneTrial] = set()

    def on_step_begin(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        # A clock that stands still while the driver is held up: what its workers have reported
        # meanwhile is still to be read.
        looked = time.monotonic()
        self.now += min(looked - self.looked, 1.0)
        self.looked = looked
        if self.job.hang_seconds:
            for trial in [t for t, at in self.moved.items() if self._hangs(at)]:
                self.hung.add(trial)
                del self.moved[trial]
                worker: Any = trial.temporary_state.ray_actor
                ray.kill(worker)

    def _hangs(self, moved: float) -> bool:
        return self.now - moved > self.job.hang_seconds

    def on_trial_start(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        self.moved[trial] = self.now

    def on_trial_result(
        self,
        iteration: int,
        trials: list[TuneTrial],
        trial: TuneTrial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        self.moved[trial] = self.now

    def on_trial_complete(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        self.moved.pop(trial, None)

    def on_trial_error(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        self.moved.pop(trial, None)
        lost, number = self.job.trials[trial.config["index"]], trial.config["attempt"]
        status, error = "failed", self._reason(trial)
        if NODE_LOST.search(error) and self.search.moves[lost.id] < MOST_MOVES:
            status, error = "interrupted", f"its node was lost: {error}"
        ending = {"status": status, "acc": None, "loss": None, "error": error}
        self.search.ended(lost, Outcome(status))
        try:
            self.store.append_log(lost.id, f"attempt {number}: {error}\n")
            columns = ledger_columns(lost, number, self.job.sweep)
            self.store.write_trials([{**columns, **ending}])
        except EnvironmentFailure as failure:
            self.end.failure = self.end.failure or str(failure)
        else:
            self.listener.ended(lost, ending)

    def _reason(self, trial: TuneTrial) -> str:
        """Why the worker was lost; the first line of Tune's account only counts failures."""
        if trial in self.hung:
            return (
                f"no step for {self.job.hang_seconds:g} s (hang_seconds) after step "
                f"{trial.last_result.get('step', 0)}: its worker was killed"
            )
        account = Path(trial.error_file).read_text() if trial.error_file else ""
        return storable(account.partition("\n")[2].strip()) or "the worker was lost"


class _Rules(_Disposable, FIFOScheduler):
    """First in, first out, giving up on trials by Tune's own rules where the grid asks for it.

    A freed actor is not taken to a trial whose own is starting. FIFO offers the oldest pending
    trial; Tune then gives it the freed actor and kills the one being started for it, so that
    trials shorter than an actor's start end up running one at a time. With nothing offered,
    pending trials start by Tune's other path, in the same order. Only for rules that never pause
    a trial.
    """

    def __init__(self, job: Job) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.job = job
        self.mode = "min" if job.goal.comparison.startswith("<") else "max"
        self.horizon = max(trial.train.steps for trial in job.trials)
        self.heard: dict[str, int] = {}
        """the last check of each trial: one tried again starts before it"""
        self.plateaus: dict[tuple[Any, ...], TrialPlateauStopper] = {}
        self.rungs: dict[tuple[Any, ...], Any] = {}
        """an AsyncHyperBandScheduler for each group of competitors"""

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        return None

    def on_trial_result(
        self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]
    ) -> str:
        ours = self.job.trials[trial.config["index"]]
        against = [self._against(ours, *check) for check in result["checks"]]
        if any(against) and ours.id not in self.job.in_full and self._stopped(trial):
            return str(self.STOP)
        return str(self.CONTINUE)

    def on_trial_complete(
        self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]
    ) -> None:
        ours = self.job.trials[trial.config["index"]]
        for check in result["checks"]:
            self._against(ours, *check)

    def _against(self, trial: Trial, step: int, value: float) -> bool:
        """Whether a rule gives up on the trial at this check."""
        if step <= self.heard.get(trial.id, 0):
            return False
        self.heard[trial.id] = step
        stands_still = trial.stop.plateau and self._plateau(trial)(trial.id, {"value": value})
        behind = trial.stop.asha and self._falls_behind(trial, step, value)
        return bool(stands_still or behind)

    def _plateau(self, trial: Trial) -> TrialPlateauStopper:
        rule, every = trial.stop.plateau, trial.evaluate.check_every
        assert rule is not None
        if (rule, every) not in self.plateaus:
            self.plateaus[rule, every] = TrialPlateauStopper(
                "value", rule.std, num_results=rule.checks, grace_period=ceil(rule.grace / every)
            )
        return self.plateaus[rule, every]

    def _falls_behind(self, trial: Trial, step: int, value: float) -> bool:
        rule, group = trial.stop.asha, competitors(trial, self.job.tune)
        assert rule is not None
        if group not in self.rungs:
            self.rungs[group] = AsyncHyperBandScheduler(
                time_attr="step",
                metric="value",
                mode=self.mode,
                max_t=max(self.horizon, rule.grace),
                grace_period=rule.grace,
                reduction_factor=rule.reduction,
                stop_last_trials=False,
            )
        rungs, nobody = self.rungs[group], None
        known_as = SimpleNamespace(trial_id=trial.id)  # tried again, it is no new competitor
        rungs.on_trial_add(nobody, known_as)
        decision = rungs.on_trial_result(nobody, known_as, {"step": step, "value": value})
        return bool(decision == self.STOP)

    def _stopped(self, trial: TuneTrial) -> bool:
        """Have the worker end the attempt before Tune takes the trial from it: it alone knows
        where the trial stands. Whatever keeps it from doing so comes up again as it trains on."""
        try:
            worker: Any = trial.temporary_state.ray_actor
            ray.get(worker.give_up.remote(), timeout=self.job.hang_seconds or None)
        except RayError:
            return False
        return True


class _EndOfRun(_Disposable, tune.Stopper):
    """Ends the run once the driver was asked to stop, or when results can't be written."""

    def __init__(self, stopping: threading.Event) -> None:
        self.stopping = stopping
        self.failure: str | None = None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.failure is not None or self.stopping.is_set()


class _NoFolders(list[str]):
    """What Ray puts in front of every worker's sys.path: nothing. The current folder, which it
    would add, may hold files of any name, and these would be imported in place of libraries."""

    def extend(self, folders: Iterable[str]) -> None:
        """Nothing is added."""


def start_ray(address: str | None) -> None:
    """Join the Ray at an address, or start a private one on this machine, seen by nobody else.

    The ports of a private one are open on the loopback interface only (Ray's own way on macOS),
    and ask for a token that other users of the machine do not have.
    EnvironmentFailure if there is none to join.
    """
    where: dict[str, Any] = {"address": address}
    if not address:
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex()
        ray_constants.ENABLE_RAY_CLUSTER = False
        job = ray.job_config.JobConfig()
        job._py_driver_sys_path = _NoFolders()
        where = {"address": "local", "job_config": job, "include_dashboard": False}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # While Ray starts, its own handler of SIGTERM would end this process with exit code 15.
    ray._private.utils.set_sigterm_handler = lambda handler: None
    try:
        ray.init(**where, log_to_driver=False, configure_logging=True, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises bare ones too, such as when a process starts too slowly
        what = f"no Ray to join at {address}" if address else "Ray did not start"
        raise EnvironmentFailure(f"{what}: {error}") from error
    logging.getLogger("ray.tune.tune").setLevel(logging.CRITICAL)  # lost workers are ours to report
    for number, handler in handlers.items():  # Ray's C++ part would abort the process on SIGTERM
        signal.signal(number, handler)


@contextlib.contextmanager
def _watched(lost: Callable[[str], NoReturn]) -> Iterator[None]:
    """Calls `lost` as soon as a private Ray is broken. Ray itself would end this process, after up
    to a minute, with the exit code that stands for failed trials."""
    node: Any = ray._private.worker._global_node
    over = threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            for name, process in node.dead_processes():
                if name in VITAL and not over.is_set():
                    lost(f"Ray's {name} has died ({process.returncode})")

    threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def run(
    job: Job,
    search: Search,
    store: Store,
    place: Place,
    listener: Listener,
    stopping: threading.Event,
) -> None:
    """Run the search to its end, or until `stopping` is set. Success is judged by the ledger.

    EnvironmentFailure if results can't be written: whatever runs is given up then.
    """
    if not ray.is_initialized():
        start_ray(place.ray)
    if place.ray:
        probe(store, job.launch, place, stopping)
        job = replace(job, record=store.launch(job.launch))
    per_trial = place.per_trial
    worker = {
        "threads": max(1, int(per_trial.cpus)),
        "device": "cuda" if per_trial.gpus else "cpu",
    }
    end = _EndOfRun(stopping)
    with tempfile.TemporaryDirectory(prefix="sweepd-tune-") as scratch:
        tuner = tune.Tuner(
            tune.with_resources(
                tune.with_parameters(Worker, job=job),
                {"cpu": per_trial.cpus, "gpu": per_trial.gpus},
            ),
            tune_config=tune.TuneConfig(
                search_alg=_Suggestions(job, search, listener, worker, end),
                scheduler=_Rules(job),
                num_samples=-1,
                max_concurrent_trials=at_once(place),
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                name="sweep",
                storage_path=scratch,
                callbacks=[_Workers(job, search, store, listener, end)],
                stop=end,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                failure_config=tune.FailureConfig(max_failures=0),
                verbose=0,
            ),
        )
        watched = contextlib.nullcontext() if place.ray else _watched(listener.lost_ray)
        with watched, contextlib.redirect_stdout(None):  # there Ray prints pages about a lost node
            tuner.fit()
    if end.failure:
        raise EnvironmentFailure(f"{end.failure}; launch again once that is mended")
