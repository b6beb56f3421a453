"""Fits: the estimator against a slow twin (weighted random laws), its laws, its coverage on
simulated grids; refusals; predictions; resampled seeds; and `fit` from question to rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import pytest
from fake_store import FakeStore, now, planned
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.errors import UserError
from sweepd.query.answers import ask
from sweepd.query.database import Answer
from sweepd.query.power_law import MARGIN, PREDICTED, SCALE, Point, PowerLaw, agrees, fit, refusal

WIDTHS = (8, 16, 32, 64, 128, 256)


def points(xs: Sequence[float], ends: Sequence[tuple[float, float]]) -> list[Point]:
    return [Point(x, low, high) for x, (low, high) in zip(xs, ends, strict=True)]


# The estimator

STAIRS = points((10, 20, 40, 80), ((8, 16), (16, 32), (32, 64), (64, 128)))
LEVEL = points((10, 20, 40, 80), ((8, 16),) * 4)
CENSORED = points((10, 20, 40, 80), ((0, 8), (8, 16), (16, 64), (64, inf)))


def slow_twin(points: Sequence[Point], rng: np.random.Generator) -> tuple[float, float, float]:
    """The quantiles of the exponents of random laws, each weighted by its likelihood."""
    xs = [math.log2(point.x) for point in points]
    ends = [math.log2(e) for point in points for e in (point.low, point.high) if 0 < e < inf]
    reach = max(ends) - min(ends) + 2 * MARGIN
    laws = []
    for _ in range(20_000):
        slope = rng.uniform(-1, 1) * reach / (max(xs) - min(xs))
        level = (max(ends) + min(ends)) / 2 + rng.uniform(-0.5, 0.5) * reach
        weight = 1.0
        for x, point in zip(xs, points, strict=True):
            law = level + slope * (x - (max(xs) + min(xs)) / 2)
            below = [
                0.0 if end == 0 else 1.0 if end == inf else 1 / (1 + math.exp(-z))
                for end in (point.low, point.high)
                for z in [(math.log2(end) - law) / SCALE if 0 < end < inf else 0]
            ]
            weight *= below[1] - below[0]
        laws.append((slope, weight))
    laws.sort()
    total, so_far = sum(weight for _, weight in laws), 0.0
    found: list[float] = []
    for slope, weight in laws:
        so_far += weight / total
        while len(found) < 3 and so_far >= (0.025, 0.5, 0.975)[len(found)]:
            found.append(slope)
    return found[0], found[1], found[2]


@pytest.mark.parametrize("known", [STAIRS, LEVEL, CENSORED])
def test_the_slow_twin_finds_the_same(known: list[Point]) -> None:
    law = fit([known])
    expected = slow_twin(known, np.random.default_rng(0))
    assert (law.low, law.exponent, law.high) == pytest.approx(expected, abs=0.1)


def test_what_a_grid_of_octaves_says() -> None:
    law = fit([STAIRS])
    assert (law.exponent, law.factor) == pytest.approx((1, 2**0.5 * 8 / 10), rel=0.02)
    assert law.low < 0.8 and law.high > 1.2  # slopes that pass through all intervals
    assert fit([LEVEL]).exponent == pytest.approx(0, abs=1e-6)


KNOWN = st.lists(
    st.tuples(st.sampled_from([0, 8, 16, 32, 64]), st.sampled_from([2, 4, inf])),
    min_size=4,
    max_size=4,
).map(lambda ends: points((10, 20, 40, 80), [(low, (low or 8) * times) for low, times in ends]))


@settings(max_examples=25, deadline=None)
@given(KNOWN, st.sampled_from([0.25, 3.0]), st.sampled_from([0.5, 8.0]))
def test_units_change_the_factor_alone(known: list[Point], of_x: float, of_d: float) -> None:
    if refusal(known) is not None:
        return
    law = fit([known])
    moved = fit([[Point(p.x * of_x, p.low * of_d, p.high * of_d) for p in known]])
    assert (moved.low, moved.exponent, moved.high) == pytest.approx(
        (law.low, law.exponent, law.high), abs=1e-6
    )
    assert moved.factor == pytest.approx(law.factor * of_d / of_x**law.exponent, rel=1e-4)
    assert law.low <= law.exponent <= law.high


def test_resamples_that_differ_widen_the_interval() -> None:
    steeper = points((10, 20, 40, 80), ((8, 16), (16, 32), (32, 64), (128, 256)))
    alone, both = fit([STAIRS]), fit([STAIRS, steeper])
    assert fit([STAIRS] * 5) == alone
    assert both.high - both.low > alone.high - alone.low
    assert alone.exponent < both.exponent < fit([steeper]).exponent


def test_a_resample_that_says_nothing_counts_as_one_that_allows_every_law() -> None:
    nothing = points((10, 20, 40, 80), [(0, inf)] * 4)
    alone, both = fit([STAIRS]), fit([*[STAIRS] * 99, nothing])
    assert (both.low, both.exponent, both.high) == pytest.approx(
        (alone.low, alone.exponent, alone.high), abs=0.1
    )
    half = fit([STAIRS, nothing])
    assert half.low < 0 < 2 < half.high


def simulated(
    rng: np.random.Generator, exponent: float, spread: float, seeds: int
) -> PowerLaw | None:
    """A fit to a grid on which each seed needs its own width, `spread` octaves about the law's."""
    sizes = np.array([83, 223, 353, 503])
    law = rng.uniform(3.5, 4.5) + exponent * np.log2(sizes / sizes[0])
    needs = law[:, None] + spread * rng.normal(size=(len(sizes), seeds))

    def known(needs: np.ndarray) -> list[Point]:
        found = []
        for size, need in zip(sizes, np.median(needs, axis=1), strict=True):
            failed = [d for d in WIDTHS if math.log2(d) < need]
            found.append(
                Point(
                    size, max(failed, default=0), min(set(WIDTHS).difference(failed), default=inf)
                )
            )
        return found

    if refusal(known(needs)):
        return None
    drawn = rng.integers(0, seeds, size=(60, len(sizes), seeds))
    return fit(known(np.take_along_axis(needs, one, axis=1)) for one in drawn)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
@pytest.mark.parametrize(("spread", "seeds"), [(0.0, 1), (0.5, 3)])
def test_intervals_cover_and_estimates_are_right_on_average(
    exponent: float, spread: float, seeds: int
) -> None:
    rng = np.random.default_rng(1)
    laws = [law for _ in range(24) if (law := simulated(rng, exponent, spread, seeds))]
    assert len(laws) >= 20
    assert np.mean([law.low <= exponent <= law.high for law in laws]) >= 0.9
    assert np.mean([law.exponent for law in laws]) == pytest.approx(exponent, abs=0.15)
    assert np.mean([law.high - law.low for law in laws]) < 1.6


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([(8, 16), (16, 32)], "2 of 2 points say anything: a fit needs 3"),
        ([(8, 16), (16, 32), (0, inf)], "2 of 3 points say anything: a fit needs 3"),
        ([(0, 8), (0, 8), (0, 8)], "all points but 0 are censored"),
        ([(0, 8), (8, 16), (16, inf)], "all points but 1 are censored"),
        ([(0, 8), (8, 16), (8, 16)], None),
        ([(0, inf), (8, 16), (8, 16), (16, inf)], None),
    ],
)
def test_refusals(ends: Any, reason: str | None) -> None:
    found = refusal(points((10, 20, 40, 80)[: len(ends)], ends))
    assert found is None if reason is None else (found or "").startswith(reason)


@pytest.mark.parametrize(
    ("predicted", "low", "high", "expected"),
    [
        ("0", -0.1, 0.3, True),
        ("0", 0.1, 0.3, False),
        ("1/2", 0.1, 0.6, True),
        ("1/2", 0.6, 0.9, False),
        ("1/2", 0.1, 0.4, False),
        (">= 1/4", 0.5, 0.9, True),
        (">= 1/4", -0.5, 0.25, True),
        (">= 1/4", -0.5, 0.2, False),
    ],
)
def test_agreement(predicted: str, low: float, high: float, expected: bool) -> None:
    assert agrees(predicted, low, high) is expected


def test_predictions_are_those_of_the_paper_s_models_and_tasks() -> None:
    tasks = {"lis", "edit_distance", "ed_local", "arithmetic"}
    assert PREDICTED.keys() == {(t, m) for t in tasks for m in ("standard", "sparse", "linear")}


# From question to rows

COLUMNS = [
    "task", "model", "exponent", "low", "high", "factor", "points", "censored", "seeds",
    "predicted", "agrees", "reason",
]  # fmt: skip


def question(store: FakeStore, text: str, **choices: Any) -> Answer:
    answer = ask(store, text, code=now, **choices)
    assert all(list(row) == answer.columns for row in answer.rows)
    return answer


def grown(seeds: int = 3, **axes: Any) -> FakeStore:
    """Linear needs d = 2n, standard d = 32; the middle one of three seeds is on the mark."""
    store = FakeStore()
    trials = [
        planned(n, d, seed, model=model, **axes)
        for n in (8, 16, 32, 64)
        for d in WIDTHS
        for seed in range(seeds)
        for model in ("linear", "standard")
    ]
    store.add_sweep("s", trials)
    for trial in trials:
        need = 2 * trial["n"] if trial["model"] == "linear" else 32
        store.end(
            trial, "completed", 0.95 if trial["d"] >= need * 2 ** (trial["seed"] - 1) else 0.5
        )
    return store


def test_a_row_of_fit() -> None:
    answer = question(grown(), "fit d ~ L where acc > 0.9")
    assert answer.columns == COLUMNS
    linear, standard = answer.rows
    assert (linear["task"], linear["model"], standard["model"]) == ("lis", "linear", "standard")
    for row, exponent in ((linear, 1), (standard, 0)):
        assert row["exponent"] == pytest.approx(exponent, abs=0.25)
        assert row["low"] < exponent < row["high"]
        assert (row["points"], row["censored"], row["seeds"], row["reason"]) == (4, 0, 3, None)
    assert (linear["predicted"], standard["predicted"]) == ("1/2", "0")
    assert (linear["agrees"], standard["agrees"]) == (linear["low"] <= 0.5, True)
    assert answer.notes == []
    assert question(grown(), "fit d ~ L by model where acc > 0.9").rows == answer.rows
    law = question(grown(), "fit d ~ n where acc > 0.9 and model = 'linear'").rows[0]
    assert law["factor"] * 20 ** law["exponent"] == pytest.approx(2 * 20 / 2**0.5, rel=0.25)
    assert (law["predicted"], law["agrees"]) == (None, None)


def test_costs_and_expressions_along_the_size() -> None:
    [row] = question(grown(), "fit flops_weights ~ L where acc > 0.9 and model = 'linear'").rows
    assert row["exponent"] == pytest.approx(3, abs=0.5)  # d² · L
    assert row["predicted"] is None
    [row] = question(grown(), "fit d * d ~ size where acc > 0.9 and model = 'linear'").rows
    assert row["exponent"] == pytest.approx(2, abs=0.4)


def test_a_fit_along_an_axis_is_made_at_each_size() -> None:
    store = FakeStore()
    trials = [planned(8, d, layers=layers) for d in WIDTHS for layers in (1, 2, 4)]
    store.add_sweep("s", trials)
    for trial in trials:
        store.end(trial, "completed", 0.95 if trial["d"] * trial["layers"] >= 64 else 0.5)
    answer = question(store, "fit d ~ layers where acc > 0.9")
    [row] = answer.rows
    assert (row["size"], row["L"], row["seeds"]) == (8, 19, 1)
    assert row["exponent"] == pytest.approx(-1, abs=0.05)
    assert any(note.startswith("one seed") for note in answer.notes)


def test_only_what_differs_at_one_size_is_a_group() -> None:
    store = FakeStore()
    trials = [
        planned(n, d, heads=heads, value_range=2 * n)
        for n in (8, 16, 32)
        for d in WIDTHS
        for heads in (2, 4)
    ]
    store.add_sweep("s", trials)
    for trial in trials:
        store.end(trial, "completed", 0.95 if trial["d"] >= 4 * trial["n"] else 0.5)
    answer = question(store, "fit d ~ L where acc > 0.9")
    assert answer.columns[:3] == ["task", "model", "heads"]
    assert [row["heads"] for row in answer.rows] == [2, 4]
    pooled = question(store, "fit d ~ L by model where acc > 0.9")
    assert [row["points"] for row in pooled.rows] == [3]


def test_what_cannot_be_fitted_says_why() -> None:
    answer = question(grown(), "fit d ~ L where acc > 0.9 and n < 20 and model = 'linear'")
    assert answer.rows[0]["reason"] == "2 of 2 points say anything: a fit needs 3"
    assert [answer.rows[0][name] for name in ("exponent", "low", "high", "factor", "agrees")] == [
        *(None,) * 5
    ]
    assert answer.rows[0]["predicted"] == "1/2"
    [row] = question(grown(), "fit d ~ L where acc > 0.9 and d = 32 and model = 'linear'").rows
    assert (row["points"], row["censored"], row["reason"]) == (
        *(4, 4),
        "all points but 0 are censored: widen the range of what is minimised",
    )
    assert question(grown(), "fit d ~ L where acc > 0.9 and n > 100").rows == []
    store = FakeStore()
    store.add_sweep("s", [planned(n, d) for n in (8, 16, 32) for d in WIDTHS])
    [row] = question(store, "fit d ~ L").rows
    assert (row["points"], row["seeds"]) == (0, 0)
    assert row["reason"] == "0 of 3 points say anything: a fit needs 3"


def test_no_prediction_without_chains_of_thought() -> None:
    for cot, predicted in ((True, "1/2"), (False, None)):
        store = grown(seeds=1, cot=cot)
        row = question(store, "fit d ~ L where acc > 0.9 and model = 'linear'").rows[0]
        assert row["predicted"] == predicted


def test_a_fit_without_a_score_is_about_the_goal() -> None:
    answer = question(grown(), "fit d ~ L")
    assert [row["points"] for row in answer.rows] == [4, 4]
    assert any("the goal decides: acc > 0.9" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fit d ~ d", "~ d: fit along the size or an axis"),
        ("fit d ~ flops", "~ flops: fit along the size or an axis"),
        ("fit d ~ acc", "~ acc: fit along the size or an axis"),
        ("fit d ~ lr", "~ lr: it is of type VARCHAR, not a number"),
        ("fit d ~ L by L", "by L: a fit along L needs several values in a group"),
        ("fit d - 8 ~ L", "`d - 8` is 0 somewhere: power laws are of positive numbers"),
        ("fit d ~ zeros", "`zeros` is 0 somewhere"),
        ("fit model ~ L", "`model` is of type VARCHAR, not a number"),
    ],
)
def test_questions_that_no_fit_answers(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        question(grown(seeds=1, zeros=0), text)
