"""Fits laws of growth to the outcomes of trials, and weighs several laws against each other.

The level of a size (`levels`) is what the law says there plus an error of that size. All trials of
the size share this error, since some sizes are harder than any smooth law says. The scale of these
errors is not known, so it is estimated with the rest, and so is the scatter of the seeds. The
likelihood is averaged over all of these and not maximised. On a grid of powers of two many laws fit
equally well, and the average keeps that uncertainty. benchmarks/inference.py measures how often the
intervals contain the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import e, log2
from typing import TYPE_CHECKING

from sweepd.query.levels import SCALES, Levels, Point, between

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

LEAST_POINTS = 3
LEAST_BRACKETED = 2
"""The number of points with both passes and fails that a fit needs. With fewer, a slope fits as
well as any steeper one."""

ERRORS = (0.0, 0.1, 0.2, 0.3, 0.45, 0.7, 1.0, 1.5)
"""The standard deviations, in octaves, that the error of a size may have."""
SMALL, SHARE_SMALL, LARGEST = 0.2, 0.6, 1.75
"""The prior of that standard deviation. With probability SHARE_SMALL it is small, with a
half-Cauchy distribution of scale SMALL. Otherwise it is anything up to LARGEST, all equally likely.
The numbers are chosen so that intervals hold the truth in 93% to 99% of cases for errors of 0 to
0.7, and tell 0 from ½ in 90% of cases at an error of 0.2 (results/inference)."""
SLOPES, LEVELS = 161, 61
"""The numbers of slopes and of levels in the grid over which the likelihood is averaged."""
SPARE = 2.0
"""How far, in octaves, a law may run beyond the tried values. Over all sizes it may climb or fall
by the range of the tried values and twice this number. It may have an exponent of 2 · STEEPEST in
any case."""
STEEPEST = 2.0
"""The greatest exponent that is held possible when several laws are weighed against each other."""
TINY = 1e-9
SURE = 0.95
"""The probability from which on a law is said to grow or to fall."""
LAW_NAMES = ("constant", "power", "sqrt", "plateau")
"""The laws that are weighed against each other. constant: the value is the same at every x. power:
x ** exponent. sqrt: √(x / ln x), which theory predicts for L. plateau: constant up to some size,
and from there on x ** exponent."""


@dataclass(frozen=True)
class Slope:
    """An exponent: its median, the ends `low` and `high` of its 95% interval, and the probability
    `rises` that it is above 0."""

    exponent: float
    low: float
    high: float
    rises: float

    @property
    def direction(self) -> str:
        """`grows` or `falls` where the probability of that is at least SURE, else `not told`."""
        if self.rises >= SURE:
            return "grows"
        return "falls" if self.rises <= 1 - SURE else "not told"


@dataclass(frozen=True)
class Law(Slope):
    """The law value = factor · x ** exponent."""

    factor: float


def refusal(points: Sequence[Point]) -> str | None:
    """Returns the reason why these points cannot carry a fit, or None if they can."""
    informative = sum(point.informative for point in points)
    bracketed = sum(point.bracketed for point in points)
    if informative < LEAST_POINTS:
        return f"{informative} of {len(points)} points say anything: a fit needs {LEAST_POINTS}"
    if bracketed < LEAST_BRACKETED:
        return f"all points but {bracketed} are censored: widen the range of what is minimised"
    return None


def fit(points: Sequence[Point]) -> Law:
    """Returns the law through the points, for which `refusal` must be None."""
    import numpy as np

    levels, sizes = _sizes(points)
    start = _starts(levels)
    steepest = max((levels.height + 2 * SPARE) / sizes.span, 2 * STEEPEST)
    slopes = np.linspace(-1, 1, SLOPES) * steepest
    density = sizes.density(start, slopes, sizes.xs)
    slope = _slope(slopes, density.sum(axis=0))
    of_start = density.sum(axis=1)
    at_middle = np.interp(0.5, (np.cumsum(of_start) - of_start / 2) / of_start.sum(), start)
    middle = _middle([point.x for point in points if point.informative])
    return Law(**vars(slope), factor=2 ** float(at_middle - slope.exponent * middle))


def weights(points: Sequence[Point]) -> dict[str, float]:
    """Returns the probability of each of LAW_NAMES that the xs of these points allow. They sum to
    1. `refusal` must be None for the points.

    Each law counts by its likelihood, averaged over all that the law leaves open: its level, and
    exponents from 0 to STEEPEST. So a law that could fit anything gains nothing by that.
    """
    import numpy as np

    levels, sizes = _sizes(points)
    x = 2 ** (sizes.xs + _middle([point.x for point in points if point.informative]))
    exponents = np.linspace(0, STEEPEST, SLOPES // 4)
    shapes = {"constant": [(np.zeros(1), sizes.xs)], "power": [(exponents, sizes.xs)]}
    if x.min() > e:
        shapes["sqrt"] = [(np.full(1, 0.5), np.log2(x / np.log(x)))]
    knees = np.sort(sizes.xs)[1:-1]
    shapes["plateau"] = [(exponents, np.maximum(sizes.xs - knee, 0)) for knee in knees]
    evidence = {
        name: np.mean([sizes.density(_starts(levels), k, s - s.mean()).mean() for k, s in found])
        for name, found in shapes.items()
    }
    return {name: float(found / sum(evidence.values())) for name, found in evidence.items()}


def difference(one: Sequence[Point], other: Sequence[Point]) -> Slope | None:
    """Returns the exponent of `one` less that of `other`, over the xs that both have. Returns None
    where the points of either at these xs cannot carry a fit.

    An error of a size that both have in common cancels.
    """
    import numpy as np

    at = {point.x: point for point in other if point.informative}
    pairs = [(point, at[point.x]) for point in one if point.informative and point.x in at]
    if refusal([mine for mine, _ in pairs]) or refusal([theirs for _, theirs in pairs]):
        return None
    levels = Levels.of([point for pair in pairs for point in pair])
    end = levels.grid[-1] - levels.grid[0]
    apart = np.linspace(-end, end, 2 * len(levels.grid) - 1)
    likelihoods = (between(*map(levels.likelihood, pair)) for pair in pairs)
    sizes = _Sizes.of([point.x for point, _ in pairs], apart, likelihoods)
    reach = levels.height + SPARE
    slopes = np.linspace(-1, 1, SLOPES) * 2 * reach / sizes.span
    start = np.linspace(-reach, reach, 2 * LEVELS)
    return _slope(slopes, sizes.density(start, slopes, sizes.xs).sum(axis=0))


@dataclass(frozen=True)
class _Sizes:
    """The likelihood of a law's height at each size, for each scale and each error."""

    xs: Array
    """The sizes, in octaves from the middle of their range. Shape (sizes,)."""
    grid: Array
    """The evenly spaced heights, in octaves, at which the likelihood is known. Shape (levels,)."""
    log: Array
    """The log likelihoods, which include the prior of scales and errors. Shape (sizes, levels,
    scales · errors)."""

    @classmethod
    def of(cls, xs: Sequence[float], grid: Array, likelihoods: Iterable[Array]) -> _Sizes:
        """Returns the log likelihoods at these xs, for each of SCALES and ERRORS, with the prior of
        both.

        grid: (levels,). likelihoods: (scales, levels) at each x.
        """
        import numpy as np

        kernels = _kernels(grid)
        found = np.array([np.einsum("ejk,sk->jse", kernels, each) for each in likelihoods])
        held = np.log(np.outer(_shares([1 / scale for scale in SCALES]), _held_errors()))
        log = np.log(found + TINY) + held / len(found)
        return cls(np.log2(xs) - _middle(xs), grid, log.reshape(*found.shape[:2], -1))

    @property
    def span(self) -> float:
        return float(self.xs.max() - self.xs.min())

    def density(self, start: Array, slopes: Array, shape: Array) -> Array:
        """Returns the likelihood (starts, slopes) of the laws start + slope · shape, up to a factor
        that all laws have in common. shape: (sizes,)"""
        import numpy as np

        found = np.zeros((len(start), len(slopes), self.log.shape[-1]), np.float32)
        step = self.grid[1] - self.grid[0]
        for log, climbed in zip(self.log, shape, strict=True):
            at = (start[:, None] + slopes * climbed - self.grid[0]) / step
            below = np.clip(at, 0, len(self.grid) - 2).astype(int)
            rest = np.clip(at - below, 0, 1)[..., None].astype(np.float32)
            log = (log - log.max()).astype(np.float32)
            found += log[below] * (1 - rest) + log[below + 1] * rest
        likelihood: Array = np.exp(found, dtype=np.float64).sum(axis=2)
        return likelihood


def _sizes(points: Sequence[Point]) -> tuple[Levels, _Sizes]:
    points = [point for point in points if point.informative]
    levels = Levels.of(points)
    likelihoods = map(levels.likelihood, points)
    return levels, _Sizes.of([point.x for point in points], levels.grid, likelihoods)


def _starts(levels: Levels) -> Array:
    """Returns the heights (starts,), in octaves, that a law may have at the middle size."""
    import numpy as np

    starts: Array = np.linspace(levels.low - SPARE / 2, levels.high + SPARE / 2, LEVELS)
    return starts


def _kernels(grid: Array) -> Array:
    """Returns the shares (errors, levels, levels) of the levels that a size may have (last axis)
    where the law says a level (middle axis), for each of ERRORS."""
    import numpy as np

    apart = grid[:, None] - grid
    found = np.array([np.exp(-0.5 * (apart / (error or TINY)) ** 2) for error in ERRORS])
    shares: Array = found / found.sum(axis=2, keepdims=True)
    return shares


def _held_errors() -> Array:
    """Returns the prior probability (errors,) of each of ERRORS."""
    import numpy as np

    rising = np.array(ERRORS)
    ends = np.array([0, rising[1] / 2, *(rising[1:-1] + rising[2:]) / 2, LARGEST])
    small = _shares(np.diff(np.arctan(ends / SMALL)))
    return SHARE_SMALL * small + (1 - SHARE_SMALL) * _shares(np.diff(ends))


def _shares(weights: Sequence[float] | Array) -> Array:
    import numpy as np

    found: Array = np.asarray(weights) / np.sum(weights)
    return found


def _middle(xs: Sequence[float]) -> float:
    """Returns the middle of the range of the xs, in octaves."""
    return (log2(min(xs)) + log2(max(xs))) / 2


def _slope(slopes: Array, density: Array) -> Slope:
    import numpy as np

    below = (np.cumsum(density) - density / 2) / density.sum()
    low, middle, high = np.interp((0.025, 0.5, 0.975), below, slopes)
    return Slope(float(middle), float(low), float(high), 1 - float(np.interp(0, slopes, below)))
