"""Scores at other lengths than that of training: `lengths: [1.5, 2]` of a grid.

This module says which factors there may be, how their scores are named, and what a longer task is.
Whether a model can be scored there shows when `trial.other_lengths` tries.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from sweepd.grid.metrics import Better

if TYPE_CHECKING:
    from sweepd.tasks.base import Task

MOST = 100
"""The largest factor of a length, far above what anyone asks for."""
KEY, COLUMN = "lengths", "score_lengths"
"""The key of a grid that lists the factors, and the column of results that holds them."""
SCORED: Mapping[str, Better] = {"acc": "up", "loss": "down"}
"""The scores at another length, and how each is better. A task has the first that it reports."""


def written(factors: Sequence[float]) -> dict[str, str]:
    """Returns what the factors add to a trial's columns: nothing where there are none, else one
    text, which is both YAML and JSON: `[1.5, 2]`."""
    return {COLUMN: f"[{', '.join(f'{one:g}' for one in factors)}]"} if factors else {}


def scored(metrics: Mapping[str, Better]) -> str | None:
    """Returns which of `SCORED` a task with these metrics has at another length, if any."""
    return next((name for name in SCORED if name in metrics), None)


def column(score: str, factor: float) -> str:
    """Returns the column of a score at `factor` times the length, as `acc_1_5x`."""
    return f"{score}_{factor:g}x".replace(".", "_")


def columns(factors: Sequence[float]) -> dict[str, float]:
    """Returns the column of each score that there can be at these factors, with its factor."""
    return {column(score, factor): factor for score in SCORED for factor in factors}


def is_column(name: str) -> bool:
    """Returns whether this may be the column of a score at another length."""
    return re.fullmatch(rf"({'|'.join(SCORED)})_\d+(_\d+)?x", name) is not None


def scores(metrics: Mapping[str, Better], factors: Sequence[float]) -> dict[str, Better]:
    """Returns the scores that these factors add to what a task reports, each with the way in which
    it is better."""
    score = scored(metrics)
    return {column(score, factor): SCORED[score] for factor in factors} if score else {}


def longer(task: Task, factor: float) -> Task:
    """Returns the task with its length times `factor`, rounded up, and all else the same. Its
    length is the field `length` where the task has one, or else the field of its size. Raises
    ValueError, or whatever else a user's class raises, where there is no such task."""
    own = {field.name for field in fields(task)}  # type: ignore[arg-type]
    name = "length" if "length" in own else task.size_field
    # The factor as it is written: as binary floats, 1.1 · 50 is above 55.
    length = math.ceil(Decimal(repr(factor)) * getattr(task, name))
    return cast("Task", replace(cast(Any, task), **{name: length}))


def rows(task: Task, there: Task, count: int) -> int:
    """Returns how many rows of the longer task `there` are scored where a test sample has `count`
    rows. Together they have no more tokens than the sample. It is at least one row."""
    return max(1, count * task.L // there.L)
