"""What a row of `min` may claim: pure functions over what is known of one group's values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal

Value = int | float
Claim = Literal["not monotone", "above", "open", "exact", "bracketed", "at most"]
Z = NormalDist().inv_cdf(0.975)


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
class Verdict:
    claim: Claim
    value: Value | None
    """Least value that passed."""
    fail: Value | None
    """Largest value, below that, which failed at this size or at a smaller one."""
    inferred: int
    """How many values up to `fail` have not failed themselves: monotonicity alone says so."""


def judge(candidates: Sequence[Candidate]) -> Verdict:
    """The first of the six claims that holds. `candidates`: at least one, by rising value."""
    at = next((i for i, c in enumerate(candidates) if c.passed), None)
    smaller = candidates[:at]
    last = max((i for i, c in enumerate(smaller) if c.failed), default=-1)
    inferred = sum(c.passed is not False for c in smaller[: last + 1])
    fail = smaller[last].value if last >= 0 else None
    claim: Claim
    if at is None:
        claim = "above" if candidates[-1].failed else "open"
        return Verdict(claim, None, fail, inferred)
    if candidates[at].failed_smaller or any(c.passed is False for c in candidates[at + 1 :]):
        claim = "not monotone"
    elif all(c.passed is False for c in smaller):
        claim = "exact"
    elif smaller[-1].failed:
        claim = "bracketed"
    else:
        claim = "at most"
    return Verdict(claim, candidates[at].value, fail, inferred)


def wilson(share: float, total: int) -> tuple[float, float]:
    """Wilson's 95% interval (1927) for a share observed in `total` > 0 independent answers."""
    shrink = 1 + Z**2 / total
    centre = (share + Z**2 / (2 * total)) / shrink
    half = Z / shrink * sqrt(share * (1 - share) / total + Z**2 / (4 * total**2))
    # Rounding may put an end just past the share, or past 0 or 1.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
