"""Sends what running trials report to trackers of the user's choice (`launch --log-to`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from sweepd.cli.progress import Progress
    from sweepd.grid.trials import Trial
    from sweepd.trackers.base import TrackedRun, Tracker

FOLDER = Path("sweepd-trackers")
"""The folder for the files of trackers that write files, unless their own settings name another."""

LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log-to",
        metavar="TRACKER",
        help="Tell tensorboard, wandb, trackio or mlflow too (repeatable).",
    ),
]


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
        from sweepd.trackers.base import numbers

        run, before = self._begun(trial)
        values = numbers(report, trial.metrics)
        step = report.get("step") or 0
        if values and step > before:
            self.known[trial.id] = (run, step)
            for tracker in self.trackers:
                tracker.log(run, step, values)

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        from sweepd.trackers.base import FINAL, numbers

        run, _ = self._begun(trial)
        del self.known[trial.id]
        for tracker in self.trackers:
            tracker.end(run, report["status"], numbers(report, (*FINAL, *trial.metrics)))

    def _begun(self, trial: Trial) -> tuple[TrackedRun, int]:
        """Returns the run of a trial, which begins here where it is new, and its last step."""
        from sweepd.trackers.base import COSTS, TrackedRun

        if trial.id not in self.known:
            costs = {name: getattr(trial, name) for name in COSTS if hasattr(trial, name)}
            settings = {"task": trial.task_name, "model": trial.model_name, **trial.axes, **costs}
            run = TrackedRun(trial.id, self.label(trial), self.sweep, settings)
            self.known[trial.id] = (run, -1)
            for tracker in self.trackers:
                tracker.begin(run)
        return self.known[trial.id]


@contextmanager
def telling(names: Sequence[str], sweep: str, progress: Progress) -> Iterator[None]:
    """Within this block, trackers are told of the trials too that `progress` shows. Raises
    UserError for a tracker that is unknown or not installed."""
    if not names:
        yield
        return
    from sweepd.trackers.base import Forwarder
    from sweepd.trackers.clients import connect

    trackers = [Forwarder(name, connect(name, FOLDER), progress.note) for name in names]
    progress.tracking = Tracking(trackers, sweep, progress.label)
    try:
        yield
    finally:
        for tracker in trackers:
            tracker.close()
