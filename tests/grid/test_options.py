"""Goals: what their text may be. The text that a goal itself gives is read back as the same
goal."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.grid.options import OPERATORS, TRIAL_CELLS, Goal, Settle

METRICS = st.sampled_from(["acc", "chain_acc", "loss"])


@given(METRICS, st.sampled_from(list(OPERATORS)), st.floats(allow_nan=False))
def test_a_goal_is_read_back_from_its_text(metric: str, comparison: str, number: float) -> None:
    goal = Goal(metric, comparison, number)
    assert Goal.parse(str(goal)) == goal


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("acc>0.9", Goal("acc", ">", 0.9)),
        ("  loss <= 1e-3\n", Goal("loss", "<=", 0.001)),
        ("acc >= .5", Goal("acc", ">=", 0.5)),
        ("perplexity < -3", Goal("perplexity", "<", -3.0)),
        ("acc < inf", Goal("acc", "<", math.inf)),
    ],
)
def test_goals_may_be_written_in_several_ways(text: str, goal: Goal) -> None:
    assert Goal.parse(text) == goal


@pytest.mark.parametrize(
    "text", ["", "acc", "acc > ", "acc = 0.9", "acc == 1", "0.9 < acc", "acc >> 1", "acc > high",
             "acc > 0.9 and loss < 1", "acc > 0.9; DROP TABLE x", "a c > 1"]
)  # fmt: skip
def test_what_is_no_goal(text: str) -> None:
    with pytest.raises(ValueError, match="write METRIC > NUMBER"):
        Goal.parse(text)


def test_a_trial_of_settling_costs_a_share_of_the_grid_or_some_average_cells() -> None:
    assert Settle().most_a_trial([1, 1, 2, 4]) == pytest.approx(TRIAL_CELLS * 2)
    assert Settle(share=0.25).most_a_trial([1, 1, 2, 4]) == pytest.approx(2)
