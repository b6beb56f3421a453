"""Metrics that only a user's own loop reports: conditions, goals and frontiers on them. In some
stores no trial has reported any, or sweeps do not agree on them. A loop has neither d nor L."""

from typing import Any

import pytest
from fake_store import planned
from looped import CELLS, store
from questions import question

from sweepd.errors import UserError
from sweepd.query.database import connect


def test_the_least_width_that_reaches_a_metric() -> None:
    answer = question(store(CELLS), "min hidden where f1 > 0.8")
    rows = {row["size"]: row for row in answer.rows}
    assert (rows[2]["value"], rows[2]["verdict"], rows[2]["passed"]) == (8, "exact", 2)
    assert (rows[2]["f1"], rows[2]["f1_seed_min"], rows[2]["f1_seed_max"]) == (0.9, 0.7, 0.95)
    assert (rows[3]["value"], rows[3]["verdict"], rows[3]["f1"]) == (None, "above", 0.1)
    assert rows[3]["f1_seed_min"] is None  # infinitely bad: it diverged
    assert "err" not in answer.columns and answer.about == {"f1"}


def test_a_cost_that_its_loop_does_not_state_is_named_as_such() -> None:
    answer = question(store(CELLS), "frontier train_flops, f1")
    assert not answer.rows
    left_out = "cells for which an expression has no value: their loop may state costs in `cost()`"
    assert f"left out: 3 {left_out}" in answer.notes


def test_the_goal_decides_where_the_question_asks_nothing() -> None:
    answer = question(store(CELLS), "min hidden")
    assert [row["value"] for row in answer.rows] == [8, None]
    assert any("the goal decides: f1 > 0.8" in note for note in answer.notes)
    falling = question(store(CELLS, goal="err < 0.2"), "min hidden")
    assert [row["value"] for row in falling.rows] == [8, None]
    assert falling.rows[0]["err"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ("f1 > 0.6", True), ("f1 > 0.8", False), ("err < 0.4", True), ("err < 0.2", False),
        ("f1 BETWEEN 0.6 AND 0.8", True), ("f1_max > 0.8 AND f1_min > 0.4", True),
        ("f1 > 0.6 AND err < 0.2", False), ("NOT f1 < 0.6", True), ("f1 + 0 > 0.6", True),
    ],
)  # fmt: skip
def test_conditions(condition: str, passes: bool) -> None:
    [row] = question(store({(2, 4): [0.5, 0.9, 0.7]}), f"min hidden where {condition}").rows
    assert (row["value"] is not None) is passes


@pytest.mark.parametrize(
    ("rule", "f1", "value"),
    [
        ("mean", [0.9, 0.9, "diverged"], None), ("median", [0.9, 0.9, "diverged"], 4),
        ("median", [0.9, "diverged"], None), ("any", [0.9, "diverged"], 4),
        ("all", [0.9, 0.7], None), ("mean", [0.7, 0.95], 4),
    ],
)  # fmt: skip
def test_pass_rules(rule: str, f1: list[Any], value: int | None) -> None:
    [row] = question(store({(2, 4): f1}, **{"pass": rule}), "min hidden").rows
    assert (row["value"], row["verdict"]) == (value, "at most" if value else "above")


def test_a_seed_that_is_missing_leaves_a_cell_open() -> None:
    [row] = question(store({(2, 4): [0.9, None]}), "min hidden where f1 > 0.8").rows
    assert (row["value"], row["verdict"]) == (None, "open")


def test_frontiers_of_a_metric() -> None:
    answer = question(store(CELLS), "frontier hidden, f1")
    assert [(row["size"], row["hidden"], row["f1"]) for row in answer.rows] == [
        (2, 4, 0.7), (2, 8, 0.9), (3, 4, 0.1),
    ]  # fmt: skip
    falling = question(store(CELLS), "frontier hidden, err")
    assert [row["hidden"] for row in falling.rows] == [4, 8, 4]


def test_the_row_says_why_it_has_no_forecast() -> None:
    [row] = question(store({(2, 4): [0.5] * 3, (2, 8): [0.9] * 3}), "min hidden").rows
    assert (row["holds_to"], row["why"]) == (None, "not trained for 40 steps")
    bare = store({(2, 4): [0.5] * 3, (2, 8): [0.9] * 3})
    for trial in (*bare.plan, *bare.endings):
        del trial["steps"]
    [row] = question(bare, "min hidden").rows
    assert row["why"] == "its loop has no `steps`: nobody knows how long it ran"


def test_a_metric_is_a_column_before_anybody_reports_it() -> None:
    untried = store({(2, 4): [None]})
    [row] = question(untried, "min hidden where f1 > 0.8").rows
    assert row["verdict"] == "open"
    views = connect(untried, code="all")
    assert views.sql("SELECT f1, err FROM trials").rows == []
    assert views.sql("SELECT f1 FROM metrics").rows == []
    made = store({(2, 4): [0.9]})
    made.steps = [{"id": made.plan[0]["id"], "attempt": 1, "step": 1, "f1": 0.9, "seconds": 1.0}]
    rows = connect(made, code="all").sql("SELECT step, f1 FROM metrics").rows
    assert rows == [{"step": 1, "f1": 0.9}]


def test_beside_trials_of_the_built_in_training() -> None:
    made = store(CELLS)
    made.add_sweep("t", [planned(8, 16)])
    made.end(planned(8, 16), "completed", 0.95)
    rows = question(made, "min d where acc > 0.9").rows
    assert [(row["task"], row["value"]) for row in rows] == [("lis", 16)]
    rows = question(made, "min hidden where f1 > 0.8").rows
    assert [row["task"] for row in rows] == ["digits", "digits"]


def test_sweeps_that_do_not_agree_on_a_metric() -> None:
    made = store(CELLS)
    made.add_sweep("t", [planned(8, 16, f1=1)])
    with pytest.raises(UserError, match=r"f1 is a metric, better up, in sweep s and a field in"):
        question(made, "min hidden where f1 > 0.8")
    with pytest.raises(UserError, match="f1 is a metric"):  # also where no plan is asked of
        connect(made, code="all", needed={"trials"})
    made.add_sweep("t", [planned(8, 16)], metrics={"f1": "down"})
    made.plan = [row for row in made.plan if "f1" not in row]
    with pytest.raises(UserError, match="ask one sweep at a time"):
        question(made, "min hidden where f1 > 0.8")
    assert question(made, "min hidden where f1 > 0.8", sweeps=["s"]).rows
