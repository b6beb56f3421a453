"""Intervals for what a sample shows of a share."""

from math import sqrt
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)
"""Standard errors to either side that hold 95% of a normal distribution."""


def wilson(share: float, total: int) -> tuple[float, float]:
    """Wilson's 95% interval (1927) for a share observed in `total` > 0 independent answers."""
    shrink = 1 + Z**2 / total
    centre = (share + Z**2 / (2 * total)) / shrink
    half = Z / shrink * sqrt(share * (1 - share) / total + Z**2 / (4 * total**2))
    # Rounding may put an end just past the share, or past 0 or 1.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
