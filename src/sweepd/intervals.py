"""Confidence intervals for a share that is observed in a sample."""

from math import sqrt
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)
"""The number of standard errors to either side of the mean that hold 95% of a normal
distribution."""


def wilson(share: float, total: int) -> tuple[float, float]:
    """Returns Wilson's 95% interval (1927) for a share of `total` > 0 independent answers."""
    shrink = 1 + Z**2 / total
    centre = (share + Z**2 / (2 * total)) / shrink
    half = Z / shrink * sqrt(share * (1 - share) / total + Z**2 / (4 * total**2))
    # Rounding may put an end just past the share, or past 0 or 1.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
