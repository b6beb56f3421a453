"""What trains a trial, as an attempt sees it: a run, its rows, its checks, and how it ended.

The built-in `Training` is one such `Run`. A loop of the user's own is another (`own_loop`).
Attempts, workers, searches and questions know no more of either than what this module says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class StepRow:
    """What is recorded of one step.

    columns: its columns of `metrics`. scores: what was measured at this step, by metric. It is
    empty where no check was made.
    """

    step: int
    columns: Mapping[str, Any]
    scores: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """What a check measured, by metric. The rules that give up on trials watch it."""

    step: int
    scores: Mapping[str, float | None]


@dataclass(frozen=True)
class Result:
    """How training ended by itself: completed, solved or diverged.

    columns: its test score as columns of `trials`; empty without one, as where it diverged. error:
    why it diverged, where more is known than a number. notes: which scores could not be measured,
    and why. They go to the trial's log.
    """

    status: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    notes: tuple[str, ...] = ()


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
        """Returns whether this run would pass through a state that another of its trunk reached."""

    def restore(self, state: Any) -> None:
        """Continues from a state of the same trunk, as if this run had just reached it."""
