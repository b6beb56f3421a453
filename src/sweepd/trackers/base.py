"""What an experiment tracker is told of running trials, without waiting for it (`Forwarder`), and
of a store (`hand_over`).

A tracker is somebody else's program: TensorBoard, Weights & Biases, MLflow, trackio (`clients`).
sweepd's own store does not depend on one. A tracker may hang, fail or fill its disk, and the sweep
goes on. Each is called from a thread of its own. When a call fails, the person is told once, and
this tracker is left alone from then on.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, Protocol

from sweepd.listing import Row
from sweepd.query.cells_sql import quoted

if TYPE_CHECKING:
    from sweepd.grid.trials import Trial
    from sweepd.query.database import Views
    from sweepd.store.storage import Damaged

LOGGED = ("loss", "acc", "lr", "tokens", "seconds", "train_flops")
FINAL = ("loss", "acc", "chain_acc", "train_flops", "seconds")
COSTS = ("seed", "size", "L", "params", "flops", "code")
Values = Mapping[str, float]
"""Numbers by their names; none is NaN or infinite."""


@dataclass(frozen=True)
class TrackedRun:
    """A trial as trackers know it. name: for people, its task, model, and what differs in the
    sweep. settings: its axes, seed and costs."""

    id: str
    name: str
    sweep: str
    settings: Mapping[str, Any]


class Tracker(Protocol):
    """The client of a tracker. It may be told of runs in any order, and of several at a time."""

    def begin(self, run: TrackedRun) -> None: ...

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        """Reports numbers at a step, which is later than that of the run's previous call."""

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        """Reports how the run ended, as `sweepd.statuses` has it, and its final scores."""

    def close(self) -> None:
        """Waits until everything has been handed over."""


MOST_WAITING = 10_000
"""Calls that may wait. A tracker that falls further behind loses what comes next."""
PATIENCE_SECONDS = 60.0
"""How long the end of a sweep waits for a tracker."""


class Forwarder:
    """A tracker that never fails and never makes its caller wait. Only `close` waits, for at most
    PATIENCE_SECONDS."""

    def __init__(self, name: str, tracker: Tracker, note: Callable[[str], None]) -> None:
        self.name, self.tracker, self.note = name, tracker, note
        self.waiting: Queue[Callable[[], None] | None] = Queue(MOST_WAITING)
        self.broken = self.behind = False
        self.thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self.thread.start()

    def begin(self, run: TrackedRun) -> None:
        self._soon(lambda: self.tracker.begin(run))

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        self._soon(lambda: self.tracker.log(run, step, values))

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        self._soon(lambda: self.tracker.end(run, status, scores))

    def close(self) -> None:
        self._soon(self.tracker.close)
        self._soon(None)
        self.thread.join(PATIENCE_SECONDS)
        if self.thread.is_alive():
            self.note(f"{self.name} has not taken everything after {PATIENCE_SECONDS:g} s: left")

    def _soon(self, call: Callable[[], None] | None) -> None:
        try:
            if not self.broken:
                self.waiting.put_nowait(call)
        except Full:
            if not self.behind:
                self.note(f"{self.name} is too slow: it does not get everything")
            self.behind = True

    def _work(self) -> None:
        while (call := self.waiting.get()) is not None:
            try:
                call()
            except Exception as error:
                self.broken = True
                self.note(f"{self.name} failed and gets no more: {type(error).__name__}: {error}")
                return


class Tracking:
    """Tells trackers of what the engine reports. label: what a run is called."""

    def __init__(
        self, trackers: Sequence[Tracker], sweep: str, label: Callable[[Trial], str]
    ) -> None:
        self.trackers, self.sweep, self.label = trackers, sweep, label
        self.known: dict[str, tuple[TrackedRun, int]] = {}
        """The runs that have begun and not ended, by the trial's id, each with its last logged
        step."""

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        """Logs the scores of the latest check, if the trial is at a later step than before."""
        run, before = self._begun(trial)
        values = numbers(report, trial.metrics)
        step = report.get("step") or 0
        if values and step > before:
            self.known[trial.id] = (run, step)
            for tracker in self.trackers:
                tracker.log(run, step, values)

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        run, _ = self._begun(trial)
        del self.known[trial.id]
        for tracker in self.trackers:
            tracker.end(run, report["status"], numbers(report, (*FINAL, *trial.metrics)))

    def _begun(self, trial: Trial) -> tuple[TrackedRun, int]:
        """Returns the run of a trial, which begins here where it is new, and its last step."""
        if trial.id not in self.known:
            costs = {name: getattr(trial, name) for name in COSTS if hasattr(trial, name)}
            settings = {"task": trial.task_name, "model": trial.model_name, **trial.axes, **costs}
            run = TrackedRun(trial.id, self.label(trial), self.sweep, settings)
            self.known[trial.id] = (run, -1)
            for tracker in self.trackers:
                tracker.begin(run)
        return self.known[trial.id]


def hand_over(views: Views, tracker: Tracker) -> tuple[int, tuple[Damaged, ...]]:
    """Tells a tracker of all trials that ended, with their learning curves. Returns how many trials
    these are, and the files of metrics that were skipped."""
    damaged = views.prepare("metrics")
    own, varying = tuple(views.own), []
    if views.trial_axes:  # those with several values name the trials
        counts = ", ".join(f"count(DISTINCT {quoted(name)})" for name in views.trial_axes)
        [values] = views.fetch(f"SELECT {counts} FROM trials")
        varying = [name for name, count in zip(views.trial_axes, values, strict=True) if count > 1]
    about = ("task", "model", *views.trial_axes, *COSTS)
    names = dict.fromkeys(["id", "sweep", *about, *FINAL, *own])
    ended = {row["id"]: row for row in views.rows("trials", [*names, "status"], "id")}
    count = len(ended)

    def curves() -> Iterator[tuple[str, Iterable[Row]]]:
        steps = views.rows("metrics", ["id", "step", *LOGGED, *own], "id, step")
        yield from groupby(steps, key=itemgetter("id"))
        yield from [(id_, ()) for id_ in ended]  # what is left has no learning curve

    for id_, curve in curves():
        if row := ended.pop(id_, None):
            fields = [f"{name}={row[name]}" for name in varying if row[name] is not None]
            name = " ".join([row["task"], row["model"], *fields, f"seed={row['seed']}"])
            settings = {name: row[name] for name in about if row.get(name) is not None}
            run = TrackedRun(id_, name, row["sweep"], settings)
            tracker.begin(run)
            for step in curve:
                if scores := numbers(step, (*LOGGED, *own)):
                    tracker.log(run, step["step"], scores)
            tracker.end(run, row["status"], numbers(row, (*FINAL, *own)))
    tracker.close()
    return count, damaged


def numbers(row: Row, names: Iterable[str]) -> dict[str, float]:
    """Returns those of the named values that are finite numbers."""
    values = ((name, row.get(name)) for name in names)
    return {n: float(v) for n, v in values if isinstance(v, int | float) and math.isfinite(v)}
