"""What an experiment tracker is told, and which trackers there are.

A tracker is somebody else's program: TensorBoard, Weights & Biases, MLflow, trackio. sweepd's own
store does not depend on one. Each is used through its own client, which is imported only here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from sweepd.errors import UserError

Values = Mapping[str, float]
"""Numbers by their names; none is NaN or infinite."""


@dataclass(frozen=True)
class TrackedRun:
    """A trial as trackers know it."""

    id: str
    """of the trial"""
    name: str
    """for people: task, model, and what differs in the sweep"""
    sweep: str
    settings: Mapping[str, Any]
    """the trial's axes, seed and costs"""


class Tracker(Protocol):
    """The client of a tracker. It may be told of runs in any order, and of several at a time."""

    def begin(self, run: TrackedRun) -> None: ...

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        """Reports numbers at a step, which is later than that of the run's previous call."""

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        """Reports how the run ended, as `sweepd.statuses` has it, and its final scores."""

    def close(self) -> None:
        """Waits until everything has been handed over."""


@dataclass(frozen=True)
class TrackerKind:
    """A tracker that one can choose."""

    package: str
    """what it needs, as an import"""
    extra: str
    """what installs that: `pip install sweepd[…]`"""
    module: str
    """the file of this folder that has its `connect`"""


KINDS = {
    "tensorboard": TrackerKind("tensorboardX", "tensorboard", "tensorboard"),
    "wandb": TrackerKind("wandb", "wandb", "wandb"),
    "trackio": TrackerKind("trackio", "trackio", "wandb"),
    "mlflow": TrackerKind("mlflow", "mlflow", "mlflow"),
}


def connect(name: str, folder: Path) -> Tracker:
    """Returns the client of a tracker. folder: where a tracker that writes files puts them, unless
    its own settings (WANDB_DIR, MLFLOW_TRACKING_URI and so on) say otherwise.

    Raises UserError for an unknown name, or where the tracker's package is missing.
    """
    if name not in KINDS:
        raise UserError(f"{name!r}: a tracker is one of {', '.join(KINDS)}")
    kind = KINDS[name]
    try:
        client = import_module(kind.package)
    except ImportError as error:
        raise UserError(
            f"{name} needs the package {kind.package}: pip install 'sweepd[{kind.extra}]' ({error})"
        ) from None
    make: Callable[[Any, Path], Tracker] = import_module(f"sweepd.trackers.{kind.module}").connect
    return make(client, folder)
