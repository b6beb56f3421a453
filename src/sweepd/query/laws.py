"""Fits laws of growth to the outcomes of trials, and weighs several laws against each other.

The level of a size is the width at which half of its trials pass, in octaves. The probability that
a trial passes is a logistic function of log2(width) - level. Every trial that ran counts by itself.
A width that was never tried at a size says nothing there, even where a smaller size failed with it.
So the choice of what a search tried does not bias the answer. The search chose by what it had seen,
and all that it had seen is in the likelihood.

A level is what the law says at that size plus an error of that size. All trials of the size share
this error, since some sizes are harder than any smooth law says. The scale of these errors is not
known, so it is estimated with the rest, and so is the scatter of the seeds. The likelihood is
averaged over all of these and not maximised. On a grid of powers of two many laws fit equally well,
and the average keeps that uncertainty. benchmarks/inference.py measures how often the intervals
contain the truth.

Shapes: `levels` of the grid of heights, `scales` of SCALES, `errors` of ERRORS, `sizes` of the xs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import e, log2
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sweepd.grid.plan import Plan

Array = npt.NDArray[np.float64]

SCALES = (0.05, 0.1, 0.2, 0.3, 0.45, 0.65, 0.95)
"""The scales, in octaves, of the logistic function: how far the seeds of a size may lie apart. The
data weigh them. Beforehand each counts by its inverse, since most training scatters little."""
STRAY = 0.02
"""The probability that a trial passes however small its width is, and also that one fails however
large it is. Such a trial was lucky, or it hung."""
STEP = 0.1
"""The distance, in octaves, between the levels at which the likelihood is computed. It is larger
where that would take more than MOST steps."""
MOST = 200
MARGIN = 3.0
"""How far, in octaves, the levels reach beyond the tried values on either side."""
BELOW = 1.0
"""How far, in octaves, a level may lie below the smallest value that was tried anywhere. Where that
value passes at several sizes, nothing else says how small a value would do, and a law as steep as
one likes would fit. So growth that happens below the grid is not counted."""
LEAST_POINTS = 3
"""The number of points that a fit needs. One must have both passes and fails. With only passes or
only fails, the interval would say what was held beforehand and nothing else."""

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
by the range of the tried values and twice this number, or with an exponent of 2 · STEEPEST if
that is more."""
STEEPEST = 2.0
"""The greatest exponent that is held possible when several laws are weighed against each other."""
TINY = 1e-9
SURE = 0.95
"""The probability from which on a law is said to grow or to fall."""
LAW_NAMES = ("constant", "log", "power", "sqrt", "plateau")
"""The laws that are weighed against each other. constant: the value is the same at every x. log:
a + b · ln x, where neither a nor b is negative. power: x ** exponent. sqrt: √(x / ln x), which
theory predicts for L. plateau: constant up to some size, and from there on x ** exponent."""


@dataclass(frozen=True)
class Tried:
    """How many trials of one width passed and failed at one size."""

    value: float
    passed: int
    failed: int


@dataclass(frozen=True)
class Point:
    """The trials at one value of what a law is fitted along."""

    x: float
    tried: tuple[Tried, ...]

    @property
    def informative(self) -> bool:
        return any(one.passed or one.failed for one in self.tried)

    @property
    def bracketed(self) -> bool:
        """Whether something passed, and something smaller failed."""
        failed = [one.value for one in self.tried if one.failed]
        return any(one.passed and one.value > min(failed) for one in self.tried if failed)


@dataclass(frozen=True)
class Levels:
    """The levels, in octaves, at which the likelihood is computed."""

    low: float
    high: float
    """The least and the greatest value that was tried."""
    grid: Array
    """The levels (levels,). They lie evenly over the tried values and MARGIN on either side."""
    starts: Array
    """The heights (starts,) that a law may have at the middle size."""

    @classmethod
    def of(cls, points: Sequence[Point]) -> Levels:
        """Returns the levels over all values that were tried at the points. At least one point must
        have trials, and all values must be above 0."""
        tried = [one.value for point in points for one in point.tried]
        low, high = float(np.log2(min(tried))), float(np.log2(max(tried)))
        count = min(MOST, round((high - low + 2 * MARGIN) / STEP))
        grid = np.linspace(low - MARGIN, high + MARGIN, count + 1)
        return cls(low, high, grid, np.linspace(low - SPARE / 2, high + SPARE / 2, LEVELS))

    def likelihood(self, point: Point) -> Array:
        """Returns the likelihood (scales, levels) of what was tried at one point, up to a factor
        that is the same for all scales and levels."""
        values = np.log2([one.value for one in point.tried])
        passed = np.array([one.passed for one in point.tried])[:, None]
        failed = np.array([one.failed for one in point.tried])[:, None]
        z = (values[:, None] - self.grid) / np.array(SCALES)[:, None, None]
        share = STRAY + (1 - 2 * STRAY) * (1 + np.tanh(z / 2)) / 2
        log = (passed * np.log(share) + failed * np.log1p(-share)).sum(axis=1)
        likelihood: Array = np.exp(log - log.max())
        likelihood[:, self.grid < self.low - BELOW] = 0
        return likelihood


class Law(NamedTuple):
    """The law value = factor · x ** exponent. Of the exponent it has the median, the ends `low` and
    `high` of its 95% interval, and the probability `rises` that it is above 0."""

    exponent: float
    low: float
    high: float
    rises: float
    factor: float = 1.0

    @property
    def direction(self) -> str:
        """`grows` or `falls` where the probability of that is at least SURE, else `not told`."""
        if self.rises >= SURE:
            return "grows"
        return "falls" if self.rises <= 1 - SURE else "not told"


def refusal(points: Sequence[Point]) -> str | None:
    """Returns the reason why these points cannot carry a fit, or None if they can."""
    informative = sum(point.informative for point in points)
    if informative < LEAST_POINTS:
        return f"{informative} of {len(points)} points say anything: a fit needs {LEAST_POINTS}"
    if not any(point.bracketed for point in points):
        return "all points are censored: widen the range of what is minimised"
    return None


def fit(points: Sequence[Point]) -> Law:
    """Returns the law through the points, for which `refusal` must be None."""
    levels, sizes = _sizes(points)
    start = levels.starts
    steepest = max((levels.high - levels.low + 2 * SPARE) / sizes.span, 2 * STEEPEST)
    slopes = np.linspace(-1, 1, SLOPES) * steepest
    density = sizes.density(start, slopes, sizes.xs)
    slope = _slope(slopes, density.sum(axis=0))
    of_start = density.sum(axis=1)
    at_middle = np.interp(0.5, (np.cumsum(of_start) - of_start / 2) / of_start.sum(), start)
    return slope._replace(factor=2 ** float(at_middle - slope.exponent * sizes.middle))


def weights(points: Sequence[Point]) -> dict[str, float]:
    """Returns the probability of each of LAW_NAMES that the xs of these points allow: `log` needs
    them above 1, and `sqrt` above e. They sum to 1. `refusal` must be None for the points.

    Each law counts by its likelihood, averaged over all that the law leaves open: its level,
    exponents from 0 to STEEPEST, and of `log` the share that b · ln x has of the value at the
    middle size, from 0 to 1. So a law that could fit anything gains nothing by that.
    """
    levels, sizes = _sizes(points)
    x = 2 ** (sizes.xs + sizes.middle)
    exponents = np.linspace(0, STEEPEST, SLOPES // 4)
    shapes = {"constant": [(np.zeros(1), sizes.xs)], "power": [(exponents, sizes.xs)]}
    if x.min() > 1:
        logarithms = np.log2(x) / sizes.middle
        shares = np.linspace(0, 1, SLOPES // 4)
        shapes["log"] = [(np.ones(1), np.log2(1 - b + b * logarithms)) for b in shares]
    if x.min() > e:
        shapes["sqrt"] = [(np.full(1, 0.5), np.log2(x / np.log(x)))]
    knees = np.sort(sizes.xs)[1:-1]
    shapes["plateau"] = [(exponents, np.maximum(sizes.xs - knee, 0)) for knee in knees]
    evidence = {
        name: np.mean([sizes.density(levels.starts, k, s - s.mean()).mean() for k, s in each])
        for name, each in shapes.items()
    }
    return {name: float(one / sum(evidence.values())) for name, one in evidence.items()}


def difference(one: Sequence[Point], other: Sequence[Point]) -> Law | None:
    """Returns the law of the ratio of `one` to `other`, whose factor is not told, over the xs that
    both have. Returns None where the points of either at these xs cannot carry a fit.

    An error of a size that both have in common, because the size is harder or easier than a law
    says, cancels. It may be anything.
    """
    at = {point.x: point for point in other if point.informative}
    pairs = [(point, at[point.x]) for point in one if point.informative and point.x in at]
    if refusal([mine for mine, _ in pairs]) or refusal([theirs for _, theirs in pairs]):
        return None
    levels = Levels.of([point for pair in pairs for point in pair])
    end = levels.grid[-1] - levels.grid[0]
    apart = np.linspace(-end, end, 2 * len(levels.grid) - 1)

    likelihoods = []
    for mine, theirs in (map(levels.likelihood, pair) for pair in pairs):
        # Of the difference of two levels of one size: (scales, 2 levels - 1).
        convolved = [np.convolve(a, b[::-1]) for a, b in zip(mine, theirs, strict=True)]
        likelihoods.append(np.array(convolved) / np.max(convolved))
    sizes = _Sizes.of([point.x for point, _ in pairs], apart, likelihoods)
    reach = levels.high - levels.low + SPARE
    slopes = np.linspace(-1, 1, SLOPES) * 2 * reach / sizes.span
    start = np.linspace(-reach, reach, 2 * LEVELS)
    return _slope(slopes, sizes.density(start, slopes, sizes.xs).sum(axis=0))


@dataclass(frozen=True)
class _Sizes:
    """The likelihood of a law's height at each size, for each scale and each error."""

    middle: float
    """The middle of the range of the sizes, in octaves."""
    xs: Array
    """The sizes, in octaves from `middle`. Shape (sizes,)."""
    grid: Array
    """The evenly spaced heights, in octaves, at which the likelihood is known. Shape (levels,)."""
    log: Array
    """The log likelihoods with the prior. Shape (sizes, levels, scales · errors)."""

    @classmethod
    def of(cls, xs: Sequence[float], grid: Array, likelihoods: Iterable[Array]) -> _Sizes:
        """Returns the log likelihoods at these xs, for each of SCALES and ERRORS, with the prior of
        both.

        grid: (levels,). likelihoods: (scales, levels) at each x.
        """
        # The shares (errors, levels, levels) of the levels that a size may have (last axis) where
        # the law says a level (middle axis). What lies above the grid counts at its top, where
        # every width fails as well. What lies below it is impossible.
        apart = grid[:, None] - grid
        normal = np.array([np.exp(-0.5 * (apart / (error or TINY)) ** 2) for error in ERRORS])
        kernels = normal / normal.sum(axis=2, keepdims=True).max(axis=1, keepdims=True)
        upper = slice(len(grid) // 2, None)
        kernels[:, upper, -1] += 1 - kernels[:, upper].sum(axis=2)
        likelihood = np.array([np.einsum("ejk,sk->jse", kernels, each) for each in likelihoods])
        # The prior: of a scale its inverse, and of an error the share of the range around it.
        rising = np.array(ERRORS)
        ends = np.array([0, rising[1] / 2, *(rising[1:-1] + rising[2:]) / 2, LARGEST])
        small = _shares(np.diff(np.arctan(ends / SMALL)))
        of_errors = SHARE_SMALL * small + (1 - SHARE_SMALL) * _shares(np.diff(ends))
        prior = np.log(np.outer(_shares([1 / scale for scale in SCALES]), of_errors))
        log = np.log(likelihood + TINY) + prior / len(likelihood)
        middle = (log2(min(xs)) + log2(max(xs))) / 2
        return cls(middle, np.log2(xs) - middle, grid, log.reshape(*likelihood.shape[:2], -1))

    @property
    def span(self) -> float:
        return float(self.xs.max() - self.xs.min())

    def density(self, start: Array, slopes: Array, shape: Array) -> Array:
        """Returns the likelihood (starts, slopes) of the laws start + slope · shape, up to a factor
        that all laws have in common. shape: (sizes,)"""
        total = np.zeros((len(start), len(slopes), self.log.shape[-1]), np.float32)
        step = self.grid[1] - self.grid[0]
        for log, climbed in zip(self.log, shape, strict=True):
            at = (start[:, None] + slopes * climbed - self.grid[0]) / step
            below = np.clip(at, 0, len(self.grid) - 2).astype(int)
            rest = np.clip(at - below, 0, 1)[..., None].astype(np.float32)
            log = (log - log.max()).astype(np.float32)
            total += log[below] * (1 - rest) + log[below + 1] * rest
            # A law at the lowest height is possible: rounding alone must not put it below.
            total[at < -TINY] += np.log(TINY)
        likelihood: Array = np.exp(total, dtype=np.float64).sum(axis=2)
        return likelihood


def _sizes(points: Sequence[Point]) -> tuple[Levels, _Sizes]:
    points = [point for point in points if point.informative]
    levels = Levels.of(points)
    likelihoods = map(levels.likelihood, points)
    return levels, _Sizes.of([point.x for point in points], levels.grid, likelihoods)


def _shares(weights: Sequence[float] | Array) -> Array:
    shares: Array = np.asarray(weights) / np.sum(weights)
    return shares


def _slope(slopes: Array, density: Array) -> Law:
    below = (np.cumsum(density) - density / 2) / density.sum()
    low, middle, high = np.interp((0.025, 0.5, 0.975), below, slopes)
    return Law(float(middle), float(low), float(high), 1 - float(np.interp(0, slopes, below)))


NOISE, ERROR = 0.3, 0.2
"""The standard deviations, in octaves, of the scatter of trials and of the error of a size. Both
are assumed, since no run has measured them."""
DRAWS = 7
TELLING, HOPE = 0.28, 0.5
"""Half widths of an interval. Up to TELLING, exponents of 0 and ½ are told apart nine times in ten
or more (results/inference). Above HOPE they hardly ever are."""


def precision_notes(plan: Plan) -> Iterator[str]:
    """Yields how exactly `fit d ~ L` will tell an exponent, before any trial of a grid has run, for
    each task and each set of sizes and widths.

    Outcomes are simulated at the grid's own sizes, widths and seeds. The true exponent is 0, and
    the scatter is NOISE and ERROR. They are fitted as those of trials are. The median width of the
    intervals is what to expect.
    """
    by_model: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for trial in plan.planned:
        if trial.L is not None and "d" in trial.axes:
            at = (trial.L, int(str(trial.axes["d"])))
            by_model[trial.task_name, trial.model_name].add(at)
    lines: dict[tuple[str, tuple[int, ...], tuple[int, ...]], set[str]] = defaultdict(set)
    for (task, model), points in by_model.items():
        lengths, widths = (tuple(sorted({*numbers})) for numbers in zip(*points, strict=True))
        if len(lengths) > 1 and len(widths) > 1:
            lines[task, lengths, widths].add(model)
    for (task, xs, of_d), models in lines.items():
        what = f"{task} ({', '.join(sorted(models))})"
        if len(xs) < LEAST_POINTS:
            yield f"{what}: {len(xs)} sizes, and `fit d ~ L` needs {LEAST_POINTS}"
            continue
        octaves = log2(max(xs) / min(xs))
        where = f"{what}: over {len(xs)} sizes within {octaves:.1f} octaves of L"
        half = half_width(xs, of_d, len(plan.grid.seeds))
        if half is None:
            yield f"{where}, `fit d ~ L` will mostly find no exponent: widen the range of d"
            continue
        tells = "tells 0 from ½" if half <= TELLING else "may tell 0 from ½"
        if half > HOPE:
            tells = "cannot tell 0 from ½: sizes that lie further apart help most, then a finer d"
        yield f"{where}, expect an exponent of `fit d ~ L` to ±{half:.2f}, which {tells}"


@lru_cache
def half_width(lengths: Sequence[int], widths: Sequence[int], seeds: int) -> float | None:
    """Returns half the median width of the 95% interval, or None if most grids carry no fit."""
    rng = np.random.default_rng(0)
    halves = []
    for _ in range(DRAWS):
        start = rng.uniform(log2(min(widths)), log2(max(widths)))
        points = []
        for length in lengths:
            level = start + ERROR * rng.normal()
            needs = level + NOISE * rng.normal(size=(len(widths), seeds))
            passed = (np.log2(widths)[:, None] >= needs).sum(axis=1)
            tried = (Tried(d, int(p), seeds - int(p)) for d, p in zip(widths, passed, strict=True))
            points.append(Point(length, tuple(tried)))
        if not refusal(points):
            law = fit(points)
            halves.append((law.high - law.low) / 2)
    return median(halves) if len(halves) > DRAWS // 2 else None
