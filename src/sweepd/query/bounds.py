"""What a row of `min` claims: pure functions over what is known of one group's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Value = int | float
Kind = Literal["not monotone", "above", "open", "exact", "bracketed", "at most"]


@dataclass(frozen=True)
class Candidate:
    """What is known of one value of the minimised expression, within one group."""

    value: Value
    passed: bool | None
    """True: one of its cells passed. False: all ran their budget and failed. None: neither."""
    failed_smaller: bool
    """All its cells ran their budget at one smaller size and failed."""
    budget: int | None = None
    """The least number of steps with which it passed, or the largest with which it failed."""

    @property
    def failed(self) -> bool:
        return self.passed is False or self.failed_smaller


@dataclass(frozen=True)
class Bound:
    kind: Kind
    value: Value | None
    """Least value that passed."""
    fail: Value | None
    """Largest value, below that, which failed at this size or at a smaller one."""
    inferred: int
    """How many values up to `fail` have not failed themselves: monotonicity alone says so."""


def judge(candidates: Sequence[Candidate]) -> Bound:
    """The first of the six claims that holds. `candidates`: at least one, by rising value."""
    at = next((i for i, c in enumerate(candidates) if c.passed), None)
    smaller = candidates[:at]
    last = max((i for i, c in enumerate(smaller) if c.failed), default=-1)
    inferred = sum(c.passed is not False for c in smaller[: last + 1])
    fail = smaller[last].value if last >= 0 else None
    kind: Kind
    if at is None:
        kind = "above" if candidates[-1].failed else "open"
        return Bound(kind, None, fail, inferred)
    needed = candidates[at].budget or 0
    larger_failed = any(
        c.passed is False and (c.budget is None or c.budget >= needed) for c in candidates[at + 1 :]
    )
    if candidates[at].failed_smaller or larger_failed:
        kind = "not monotone"
    elif smaller and all(c.passed is False for c in smaller):
        kind = "exact"
    elif smaller and smaller[-1].failed:
        kind = "bracketed"
    else:
        kind = "at most"
    return Bound(kind, candidates[at].value, fail, inferred)


def up_to_the_first_pass(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Returns the candidates up to the least value that passed. Where a value is spent in several
    ways, as training FLOPs are on width or steps, a larger one that fails contradicts nothing."""
    at = next((i for i, c in enumerate(candidates) if c.passed), len(candidates))
    return candidates[: at + 1]


def judge_measured(passed: Sequence[Value], all_failed: bool) -> Bound:
    """What is claimed of a minimised score, which is measured and no setting of the grid.

    That a cell failed says nothing of cells with a lower score, so nothing is known from below:
    `at most` the least score among those that `passed`; without one `above` where all cells of
    the group ran their budget and failed, else `open`.
    """
    if passed:
        return Bound("at most", min(passed), None, 0)
    return Bound("above" if all_failed else "open", None, None, 0)
