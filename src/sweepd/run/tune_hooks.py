"""What Ray Tune calls while it runs trials: its searcher, callback, scheduler and stopper.

Tune schedules, places and supervises. Everything that must survive is in the store.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Self

import ray
from ray import tune
from ray.exceptions import RayError
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher

from sweepd.errors import EnvironmentFailure
from sweepd.grid.fingerprint import is_program
from sweepd.grid.placement import Placement
from sweepd.grid.spec import Grid
from sweepd.grid.trials import Trial
from sweepd.listing import duration
from sweepd.ray_private import (
    actor_of,
    autoscaler_news,
    forget_ended,
    give_time_to_save,
    has_a_place,
    last_words,
    workers_that_did_not_start,
)
from sweepd.run.hanging import dumped_at
from sweepd.run.rules import GivingUp
from sweepd.run.runner import Bundle, Listener
from sweepd.search.base import MOST_MOVES, Search
from sweepd.search.seeds import Outcome
from sweepd.store.store import Store
from sweepd.trial.attempt import ledger_columns, log_line, storable
from sweepd.trial.program import GRACE_SECONDS

NODE_LOST = re.compile("[Nn]ode has (died|crashed)|The actor .* is unavailable")
"""A pattern of Ray's errors about an actor that was lost with its node. It also matches the error
for an actor of which Ray could not find out within a minute whether it was lost."""

LOW_MEMORY = re.compile(r"OutOfMemoryError: .* was (\S+) used / (\S+) limit")
"""A pattern of Ray's account of a worker that it killed for its node's memory. Pages follow."""

KILLED = "Worker unexpectedly exits with a connection error"
"""What Ray's account says of a worker that ended without a word."""

FATAL = re.compile(r"^(?:Fatal Python error: |(?=os\._exit\(|Timeout \())(.+)$", re.MULTILINE)
"""What a worker's standard error says of its end. The frames follow, innermost first."""

HANG_CHECK_SECONDS = 1.0
"""The seconds after which it is looked again which trials hang. There may be thousands."""
SAVE_SECONDS = 10.0
"""The seconds that a worker gets to save its trial once its slice is over."""

MOST_UNFIT = 3
"""The number of workers in a row, whose cards cannot be used, that ends a launch."""
TELL_SECONDS = 60.0
"""The seconds after which it is said again why no trial runs."""
AT_A_LOSS = (
    "; `sweepd doctor --cluster FILE` looks for what is missing, and `start_seconds` in that file "
    "says how long to wait"
)
"""What to do where nothing has started for `start_seconds`."""


def no_worker(seconds: float) -> str:
    """Returns why no worker has started for so long on nodes with room, as Ray tells it."""
    why = workers_that_did_not_start()[1] or "Ray says nothing of it here"
    return f"Ray has started no worker on its nodes for {duration(seconds)}: {why}"


class Disposable:
    """A part of a Tune run that is never saved. Tune pickles its parts so that a run can be
    restored, which sweepd never does: this part is pickled as an empty object."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return object, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class Suggestions(Disposable, Searcher):
    """Hands the search's trials to Tune. What becomes of them the supervisor hears, and nothing is
    saved, since the ledger is the truth."""

    def __init__(self, search: Search, launch: int, worker: dict[str, Any]) -> None:
        super().__init__()
        self.search, self.launch, self.worker = search, launch, worker

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:  # type: ignore[override]
        bundle = Bundle.next(self.search, self.launch)
        if bundle is None:
            return Searcher.FINISHED if self.search.finished else None
        return {"bundle": bundle, **self.worker}

    def on_trial_complete(self, *event: Any, **info: Any) -> None: ...
    def save(self, checkpoint_path: str) -> None: ...
    def restore(self, checkpoint_path: str) -> None: ...


def trial_of(trial: TuneTrial) -> Trial:
    """Returns our trial that one of Tune's trials runs."""
    bundle: Bundle = trial.config["bundle"]
    [ours] = bundle.trials
    return ours


class Supervisor(Disposable, tune.Callback, tune.Stopper):
    """Tells the search and the listener what becomes of trials, kills workers that hang, records
    the ending of attempts whose workers are gone, and ends the run.

    Such an attempt is `failed` if its worker was killed. It is `interrupted`, and goes on
    elsewhere, if its node was lost. The run ends once the driver is asked to stop, or when nothing
    can be run or written any more.
    """

    def __init__(
        self,
        search: Search,
        store: Store,
        listener: Listener,
        stopping: threading.Event,
        placement: Placement,
        has_room: Callable[[], bool],
    ) -> None:
        """has_room: whether there is a node that can hold a trial, be it busy or not."""
        self.search, self.store, self.listener, self.stopping = search, store, listener, stopping
        self.placement, self.has_room = placement, has_room
        self.hang_seconds = search.plan.grid.hang_seconds
        self.failure: str | None = None
        self.unfit = 0
        """How many workers in a row could not use their cards."""
        self.now, self.looked = 0.0, time.monotonic()
        self.checked = 0.0
        """When it was last looked which trials hang."""
        self.moved: dict[TuneTrial, float] = {}
        """For each trial that runs, the time at which it last made a step."""
        self.hung: set[TuneTrial] = set()
        self.worked = False
        """Whether a worker of this run has been set up."""
        self.not_started: int | None = None
        """How often Ray had given up on a worker when one last ran."""
        self.idle_since = self.told = self.looked
        """When a trial last ran, and when it was last said why none does."""
        self.reached: dict[str, tuple[int, int]] = {}
        """For each trial that has lost a node, the step of its newest checkpoint when it last did,
        and how often it had lost one since there was a newer one."""

    def fail(self, reason: str) -> None:
        """Ends the run for this reason, the first to come."""
        self.failure = self.failure or reason

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.failure is not None or self.stopping.is_set()

    def on_step_begin(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        # The clock passes at most a second while the driver is held up, since what its workers have
        # reported meanwhile is still to be read.
        looked = time.monotonic()
        self.now += min(looked - self.looked, 1.0)
        self.looked = looked
        if self.now - self.checked < HANG_CHECK_SECONDS:
            return
        self.checked = self.now
        if self.moved or not self.search.in_flight or not self.placement.ray:
            self.idle_since = self.told = looked
        elif looked - self.told >= min(TELL_SECONDS, self.placement.start_seconds):
            self.told = looked
            room = self.has_room()
            if room and not has_a_place():  # it is busy with other sweeps
                self.idle_since = looked
            else:
                seconds = looked - self.idle_since
                why = "; ".join(autoscaler_news()) or "Ray's autoscaler says nothing of it"
                waits = f"no node that can run a trial has come for {duration(seconds)}: {why}"
                if room:
                    waits = no_worker(seconds)
                self.listener.preparing(waits)
                if seconds >= self.placement.start_seconds:
                    self.fail(waits + AT_A_LOSS)
        if self.hang_seconds:
            for trial, moved in list(self.moved.items()):
                if self.now - moved > self.hang_seconds:
                    self.hung.add(trial)
                    del self.moved[trial]
                    ray.kill(actor_of(trial))
        if not self.placement.ray:  # all workers are of this launch
            count, said = workers_that_did_not_start()
            if self.moved or self.not_started is None:
                self.not_started = count
            elif count > self.not_started:
                self.fail(f"Ray's workers do not start: {said}")

    def on_trial_start(self, iteration: int, trials: Any, trial: TuneTrial, **info: Any) -> None:
        self.moved[trial] = self.now
        self.worked = True

    def on_trial_result(
        self, iteration: int, trials: Any, trial: TuneTrial, result: Any, **info: Any
    ) -> None:
        self.moved[trial] = self.now
        if not result["done"]:
            self.unfit = 0
            self.listener.running(trial_of(trial), result["report"])

    def on_trial_complete(self, iteration: int, trials: Any, trial: TuneTrial, **info: Any) -> None:
        self.moved.pop(trial, None)
        ended, result = trial_of(trial), trial.last_result
        report = result["report"]
        if result["failure"]:
            self.fail(result["failure"])
        elif unfit := result["unfit"]:
            self.unfit += 1
            if self.unfit == MOST_UNFIT:
                self.fail(unfit)
            self.search.ended(ended, Outcome("interrupted"))
        elif report["status"] is None:  # a rule gave up on it; signals end the run without this
            self.search.ended(ended, Outcome("stopped"))
            unscored = dict.fromkeys(ended.metrics)
            self.listener.ended(ended, {**report, **unscored, "status": "stopped"})
        else:
            self.search.ended(ended, Outcome.of(report, self.search.plan.grid.goal.metric))
            self.listener.ended(ended, report)

    def on_trial_error(self, iteration: int, trials: Any, trial: TuneTrial, **info: Any) -> None:
        self.moved.pop(trial, None)
        lost, [number] = trial_of(trial), trial.config["bundle"].attempts
        if trial in self.hung:
            step = trial.last_result.get("report", {}).get("step", 0)
            account = (
                f"no step for {self.hang_seconds:g} s (hang_seconds); the last that it "
                f"reported was {step}: its worker was killed"
            )
        else:  # the first line of Tune's account only counts failures
            written = Path(trial.error_file).read_text() if trial.error_file else ""
            account = storable(written.partition("\n")[2].strip()) or "the worker was lost"
            words = last_words(account)
            if fatal := FATAL.search(words):
                at = dumped_at(words[fatal.start() :])
                account = f"{f'{at}: ' if at else ''}its process died: {fatal[1]}\n{account}"
            elif KILLED in account:
                account = (
                    "its process was killed, as the kernel does where the memory of a job or of a "
                    f"container is spent: have more of it, or fewer trials at once\n{account}"
                )
        status, error = "failed", account
        if low := LOW_MEMORY.search(account):
            error = (
                "Ray killed its worker, since {} of its node's {} of memory were used: give trials "
                "more cores (resources.cpus), so that fewer run at once".format(*low.groups())
            )
        elif NODE_LOST.search(error) and self._may_move(lost, trial.last_result.get("saved", 0)):
            status, error = "interrupted", f"its node was lost: {error}"
        ending = {"status": status, "acc": None, "loss": None, "error": error}
        self.search.ended(lost, Outcome(status))
        if not self.worked and lost.id in self.search.abandoned:
            self.fail(f"no worker can be set up: {error}")
        try:
            self.store.append_log(lost.id, log_line(number, account))
            columns = ledger_columns(lost, number, self.search.plan.grid.name)
            self.store.write_trials([{**columns, **ending}])
        except EnvironmentFailure as failure:
            self.fail(str(failure))
        else:
            self.listener.ended(lost, ending)

    def _may_move(self, trial: Trial, saved: int) -> bool:
        """Returns whether a trial goes on elsewhere. saved: the step of its newest checkpoint."""
        before, count = self.reached.get(trial.id, (0, 0))
        self.reached[trial.id] = max(saved, before), 0 if saved > before else count + 1
        return self.reached[trial.id][1] <= MOST_MOVES


class NoProgress(Disposable, TrialProgressCallback):
    """Takes the place of the callback that Tune adds for itself, which prints nothing here, and
    which keeps every trial to the end of a run. This one does nothing."""

    def log_result(self, *event: Any, **info: Any) -> None: ...
    def on_trial_complete(self, *event: Any, **info: Any) -> None: ...


class Rules(Disposable, FIFOScheduler):
    """Runs trials first in, first out, and gives up on some by Tune's rules where the grid asks for
    it.

    A freed actor is not given to a trial whose own actor is starting. FIFO would offer the oldest
    pending trial. Tune would then give it the freed actor and kill the one that is being started
    for it, so that trials shorter than an actor's start would end up running one at a time. So
    nothing is offered, and pending trials start by Tune's other path, in the same order. This works
    only with rules that never pause a trial.
    """

    def __init__(
        self,
        grid: Grid,
        trials: Sequence[Trial],
        in_full: Collection[str] = (),
        slice_seconds: float = 0.0,
    ) -> None:
        """in_full: the ids of trials that no rule may give up on."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.grid, self.slice_seconds = grid, slice_seconds
        self.rules = GivingUp(grid, trials, in_full)
        self.ended: dict[TuneTrial, None] = {}
        """Trials that Tune may forget, in the order in which they ended."""

    def on_trial_add(self, tune_controller: Any, trial: TuneTrial) -> None:
        grace = GRACE_SECONDS if is_program(trial_of(trial).loop_where) else 0.0
        give_time_to_save(tune_controller, self.slice_seconds + SAVE_SECONDS + grace)

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        forget_ended(tune_controller, self.ended)

    def on_trial_result(
        self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]
    ) -> str:
        if not self.rules.hear(trial_of(trial), result["checks"]):
            return str(self.CONTINUE)
        # The worker ends the attempt before Tune takes the trial away, since only the worker knows
        # where the trial stands. If it cannot, the reason shows as the trial trains on.
        try:
            ray.get(actor_of(trial).give_up.remote(), timeout=self.grid.hang_seconds or None)
        except RayError:
            return str(self.CONTINUE)
        return str(self.STOP)

    def on_trial_complete(
        self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]
    ) -> None:
        self.ended[trial] = None
        self.rules.hear(trial_of(trial), result["checks"])  # others are compared with it

    def on_trial_error(self, tune_controller: Any, trial: TuneTrial) -> None:
        self.ended[trial] = None
