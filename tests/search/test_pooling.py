"""The seeds of a cell as one score, by each pass rule. Also tested is when the interval of this
score holds the goal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.grid.options import Goal, PassRule
from sweepd.search.pooling import is_near, pooled

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=5)


@given(SCORES)
def test_all_takes_the_worst_and_any_the_best(scores: list[float]) -> None:
    worst, best = min(scores), max(scores)
    assert (pooled(scores, "all", "up"), pooled(scores, "any", "up")) == (worst, best)
    assert (pooled(scores, "all", "down"), pooled(scores, "any", "down")) == (best, worst)
    rules: tuple[PassRule, ...] = ("median", "mean")
    for rule in rules:
        assert worst - 1e-12 <= pooled(scores, rule, "up") <= best + 1e-12


@given(SCORES, st.floats(0.01, 0.99))
def test_a_larger_sample_is_near_less_often(scores: list[float], threshold: float) -> None:
    goal = Goal("acc", ">", threshold)
    if is_near(scores, [4096], goal, "median"):
        assert is_near(scores, [64], goal, "median")


@pytest.mark.parametrize(
    ("scores", "totals", "goal", "near"),
    [
        ([0.89], [100], Goal("acc", ">", 0.9), True),
        ([0.5], [100], Goal("acc", ">", 0.9), False),
        ([0.89], [], Goal("acc", ">", 0.9), False),
        ([0.1], [100], Goal("loss", "<", 0.1), False),  # a loss is no share, though between 0 and 1
    ],
)
def test_scores_that_are_no_shares_are_never_near(
    scores: list[float], totals: list[int], goal: Goal, near: bool
) -> None:
    assert is_near(scores, totals, goal, "median") is near
