"""What trains a trial, as an attempt sees it.

The built-in `Training` is one such `Run`. A loop of the user's own is another (`own_loop`).
Attempts, workers, searches and questions know no more of either than what this module says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from sweepd.grid import registry
from sweepd.grid.settings import Train
from sweepd.grid.trials import Trial
from sweepd.trial import gpu
from sweepd.trial.other_lengths import ScoredLonger
from sweepd.trial.own_loop import OwnLoop
from sweepd.trial.results import Check, Result, StepRow
from sweepd.trial.training import Training


class Run(Protocol):
    """Training of one trial, which may be left after any step and continued elsewhere."""

    parent: str | None
    """The trial whose state this run started from, if that was another trial."""

    @property
    def step(self) -> int: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def seconds(self) -> float:
        """The time that training took, over all attempts."""

    @property
    def train_flops(self) -> float | None:
        """The training FLOPs so far, or None where nobody knows them."""

    @property
    def checks(self) -> Sequence[Check]:
        """The checks made so far, by this run or by the one that it continues."""

    @property
    def result(self) -> Result | None:
        """How the run ended, or None while it goes on."""

    def advance(self) -> Iterator[StepRow | None]:
        """Trains on and yields after each step: a row, or None where nothing is recorded."""

    def snapshot(self) -> bytes | None:
        """Returns all that `restore` needs, or None where the run can't be saved."""

    def read(self, snapshot: bytes) -> Any:
        """Returns a snapshot's content. Any error may be raised where it is damaged."""

    def passes(self, state: Any) -> bool:
        """Returns whether this run would pass through a state that another run of its trunk
        reached."""

    def restore(self, state: Any) -> None:
        """Continues from a state of the same trunk, as if this run had just reached it."""


def started(trial: Trial, base: Path, device: str) -> Run:
    """Returns the run of a trial, at its first step. Raises whatever the user's code raises."""
    values = trial.values
    if device == "cuda":
        gpu.repeat(strictly=not any(registry.is_own(where) for _, where in trial.classes))
    if trial.loop_where:
        return OwnLoop(
            registry.find_loop(trial.loop_where, base)(**values.loop),
            trial.metrics,
            trial.train.steps,
            values.stop,
            trial.seed,
            trial.train_flops,
            device,
        )
    assert isinstance(trial.train, Train)
    assert values.evaluate is not None and trial.train_flops is not None
    make = partial(ScoredLonger, values.lengths) if values.lengths else Training
    return make(
        registry.find_task(trial.task_where, base)(**values.task),
        registry.find_model(trial.model_where, base)(**values.model),
        trial.train,
        values.evaluate,
        values.stop,
        trial.seed,
        trial.train_flops / trial.train.steps,
        device,
    )
