"""What an experiment tracker is told, and which there are.

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
class Run:
    """A trial as trackers know it."""

    id: str
    """of the trial"""
    name: str
    """for people: task, model, and what differs in the sweep"""
    sweep: str
    settings: Mapping[str, Any]
    """the trial's axes, seed and costs"""


class Tracker(Protocol):
    """A client. Runs may be told of in any order, several at a time."""

    def begin(self, run: Run) -> None: ...

    def log(self, run: Run, step: int, values: Values) -> None:
        """Numbers at a step, which is later than that of the call before."""

    def end(self, run: Run, status: str, scores: Values) -> None:
        """How the run ended, as `sweepd.statuses` has it, and its final scores."""

    def close(self) -> None:
        """Wait until everything has been handed over."""


@dataclass(frozen=True)
class Kind:
    """A tracker that one can choose."""

    package: str
    """what it needs, as an import"""
    extra: str
    """what installs that: `pip install sweepd[…]`"""
    module: str
    """the file of this folder that has its `connect`"""


KINDS = {
    "tensorboard": Kind("tensorboardX", "tensorboard", "tensorboard"),
    "wandb": Kind("wandb", "wandb", "wandb"),
    "trackio": Kind("trackio", "trackio", "wandb"),
    "mlflow": Kind("mlflow", "mlflow", "mlflow"),
}


def connect(name: str, folder: Path) -> Tracker:
    """The client of a tracker. folder: where one that writes files puts them, unless its own
    settings (WANDB_DIR, MLFLOW_TRACKING_URI and so on) say otherwise.

    UserError for an unknown name, or where its package is missing.
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
