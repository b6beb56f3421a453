"""Power laws through censored points, and the exponents that theory predicts.

What a grid knows of the least value that passes at one size is an interval: above the largest
value that failed, and at most the least that passed. Where nothing failed it has no lower end, and
where nothing passed no upper one. `fit` finds the laws `value = factor · x ** exponent` that such
intervals allow.

The estimator is interval-censored maximum likelihood with its one flaw mended. On a grid of
powers of two, many lines pass through all intervals, so the likelihood has no single maximum and
the spread of its maxima over resamples is no measure of what is unknown. Therefore the
likelihood is averaged over, not maximised: log2(value) has a logistic error around the line,
priors are flat over slope and level, and the densities of all resamples of the seeds are
averaged (a bagged posterior, Bühlmann 2014). Its median is the estimate; its 2.5% and 97.5%
quantiles hold the grid's resolution and the spread over seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

LEAST_POINTS = 3
LEAST_BRACKETED = 2
"""With fewer points that have both ends, a slope fits as well as any steeper one."""

SCALE = 0.2
"""Of the error around the law, in octaves. It is small, since the spread over seeds comes in
through the resamples. In simulations the interval covers the truth in 95% of cases or more from two
seeds on; with one seed it lacks that spread.
"""
SLOPES, LEVELS = 241, 81
"""Steps of the grid over which the likelihood is averaged."""
MARGIN = 2.0
"""Octaves beyond the tried values in which a law may run at the middle size. Over all sizes it may
climb or fall by the range of the tried values and twice this."""
STRAY = 1e-6
"""Least likelihood of a point: one outlier does not rule out every law."""

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

Up to logarithms, with chains of thought. Both kinds of edit distance have a locality of the order
of n and L of the order of n²; their sparse bound takes B of the order of n.
"""


@dataclass(frozen=True)
class Point:
    """What is known at `x`: the least value that passes is above `low` and at most `high`.

    low = 0 where nothing failed, high = inf where nothing passed.
    """

    x: float
    low: float
    high: float

    @property
    def informative(self) -> bool:
        return self.low > 0 or self.high < inf

    @property
    def bracketed(self) -> bool:
        return self.low > 0 and self.high < inf


@dataclass(frozen=True)
class PowerLaw:
    """value = factor · x ** exponent; low and high: the exponent's 95% interval."""

    exponent: float
    low: float
    high: float
    factor: float


def refusal(points: Sequence[Point]) -> str | None:
    """Why these points cannot carry a fit, or None."""
    informative = sum(point.informative for point in points)
    bracketed = sum(point.bracketed for point in points)
    if informative < LEAST_POINTS:
        return f"{informative} of {len(points)} points say anything: a fit needs {LEAST_POINTS}"
    if bracketed < LEAST_BRACKETED:
        return f"all points but {bracketed} are censored: widen the range of what is minimised"
    return None


def fit(resamples: Iterable[Sequence[Point]]) -> PowerLaw:
    """The power law through points whose seeds were resampled: each resample has the same xs.

    For points that `refusal` lets pass.
    """
    import numpy as np

    patterns = Counter(map(tuple, resamples))
    points = {point for pattern in patterns for point in pattern if point.informative}
    centre, span = _middle(np.log2([point.x for point in points]))
    ends = {end for point in points for end in (point.low, point.high) if 0 < end < inf}
    middle, height = _middle(np.log2(list(ends)))
    reach = height + 2 * MARGIN
    slope = np.linspace(-1, 1, SLOPES)[:, None] * reach / span
    level = middle + np.linspace(-0.5, 0.5, LEVELS) * reach

    @cache
    def log_likelihood(point: Point) -> Array:
        """(slopes, levels)"""
        law = level + slope * (np.log2(point.x) - centre)
        with np.errstate(divide="ignore"):
            low, high = np.log2([point.low, point.high])
        # Logistic distribution functions: (1 + tanh(z / 2)) / 2.
        share = np.tanh((high - law) / (2 * SCALE)) - np.tanh((low - law) / (2 * SCALE))
        found: Array = np.log(share / 2 + STRAY)
        return found

    density = np.zeros((SLOPES, LEVELS))
    for pattern, count in patterns.items():
        known = [log_likelihood(point) for point in pattern if point.informative]
        total = sum(known, start=np.zeros_like(density))
        likelihood = np.exp(total - total.max())
        density += count * likelihood / likelihood.sum()
    low, exponent, high = _quantiles(slope[:, 0], density.sum(axis=1), (0.025, 0.5, 0.975))
    [at_centre] = _quantiles(level, density.sum(axis=0), (0.5,))
    return PowerLaw(exponent, low, high, 2 ** (at_centre - exponent * centre))


def agrees(predicted: str, low: float, high: float) -> bool:
    """Whether an exponent's interval holds, or for a lower bound reaches, a predicted one."""
    exponent = Fraction(predicted.removeprefix(">= "))
    return high >= exponent and (predicted.startswith(">=") or low <= exponent)


def _middle(values: Array) -> tuple[float, float]:
    """The middle and the width of the range of values."""
    low, high = float(values.min()), float(values.max())
    return (low + high) / 2, high - low


def _quantiles(values: Array, density: Array, shares: Sequence[float]) -> list[float]:
    """Quantiles of a density given at rising values."""
    import numpy as np

    below = (np.cumsum(density) - density / 2) / density.sum()
    return [float(found) for found in np.interp(shares, below, values)]
