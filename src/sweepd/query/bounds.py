"""What a row of `min` claims of the least value that passes.

The functions are pure. They take what is known of each value in one group.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

Value = int | float
BoundKind = Literal["not monotone", "above", "open", "exact", "bracketed", "at most"]


class Candidate(NamedTuple):
    """What is known of one value of the minimised expression, within one group."""

    value: Value
    passed: bool | None
    """True if one of the cells with this value passed. False if all of them ran their budget and
    failed. None otherwise."""
    failed_smaller: bool = False
    """Whether all of its cells failed, in the same settings, at one smaller size. It matters only
    where nothing is known of the value itself."""
    contradicted: bool = False
    """Whether one of its passes had at most the budget of such a fail in the same settings."""
    budget: int = 0
    """The least number of steps with which the value passed, or the largest with which it failed.
    All budgets are 0 where they are not compared."""

    @property
    def failed(self) -> bool:
        return self.passed is False or self.failed_smaller


class Bound(NamedTuple):
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
    smaller = list(takewhile(lambda one: not one.passed, candidates))
    fail, inferred, open_so_far = None, 0, 0
    for one in smaller:
        open_so_far += one.passed is not False
        if one.failed:
            fail, inferred = one.value, open_so_far
    if len(smaller) == len(candidates):
        return Bound("above" if smaller[-1].failed else "open", None, fail, inferred)
    passing, *larger = candidates[len(smaller) :]
    kind: BoundKind
    if passing.contradicted or any(
        one.passed is False and one.budget >= passing.budget for one in larger
    ):
        kind = "not monotone"
    elif not smaller or not smaller[-1].failed:
        kind = "at most"
    else:
        kind = "bracketed" if inferred else "exact"
    return Bound(kind, passing.value, fail, inferred)


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
