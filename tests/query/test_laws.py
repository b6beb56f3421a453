"""Fits of laws. The estimator is compared with a slow twin, which weights random laws. Also tested
are the laws, their weights and differences, and what is refused. The coverage of the intervals is
measured on simulated grids; benchmarks/inference.py measures more of it."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sweepd.query import laws
from sweepd.query.laws import Law, Point, Tried, difference, fit, refusal, weights

XS = (10, 20, 40, 80)
WIDTHS = (8, 16, 32, 64, 128, 256)


def at(x: float, passed: int | None, *failed: int, seeds: int = 3) -> Point:
    """What is tried at one x: widths that all seeds failed with, and one that they passed with."""
    tried = [Tried(d, 0, seeds) for d in failed]
    return Point(x, tuple(tried + ([Tried(passed, seeds, 0)] if passed else [])))


STAIRS = [at(x, 16 * x // 10, 8 * x // 10) for x in XS]
LEVEL = [at(x, 16, 8) for x in XS]
CENSORED = [at(10, 8), at(20, 16, 8), at(40, 64, 16), at(80, None, 64)]
SPLIT = [
    Point(x, (Tried(8, 1, 2), Tried(16, 2, 1), Tried(32, 3, 0))) for x in XS[:2]
] + [Point(x, (Tried(16, 1, 1), Tried(32, 2, 1))) for x in XS[2:]]  # fmt: skip


def likelihood(
    points: Sequence[Point], levels: npt.NDArray[np.float64], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """The likelihood of every trial by laws of these levels (draws, points), each with random
    errors and a random scatter of its seeds."""
    draws = len(levels)
    values = [math.log2(one.value) for point in points for one in point.tried]
    held = np.array([1 / scale for scale in laws.SCALES])
    scale = rng.choice(laws.SCALES, draws, p=held / held.sum())
    error = rng.choice(laws.ERRORS, draws, p=held_errors())
    weight = np.ones(draws)
    for level, point in zip(levels.T, points, strict=True):
        there = level + error * rng.normal(size=draws)
        weight *= there >= min(values) - laws.BELOW
        for one in point.tried:
            z = np.clip((math.log2(one.value) - there) / scale, -500, 500)
            share = laws.STRAY + (1 - 2 * laws.STRAY) / (1 + np.exp(-z))
            weight *= share**one.passed * (1 - share) ** one.failed
    return weight


def slow_twin(points: Sequence[Point], rng: np.random.Generator) -> list[float]:
    """The quantiles of the exponents of random laws, each weighted by its likelihood."""
    draws, xs = 400_000, np.log2([point.x for point in points])
    values = [math.log2(one.value) for point in points for one in point.tried]
    reach = (max(values) - min(values) + 2 * laws.SPARE) / (max(xs) - min(xs))
    slope = rng.uniform(-1, 1, draws) * max(reach, 2 * laws.STEEPEST)
    level = rng.uniform(min(values) - laws.SPARE / 2, max(values) + laws.SPARE / 2, draws)
    middle = (max(xs) + min(xs)) / 2
    weight = likelihood(points, level[:, None] + slope[:, None] * (xs - middle), rng)
    order = np.argsort(slope)
    below = np.cumsum(weight[order]) / weight.sum()
    return [float(slope[order][np.searchsorted(below, q)]) for q in (0.025, 0.5, 0.975)]


def held_errors() -> list[float]:
    """A mixture of a half-Cauchy distribution and a uniform one, cut between the errors."""
    middles = [(a + b) / 2 for a, b in pairwise(laws.ERRORS)]
    cuts = [0, *middles, laws.LARGEST]
    pairs = list(pairwise(cuts))
    small = [math.atan(b / laws.SMALL) - math.atan(a / laws.SMALL) for a, b in pairs]
    return [
        laws.SHARE_SMALL * one / sum(small) + (1 - laws.SHARE_SMALL) * (b - a) / laws.LARGEST
        for one, (a, b) in zip(small, pairs, strict=True)
    ]


@pytest.mark.parametrize("known", [STAIRS, LEVEL, CENSORED, SPLIT])
def test_the_slow_twin_finds_the_same(known: list[Point]) -> None:
    law = fit(known)
    expected = slow_twin(known, np.random.default_rng(0))
    assert [law.low, law.exponent, law.high] == pytest.approx(expected, abs=0.12)


def test_what_a_grid_of_octaves_says() -> None:
    law = fit(STAIRS)
    assert (law.exponent, law.factor) == pytest.approx((1, 2**0.5 * 8 / 10), rel=0.05)
    assert (law.direction, fit(LEVEL).direction) == ("grows", "not told")
    assert fit(LEVEL).exponent == pytest.approx(0, abs=0.01)


def tried(found: Sequence[tuple[int, int, int]]) -> list[Point]:
    """What is tried at each of XS: a width, its fails, and the passes of twice the width."""
    return [
        Point(x, (Tried(d, 0, low), Tried(2 * d, high, 3 - high)))
        for x, (d, low, high) in zip(XS, found, strict=True)
    ]


KNOWN = st.lists(
    st.tuples(st.sampled_from(WIDTHS[:4]), st.integers(0, 3), st.integers(0, 3)),
    min_size=4,
    max_size=4,
).map(tried)


@settings(max_examples=10)
@given(KNOWN, st.sampled_from([0.25, 3.0]), st.sampled_from([0.5, 8.0]))
@example(tried([(8, 0, 3), (8, 0, 0), (8, 0, 3), (32, 1, 1)]), 3.0, 0.5)  # laws at the lowest level
def test_units_change_the_factor_alone(known: list[Point], of_x: float, of_d: float) -> None:
    if refusal(known) is not None:
        return
    law = fit(known)
    moved = fit(
        [
            Point(p.x * of_x, tuple(Tried(t.value * of_d, t.passed, t.failed) for t in p.tried))
            for p in known
        ]
    )
    assert (moved.low, moved.exponent, moved.high) == pytest.approx(
        (law.low, law.exponent, law.high), abs=1e-3
    )
    assert moved.factor == pytest.approx(law.factor * of_d / of_x**law.exponent, rel=1e-2)
    assert law.low <= law.exponent <= law.high


def test_what_was_not_tried_says_nothing() -> None:
    assert fit([*STAIRS, Point(160, (Tried(8, 0, 0),))]) == fit(STAIRS)


def test_passes_alone_bound_from_above() -> None:
    bound = fit([*STAIRS[:3], at(80, 128)])
    assert bound.low < fit(STAIRS).low
    assert bound.high == pytest.approx(fit(STAIRS).high, abs=0.5)


def test_growth_below_the_grid_is_not_counted() -> None:
    """Index lookup with 4 to 32 symbols: linear needs 8 to 64, standard 4, 4, 4 and 8, and nothing
    below 4 was tried. The first grows, the second is not told to, and they differ."""
    linear = [at(x, 2 * x, x) for x in (4, 8, 16, 32)]
    standard = [*(at(x, 4) for x in (4, 8, 16)), at(32, 8, 4)]
    law, flat, apart = fit(linear), fit(standard), difference(linear, standard)
    assert law.direction == "grows" and law.exponent == pytest.approx(1, abs=0.05)
    assert flat.direction == "not told" and 0 < flat.exponent < 0.5 and flat.low < 0
    assert apart is not None and apart.low > 0


def bent(shape: Sequence[float]) -> list[Point]:
    """Six sizes over five octaves whose level climbs so, on widths in half octaves."""
    widths = [2 ** (i / 2) for i in range(5, 25)]
    return [
        Point(
            2.0 ** (3 + i),
            tuple(Tried(d, *((3, 0) if math.log2(d) > 5.25 + up else (0, 3))) for d in widths),
        )
        for i, up in enumerate(shape)
    ]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("constant", [0, 0, 0, 0, 0, 0]),
        ("power", [0, 1, 2, 3, 4, 5]),
        ("plateau", [0, 0, 0, 1, 2, 3]),
        ("sqrt", [(i - math.log2((3 + i) / 3)) / 2 for i in range(6)]),
        ("log", [math.log2((3 + i) / 3) for i in range(6)]),
    ],
)
def test_the_true_law_has_the_greatest_weight(name: str, shape: Sequence[float]) -> None:
    found = weights(bent(shape))
    assert sum(found.values()) == pytest.approx(1)
    assert max(found, key=lambda law: found[law]) == name


def test_a_law_with_logarithms_needs_x_above_e() -> None:
    below = [Point(p.x / 8, p.tried) for p in STAIRS]
    assert weights(below).keys() == {"constant", "log", "power", "plateau"}
    at_one = [Point(p.x / 10, p.tried) for p in STAIRS]
    assert weights(at_one).keys() == {"constant", "power", "plateau"}


def slow_weights(points: Sequence[Point], rng: np.random.Generator) -> dict[str, float]:
    """How often random laws of each kind, with random levels and errors, would give what is known:
    the average likelihood of every trial."""
    draws = 100_000
    xs = np.array([point.x for point in points])
    values = [math.log2(one.value) for point in points for one in point.tried]
    octaves = np.log2(xs)
    exponent = rng.uniform(0, laws.STEEPEST, draws)[:, None]
    share = rng.uniform(0, 1, draws)[:, None]  # of the logarithm, at the middle size
    knee = rng.choice(np.sort(octaves)[1:-1], draws)[:, None]
    middle = (octaves.max() + octaves.min()) / 2
    heights = {
        "constant": np.zeros((draws, len(xs))),
        "log": np.log2((1 - share) + share * octaves / middle),
        "power": exponent * octaves,
        "sqrt": np.log2(np.sqrt(xs / np.log(xs))) + np.zeros((draws, 1)),
        "plateau": exponent * np.maximum(octaves - knee, 0),
    }
    found = {}
    for name, height in heights.items():
        level = rng.uniform(min(values) - laws.SPARE / 2, max(values) + laws.SPARE / 2, draws)
        height = height - height.mean(axis=1, keepdims=True) + level[:, None]
        found[name] = float(likelihood(points, height, rng).mean())
    return {name: one / sum(found.values()) for name, one in found.items()}


@pytest.mark.parametrize("known", [STAIRS, LEVEL, CENSORED, SPLIT])
def test_the_slow_twin_weighs_the_same(known: list[Point]) -> None:
    assert weights(known) == pytest.approx(slow_weights(known, np.random.default_rng(0)), abs=0.05)


def test_errors_that_sizes_share_cancel_in_a_difference() -> None:
    harder = [0, 2, 0, 1, 3, 1]
    one = bent([up + i for i, up in enumerate(harder)])
    other = bent(harder)
    paired = difference(one, other)
    assert paired is not None
    assert paired.exponent == pytest.approx(1, abs=0.05)
    apart = [fit(one), fit(other)]
    assert paired.high - paired.low < 0.7 * min(law.high - law.low for law in apart)
    assert difference(one, other[:2]) is None
    assert difference([], other) is None


def simulated(rng: np.random.Generator, exponent: float, error: float, seeds: int) -> Law | None:
    """A fit to a grid whose sizes lie off the law by `error` octaves, trials by .3."""
    known = []
    start = rng.uniform(3.5, 5)
    for x in (32, 48, 72, 108, 162, 243):
        level = start + exponent * math.log2(x / 32) + error * rng.normal()
        tried = []
        for width in WIDTHS:
            passed = sum(math.log2(width) >= level + 0.3 * rng.normal() for _ in range(seeds))
            tried.append(Tried(width, passed, seeds - passed))
        known.append(Point(x, tuple(tried)))
    return None if refusal(known) else fit(known)


@pytest.mark.parametrize("exponent", [0.0, 0.5])
@pytest.mark.parametrize(("error", "seeds"), [(0.0, 1), (0.7, 3)])
def test_intervals_cover_and_estimates_are_right_on_average(
    exponent: float, error: float, seeds: int
) -> None:
    rng = np.random.default_rng(1)
    laws = [law for _ in range(24) if (law := simulated(rng, exponent, error, seeds))]
    assert len(laws) >= 20
    assert np.mean([law.low <= exponent <= law.high for law in laws]) >= 0.85
    assert np.mean([law.exponent for law in laws]) == pytest.approx(exponent, abs=0.2)


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (STAIRS[:2], "2 of 2 points say anything: a fit needs 3"),
        ([*STAIRS[:2], Point(40, ())], "2 of 3 points say anything: a fit needs 3"),
        ([at(x, 8) for x in XS], "all points are censored"),
        ([at(10, 8), at(20, 16, 8), at(40, None, 16)], None),
        (CENSORED, None),
    ],
)
def test_refusals(known: list[Point], reason: str | None) -> None:
    found = refusal(known)
    assert found is None if reason is None else (found or "").startswith(reason)
