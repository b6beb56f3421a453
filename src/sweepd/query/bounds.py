"""What a row of `min` may kind: pure functions over what is known of one group's values."""

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
    """True: one of its cells passed. False: all failed. None: not decided yet."""
    failed_smaller: bool
    """All its cells failed at one smaller size."""

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
    if candidates[at].failed_smaller or any(c.passed is False for c in candidates[at + 1 :]):
        kind = "not monotone"
    elif all(c.passed is False for c in smaller):
        kind = "exact"
    elif smaller[-1].failed:
        kind = "bracketed"
    else:
        kind = "at most"
    return Bound(kind, candidates[at].value, fail, inferred)
