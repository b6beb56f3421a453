"""The exponents that theory predicts for min d in L, and what a measured one says about them."""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log, log2

from sweepd.query.laws import Slope

PREDICTED = {
    **{(task, "standard"): "0" for task in ("lis", "edit_distance", "ed_local", "arithmetic")},
    ("lis", "sparse"): "1/2",
    ("lis", "linear"): "1/2",
    ("edit_distance", "sparse"): "0",
    ("edit_distance", "linear"): ">= 1/4",
    ("ed_local", "sparse"): "0",
    ("ed_local", "linear"): ">= 1/4",
    ("arithmetic", "sparse"): "0",
    ("arithmetic", "linear"): ">= 1/4",
}
"""Exponents of min d in L, by task and model, from the bounds of Yang et al. 2024 (Table 1).

`0` is a bound from above, `>= 1/4` one from below, `1/2` both. Up to logarithms, with chains of
thought. Both kinds of edit distance have a locality of the order of n and L of the order of n²;
their sparse bound takes B of the order of n.
"""


def at_hand(predicted: str, xs: Sequence[float]) -> float:
    """The least exponent that a prediction leaves over these xs.

    The bounds hold up to logarithms, and at small L those matter: √(L / ln L) rises more slowly
    than √L. Its mean slope from the least x to the largest is taken, and half of it for `>= 1/4`.
    """
    first, last = min(xs), max(xs)
    if predicted == "0" or first <= e:
        return 0.0
    of_half = 0.5 * (1 - log2(log(last) / log(first)) / log2(last / first))
    return of_half if predicted == "1/2" else of_half / 2


def agrees(predicted: str, least: float, slope: Slope) -> bool | None:
    """Whether a measured exponent agrees with a prediction, whose `least` is that of `at_hand`.

    False only where it lies below a bound from below. One above a bound from above contradicts
    nothing, since a model that was trained may need more than the best that there is: None.
    """
    if predicted == "0":
        return True if slope.low <= 0 else None
    if slope.high < least:
        return False
    return None if predicted == "1/2" and slope.low > 0.5 else True
