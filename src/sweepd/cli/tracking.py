"""Sends what running trials report to trackers of the user's choice (`launch --log-to`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

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


class Told:
    """Shows what the engine reports, as `Progress` does, and tells trackers of it."""

    def __init__(self, progress: Progress, trackers: Sequence[Tracker], sweep: str) -> None:
        self.progress, self.trackers, self.sweep = progress, trackers, sweep
        self.known: dict[str, tuple[TrackedRun, int]] = {}
        """The runs that have begun and not ended, by the trial's id, each with its last logged
        step."""

    def preparing(self, what: str) -> None:
        self.progress.preparing(what)

    def spent(self, dollars: float, an_hour: float) -> None:
        self.progress.spent(dollars, an_hour)

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        self.progress.running(trial, report)
        self._log(trial, report)

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        from sweepd.trackers.stored import FINAL, numbers

        self.progress.ended(trial, report)
        self._begin(trial)
        run, _ = self.known.pop(trial.id)
        for tracker in self.trackers:
            tracker.end(run, report["status"], numbers(report, (*FINAL, *trial.metrics)))

    def lost_ray(self, reason: str) -> NoReturn:
        self.progress.lost_ray(reason)

    def _begin(self, trial: Trial) -> None:
        """Begins the run of a trial that is new."""
        from sweepd.trackers.base import TrackedRun
        from sweepd.trackers.stored import COSTS

        if trial.id not in self.known:
            label = self.progress.label(trial)
            costs = {name: getattr(trial, name) for name in COSTS if hasattr(trial, name)}
            settings = {"task": trial.task_name, "model": trial.model_name, **trial.axes, **costs}
            self.known[trial.id] = (TrackedRun(trial.id, label, self.sweep, settings), -1)
            for tracker in self.trackers:
                tracker.begin(self.known[trial.id][0])

    def _log(self, trial: Trial, report: dict[str, Any]) -> None:
        """Logs the scores of the latest check, if the trial is at a later step than before."""
        from sweepd.trackers.stored import numbers

        self._begin(trial)
        run, before = self.known[trial.id]
        values = numbers(report, trial.metrics)
        step = report.get("step") or 0
        if values and step > before:
            self.known[trial.id] = (run, step)
            for tracker in self.trackers:
                tracker.log(run, step, values)


@contextmanager
def telling(names: Sequence[str], sweep: str, progress: Progress) -> Iterator[Told | Progress]:
    """Within this block, the listener shows the trials of a launch and tells the trackers of them.
    Raises UserError for a tracker that is unknown or not installed."""
    if not names:
        yield progress
        return
    from sweepd.trackers.base import Forwarder
    from sweepd.trackers.clients import connect

    trackers = [Forwarder(name, connect(name, FOLDER), progress.note) for name in names]
    try:
        yield Told(progress, trackers, sweep)
    finally:
        for tracker in trackers:
            tracker.close()
