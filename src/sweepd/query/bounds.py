"""What a row of `min` claims of the least value that passes.

The functions are pure. They take what is known of each value in one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Value = int | float
BoundKind = Literal["not monotone", "above", "open", "exact", "bracketed", "at most"]


@dataclass(frozen=True)
class Candidate:
    """What is known of one value of the minimised expression, within one group."""

    value: Value
    passed: bool | None
    """True if one of the cells with this value passed. False if all of them ran their budget and
    failed. None otherwise."""
    failed_smaller: bool = False
    """Whether all of its cells failed, in the same settings, at one smaller size."""
    contradicted: bool = False
    """Whether one of its passes had at most the budget of such a fail in the same settings."""
    budget: int = 0
    """The least number of steps with which the value passed, or the largest with which it failed.
    All budgets are 0 where they are not compared."""

    @property
    def failed(self) -> bool:
        return self.passed is False or self.failed_smaller


@dataclass(frozen=True)
class Bound:
    kind: BoundKind
    value: Value | None
    """The least value that passed, or None if none did."""
    fail: Value | None
    """The largest value that failed at this size or at a smaller one, among those below `value`.
    None if there is no such value."""
    inferred: int
    """How many values up to `fail` have not failed themselves. That they fail is inferred from a
    larger value or from a smaller size that failed."""


def judge(candidates: Sequence[Candidate]) -> Bound:
    """Returns the bound with the first of the six kinds of claim that holds. A fail contradicts a
    pass only if it had at least the budget of that pass.

    candidates: at least one, by rising value.
    """
    at = next((i for i, c in enumerate(candidates) if c.passed), None)
    smaller = candidates[:at]
    last = max((i for i, c in enumerate(smaller) if c.failed), default=-1)
    inferred = sum(c.passed is not False for c in smaller[: last + 1])
    fail = smaller[last].value if last >= 0 else None
    kind: BoundKind
    if at is None:
        kind = "above" if candidates[-1].failed else "open"
        return Bound(kind, None, fail, inferred)
    larger = (c.budget for c in candidates[at + 1 :] if c.passed is False)
    if candidates[at].contradicted or any(budget >= candidates[at].budget for budget in larger):
        kind = "not monotone"
    elif smaller and all(c.passed is False for c in smaller):
        kind = "exact"
    elif smaller and smaller[-1].failed:
        kind = "bracketed"
    else:
        kind = "at most"
    return Bound(kind, candidates[at].value, fail, inferred)


def up_to_the_first_pass(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Returns the candidates up to and including the least value that passed.

    Some values can be spent in several ways, as training FLOPs are on width or on steps. Then a
    larger value that fails does not contradict a smaller one that passes.
    """
    at = next((i for i, c in enumerate(candidates) if c.passed), len(candidates))
    return candidates[: at + 1]


def judge_measured(passed: Sequence[Value], all_failed: bool) -> Bound:
    """Returns what is claimed of a minimised score, which is measured and not set by the grid.

    A cell that failed says nothing of cells with a lower score, so nothing is known from below. The
    claim is `at most` the least score in `passed`. Where nothing passed, it is `above` if all cells
    of the group ran their budget and failed (`all_failed`), and `open` if not.
    """
    if passed:
        return Bound("at most", min(passed), None, 0)
    return Bound("above" if all_failed else "open", None, None, 0)
