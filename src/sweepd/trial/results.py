"""What training gives: the rows of its steps, what its checks measured, and how it ended. The
built-in training and a user's own loop give the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
