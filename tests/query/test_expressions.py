"""What conditions mean: whether a better score can only make one false, which numbers they compare
a score with, what they join with AND, what `not` makes of them, and what a goal is as a
condition."""

from __future__ import annotations

import pytest

from sweepd.grid.options import Goal
from sweepd.query.expressions import (
    TRUE,
    Node,
    conjunction,
    conjuncts,
    falls,
    goal_of,
    of_goal,
    thresholds,
)
from sweepd.query.parser import parse
from sweepd.query.sandbox import sandbox

CON = sandbox()
COLUMNS = ["d", "acc", "acc_min", "chain_acc", "loss", "loss_max"]


def condition(predicate: str) -> Node:
    found = parse(f"min d where {predicate}", COLUMNS, {}, CON).where
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "falling"),
    [
        ("acc > 0.9", False), ("acc < 0.9", True), ("0.9 >= acc_min", True), ("loss < 0.1", False),
        ("loss_max >= 0.1", True), ("not acc > 0.9", True), ("not not acc > 0.9", False),
        ("acc < 0.9 and loss > 1 and d = 3", True), ("acc < 0.9 or loss < 1", False),
        ("acc < 0.9 and acc > 0.1", False), ("acc = 0.9", False), ("acc between 0 and 1", False),
        ("d < 3", False), ("acc < chain_acc", False),
    ],
)  # fmt: skip
def test_a_falling_condition_is_one_that_better_scores_can_only_end(
    text: str, falling: bool
) -> None:
    assert falls(condition(text)) is falling


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("acc > 0.9", (0.9,)), ("0.9 < acc and d > 3", (0.9,)), ("acc between .5 and 1", (0.5, 1)),
        ("acc > 0.9 and (loss < 1 and acc <= 0.95)", (0.9, 0.95)), ("loss < 0.1", ()),
        ("acc > 0.9 or d > 3", ()), ("acc > d / 100", ()), ("acc_min > 0.9", ()),
        ("acc = '0.9'", ()), ("not acc <= 0.9", (0.9,)), ("not (d > 3 and acc > 0.9)", ()),
        ("not (d > 3 or acc < 0.9)", (0.9,)),
    ],
)  # fmt: skip
def test_the_thresholds_of_acc(text: str, found: tuple[float, ...]) -> None:
    assert thresholds(condition(text)) == found


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("not acc <= 0.9", "acc > 0.9"), ("not 0.9 >= acc", "0.9 < acc"),
        ("not not acc = 0.9", "acc = 0.9"), ("not acc <> 0.9", "acc = 0.9"),
        ("not d is distinct from 3", "d is not distinct from 3"),
        ("acc not between 0.1 and d", "acc < 0.1 or acc > d"),
        ("not (acc < 0.9 or not (d = 3 or loss >= 1))", "acc >= 0.9 and (d = 3 or loss >= 1)"),
    ],
)  # fmt: skip
def test_a_negated_condition_is_the_one_that_it_means(text: str, meant: str) -> None:
    assert condition(text) == condition(meant)


def test_conditions_come_apart_at_and_and_together_again() -> None:
    whole = condition("acc > 0.9 and (d > 3 and (loss < 1 or d < 9))")
    parts = conjuncts(whole)
    assert [part.sql() for part in parts] == [
        '("acc" > 0.9)', '("d" > 3)', '(("loss" < 1) OR ("d" < 9))'
    ]  # fmt: skip
    assert conjuncts(conjunction(parts)) == parts
    assert conjunction(parts[:1]) is parts[0]
    assert conjunction([]) is TRUE


@pytest.mark.parametrize("text", ["acc > 0.9", "loss <= 1e-05", "loss > -1.5", "chain_acc >= 1.0"])
def test_a_goal_is_the_condition_that_it_spells(text: str) -> None:
    goal = Goal.parse(text)
    assert str(goal) == text
    assert of_goal(goal, {}) == condition(text)
    assert goal_of(condition(text)) == goal
    assert goal_of(condition(f"not not {text}")) == goal
