"""What a user's own training loop says of itself: `loop: {name: mine.py:Run, …}` in a grid.

The class is a frozen dataclass whose fields are axes. docs/own.md says what the class has to give.
`trial.own_loop` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, ClassVar

from sweepd.grid import metrics

GIVEN = {
    "task": "what it learns, such as `task = 'digits'`",
    "size_field": "the name of the field that makes its problem larger",
    "metrics": "what it reports, such as `metrics = {'acc': 'up'}`",
    "start": "`start(self, seed, device)`, which returns what trains",
}
"""The attributes that a loop's class must have besides its fields, with what each is for."""
COSTS = ("params", "flops", "train_flops")
"""The costs that a loop's `cost()` may state."""


@dataclass(frozen=True)
class LoopBudget:
    """How long a loop runs. It offers searches what `Train` offers them.

    steps: how often the loop is asked to train on; 0 where only the loop knows when it has ended.
    lr: the value of the loop's field `lr`, by which its settings are put in order.
    """

    steps: int
    lr: float

    extensible: ClassVar[bool] = False
    """Whether a longer run passes through the same weights. A loop's need not, since the loop may
    do with its `steps` what it likes."""

    @property
    def trunk_end(self) -> int:
        return self.steps

    def peak_lr(self, d: int | None) -> float:
        return self.lr


@dataclass(frozen=True)
class LoopFacts:
    """The facts that one setting of a loop states about itself. params, flops and train_flops are
    None where its `cost` does not count them."""

    task: str
    size: int
    budget: LoopBudget
    params: int | None = None
    flops: int | None = None
    train_flops: float | None = None


def fault(found: type, fields: Mapping[str, Any]) -> str | None:
    """Returns why a class with these fields can't be a loop, or None."""
    for name, what in GIVEN.items():
        if not hasattr(found, name):
            return f"lacks `{name}`: {what}"
    if found.size_field not in fields:  # type: ignore[attr-defined]
        return f"lacks the field {found.size_field!r}, which its `size_field` names"  # type: ignore[attr-defined]
    if not callable(found.start):  # type: ignore[attr-defined]
        return f"has a `start` that cannot be called; give it {GIVEN['start']}"
    if not callable(getattr(found, "cost", facts)):
        return "has a `cost` that cannot be called; rename it, or make it a method"
    return metrics.fault(found.metrics)  # type: ignore[attr-defined]


def facts(loop: Any) -> LoopFacts:
    """Returns the facts that an instance states about itself. Raises ValueError, or whatever its
    code raises, if the instance can't be used."""
    task, size = loop.task, getattr(loop, loop.size_field)
    if not isinstance(task, str) or not task:
        raise ValueError(f"task = {task!r}: must be a text, such as 'digits'")
    if isinstance(size, bool) or not isinstance(size, int):
        raise ValueError(f"{loop.size_field} = {size!r}: it is the size, so a whole number")
    costs = _costs(loop)
    return LoopFacts(
        task,
        size,
        LoopBudget(_steps(loop), _number(getattr(loop, "lr", 0.0))),
        params=None if (params := costs.get("params")) is None else int(params),
        flops=None if (flops := costs.get("flops")) is None else int(flops),
        train_flops=costs.get("train_flops"),
    )


def _steps(loop: Any) -> int:
    steps = getattr(loop, "steps", 0)
    if (
        isinstance(steps, bool)
        or not isinstance(steps, int)
        or (steps < 1 and hasattr(loop, "steps"))
    ):
        raise ValueError(f"steps = {steps!r}: a budget of steps is a whole number from 1 on")
    return steps


def _costs(loop: Any) -> dict[str, float]:
    """Returns what `cost()` states, or nothing if there is no `cost`."""
    if not hasattr(loop, "cost"):
        return {}
    told = loop.cost()
    if not isinstance(told, Mapping) or not set(told) <= set(COSTS):
        raise ValueError(f"cost() gave {told!r}; it gives a mapping of some of {', '.join(COSTS)}")
    for name, value in told.items():
        most = inf if name == "train_flops" else 2**63
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < most:
            raise ValueError(f"cost() gave {name} = {value!r}; it must be a number, 0 or more")
    return dict(told)


def _number(value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and isfinite(value) else 0.0  # type: ignore[arg-type]
