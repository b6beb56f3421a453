"""Sends what running trials report to trackers of the user's choice (`launch --log-to`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sweepd.cli.progress import Progress

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


@contextmanager
def telling(names: Sequence[str], sweep: str, progress: Progress) -> Iterator[None]:
    """Within this block, trackers are told of the trials too that `progress` shows. Raises
    UserError for a tracker that is unknown or not installed."""
    if not names:
        yield
        return
    from sweepd.trackers.base import Forwarder, Tracking
    from sweepd.trackers.clients import connect

    trackers = [Forwarder(name, connect(name, FOLDER), progress.note) for name in names]
    progress.tracking = Tracking(trackers, sweep, progress.label)
    try:
        yield
    finally:
        for tracker in trackers:
            tracker.close()
