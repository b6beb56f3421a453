"""The exponents that theory predicts for min d in L, and whether a measured exponent agrees."""

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
"""The exponents of min d in L that theory predicts, by task and model. They follow from the bounds
of Yang et al. 2024 (Table 1).

`0` is an upper bound, `>= 1/4` is a lower bound, and `1/2` is both. They hold up to logarithms,
with chains of thought. Both kinds of edit distance have a locality of the order of n, and their L
is of the order of n². Their bound for the sparse model takes B of the order of n.
"""


def at_hand(predicted: str, xs: Sequence[float]) -> float:
    """Returns the least exponent that a prediction allows over these xs.

    The bounds hold up to logarithms, and at small L those matter: √(L / ln L) rises more slowly
    than √L. For `1/2` the exponent is the mean slope of √(L / ln L) from the least x to the
    largest, and for `>= 1/4` it is half of that. It is 0 for `0`, and where an x is e or less.
    """
    first, last = min(xs), max(xs)
    if predicted == "0" or first <= e:
        return 0.0
    of_half = 0.5 * (1 - log2(log(last) / log(first)) / log2(last / first))
    return of_half if predicted == "1/2" else of_half / 2


def agrees(predicted: str, least: float, slope: Slope) -> bool | None:
    """Returns whether a measured exponent agrees with a prediction. `least` is what `at_hand`
    returns for the prediction.

    The result is False only where the whole interval lies below a lower bound. It is None where the
    whole interval lies above an upper bound. That contradicts nothing, since a trained model may
    need more width than the best possible weights do.
    """
    if predicted == "0":
        return True if slope.low <= 0 else None
    if slope.high < least:
        return False
    return None if predicted == "1/2" and slope.low > 0.5 else True
