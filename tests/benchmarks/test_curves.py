"""The simulated learning curves of the benchmarks. Figures that were measured on real training are
not unusual among them. A trial's budget changes nothing else about it. With growing budgets the
scores approach what is true at an infinite budget."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pytest
from curves import FAMILIES, GOAL, RULES, SAMPLES, draw

BUDGETS = (1000, 2000, 4000, 8000, 16_000, 32_000)

Curve = Mapping[int, float]
Cell = tuple[Curve, Curve | None]


@cache
def cells() -> list[Cell]:
    """Of many truths all widths at the third size: each with one seed's score by budget, and the
    same of the next smaller width. One rate, the middle one."""
    found: list[Cell] = []
    for seed in range(700):
        truth = draw(seed)
        if truth.family == "late jump":
            continue
        rate, size = truth.rates[len(truth.rates) // 2], truth.sizes[2]
        curves = {
            d: {steps: truth.score(size, d, rate, 0, steps) for steps in BUDGETS}
            for d in truth.widths
        }
        found += [(curve, curves.get(d // 2)) for d, curve in curves.items()]
    return found


def after(steps: int, score: float, other: float = 0.03) -> Callable[[Cell], bool]:
    return lambda cell: abs(cell[0][steps] - score) < other


@pytest.mark.parametrize(
    ("like", "width", "steps", "measured"),
    [
        # LIS, n = 8, d = 8: linear, sparse and standard, each from what it had before
        ([after(1000, 0.662)], 0, 8000, 0.838),
        ([after(1000, 0.662)], 0, 32_000, 0.911),
        ([after(1000, 0.662, 0.1), after(8000, 0.838)], 0, 32_000, 0.911),
        ([after(8000, 0.808)], 0, 32_000, 0.873),
        ([after(1000, 0.81)], 0, 8000, 0.955),
        # d = 8 from d = 16: linear at n = 8 and n = 10, sparse at n = 8
        ([after(8000, 0.969, 0.015)], 1, 8000, 0.838),
        ([after(8000, 0.939)], 1, 8000, 0.677),
        ([after(8000, 0.920)], 1, 8000, 0.808),
        # standard d = 4 from d = 8
        ([after(1000, 0.81, 0.06), after(8000, 0.955)], 1, 32_000, 0.55),
    ],
)
def test_measured_figures_are_nothing_unusual(
    like: list[Callable[[Cell], bool]], width: int, steps: int, measured: float
) -> None:
    """Take the simulated curves that resemble a measured one so far. The next measured score is
    within their central 90%."""
    alike = [
        curve for cell in cells() if all(same(cell) for same in like) and (curve := cell[width])
    ]
    assert len(alike) >= 30
    low, high = np.quantile([curve[steps] for curve in alike], [0.05, 0.95])
    assert low < measured < high


def test_halving_d_costs_the_steps_that_were_measured() -> None:
    """Two measurements. The score .95 took 2200 steps at d = 16 and 7200 at d = 8. Where .9 took
    4000 steps, it took about 32,000 at half the d."""

    def first(curve: Curve, mark: float) -> float:
        return next((steps for steps, score in curve.items() if score > mark), math.inf)

    for mark, known, measured in ((0.95, 4000, 8000), (0.9, 4000, 32_000)):
        times = [
            first(half, mark) for curve, half in cells() if half and first(curve, mark) == known
        ]
        finite = sum(steps < math.inf for steps in times) / len(times)
        share = sum(steps <= measured for steps in times) / len(times)
        assert 0.05 < share < 0.95 and finite > 0.2


@pytest.mark.parametrize("seed", range(20))
def test_where_curves_go_is_what_is_true(seed: int) -> None:
    truth = draw(seed)
    for size in truth.sizes:
        row = truth.row(size)
        passing = [d for d in truth.widths if truth.pooled(size, d, 1e30) > GOAL]
        if not row.too_close:
            assert row.least == min(passing, default=None)
        for d in truth.widths:
            limits = [truth.score(size, d, truth.rates[0], s, math.inf) for s in (0, 1, 2)]
            far = [truth.score(size, d, truth.rates[0], s, 1e30) for s in (0, 1, 2)]
            assert far == pytest.approx(limits, abs=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_only_the_evaluation_error_is_drawn_anew_for_each_budget(seed: int) -> None:
    truth, again = draw(seed), draw(seed)
    size, d, rate = truth.sizes[0], truth.widths[-1], truth.rates[0]
    scores = [truth.score(size, d, rate, 0, steps) for steps in range(500, 30_000, 10)]
    assert scores == sorted(scores)
    seen = [again.test_score(size, d, rate, 0, steps) for steps in range(500, 30_000, 10)]
    errors = (np.array(seen) - scores) / np.sqrt(np.array(scores) * (1 - np.array(scores)))
    assert abs(errors.mean()) < 0.1 / math.sqrt(SAMPLES)
    assert errors.std() == pytest.approx(1 / math.sqrt(SAMPLES), rel=0.1)
    assert abs(np.corrcoef(errors[1:], errors[:-1])[0, 1]) < 0.1


def test_truths_are_of_all_families_and_rules() -> None:
    truths = [draw(seed) for seed in range(1000)]
    for name, shares in (("family", FAMILIES), ("rule", RULES)):
        counts = Counter(getattr(truth, name) for truth in truths)
        drawn = {kind: count / len(truths) for kind, count in counts.items()}
        assert drawn == pytest.approx(shares, abs=0.05)


def test_some_seeds_are_stuck() -> None:
    shares = [
        np.mean([t.score(t.sizes[0], 128, t.rates[0], s, math.inf) < GOAL for s in range(30)])
        for t in map(draw, range(200))
        if t.family == "stuck" and t.height(t.sizes[0], 128) > 1
    ]
    assert 0.01 < np.mean(shares) < 0.5


def test_late_rows_are_those_whose_least_d_jumps_late() -> None:
    rows = [(t, size, t.row(size)) for t in map(draw, range(60)) for size in t.sizes]
    passed = [
        (t.pooled(size, row.least, 16 * t.base) > GOAL, row.late)
        for t, size, row in rows
        if row.least and t.land.jumps and t.land.jump_width < 0.2 and not row.too_close
    ]
    assert np.mean([late for _, late in passed]) > 0.2
    assert np.mean([early == late for early, late in passed]) < 0.1
    assert not any(row.late for t, _, row in rows if not t.land.jumps)
