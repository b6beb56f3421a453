"""Runs trials one after the other in the driver's own process, without Ray.

It is for people who look at their own code (a debugger, `breakpoint()` and prints work as in any
script), and for tests. The events, the rows and the numbers are those of Ray Tune's runner. What
needs a process of its own is missing: a trial that hangs is noted in its log and not killed, and
one that ends the process ends the launch, which the same command continues.
"""

from __future__ import annotations

import threading
import traceback
from bdb import BdbQuit
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.placement import Placement
from sweepd.grid.trials import Trial
from sweepd.run.hanging import stepping
from sweepd.run.own_code import as_launched, launch_copy
from sweepd.run.rules import GivingUp
from sweepd.run.runner import Bundle, Listener
from sweepd.search.base import Search
from sweepd.search.seeds import Outcome
from sweepd.store.store import Store
from sweepd.trial.attempt import Attempt

SLICE_SECONDS = 1.0
"""The seconds that a trial trains between two reports. An interruption is heard between them."""


class OpenAttempt(Attempt):
    """An attempt whose code prints to the terminal and may stop in a debugger."""

    @contextmanager
    def _printing(self) -> Iterator[None]:
        yield

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, BdbQuit):  # somebody left the debugger, and wants the launch to end
            self._end("interrupted", "the debugger was left")
            return
        if not isinstance(error, UserError):
            traceback.print_exception(error)
        super()._fail(error)


def run(
    search: Search,
    trials: Sequence[Trial],
    store: Store,
    launch: int,
    placement: Placement,
    listener: Listener,
    stopping: threading.Event,
) -> None:
    """Runs the search of these trials to its end, or until `stopping` is set, as `Runner` says."""
    grid, per_trial = search.plan.grid, placement.per_trial
    listener.preparing("importing the trials' code")
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, int(per_trial.cpus)))
    device = "cuda" if per_trial.gpus else "cpu"
    rules = GivingUp(grid, trials, search.in_full)
    classes = tuple(dict.fromkeys(trial.classes for trial in trials))
    try:
        with ExitStack() as held:
            base, copy = None, None
            while not stopping.is_set() and (bundle := Bundle.next(search, launch)):
                for trial, number in zip(bundle.trials, bundle.attempts, strict=True):
                    name, folder, codes = grid.name, grid.base, search.plan.codes
                    if trial.program and not (copy or trial.program.in_place):
                        copy = launch_copy(name, folder, codes, store, launch)
                        held.callback(copy.close)
                    if base is None:
                        base, changed = as_launched(name, classes, folder, codes, store, held)
                    attempt = OpenAttempt(
                        store,
                        trial,
                        number,
                        grid.name,
                        base,
                        device,
                        grid.checkpoint_seconds,
                        per_trial,
                        grid.hang_seconds,
                        launch_copy=copy,
                    )
                    if changed:
                        attempt.note(changed)
                    _train(attempt, rules, grid.goal.metric, listener, stopping)
                    report = attempt.report()
                    if attempt.status != "interrupted":
                        search.ended(trial, Outcome.of(report, grid.goal.metric))
                    listener.ended(trial, report)
    except EnvironmentFailure as failure:
        raise EnvironmentFailure(f"{failure}; launch again once that is mended") from failure
    finally:
        torch.set_num_threads(threads)


def _train(
    attempt: Attempt,
    rules: GivingUp,
    metric: str,
    listener: Listener,
    stopping: threading.Event,
) -> None:
    """Runs an attempt to its end. It ends as `stopped` once a rule gives up on the trial, and as
    `interrupted` once `stopping` is set, which leaving the debugger does too."""
    attempt.begin()
    while attempt.status is None:
        # The checks of an earlier attempt are heard before any training.
        if not (news := attempt.news()):
            with stepping(attempt.hang_seconds, attempt.note):
                attempt.advance(SLICE_SECONDS)
            news = attempt.news()
        checks = [(check.step, check.scores.get(metric)) for check in news]
        given_up = rules.hear(attempt.trial, checks)
        if attempt.status is not None:
            break
        listener.running(attempt.trial, attempt.report())
        if given_up:
            attempt.give_up()
        elif stopping.is_set():
            attempt.interrupt()
    if attempt.status == "interrupted":
        stopping.set()
