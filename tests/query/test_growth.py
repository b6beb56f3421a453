"""The rows of `fit`: which trials a law is fitted to, its columns, what is settled and what is only
a bound, and the questions that no fit answers."""

from __future__ import annotations

from typing import Any

import pytest
from fake_store import FakeStore, now, planned

from sweepd.errors import UserError
from sweepd.query.answers import ask
from sweepd.query.database import Answer
from sweepd.query.laws import LAW_NAMES

WIDTHS = (8, 16, 32, 64, 128, 256)
COLUMNS = [
    "task", "model", "exponent", "low", "high", "growth", "factor",
    "weight_constant", "weight_power", "weight_sqrt", "weight_plateau",
    "points", "censored", "seeds", "over_standard", "over_standard_low", "over_standard_high",
    "predicted", "at_hand", "agrees", "reason",
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
    for row, exponent, growth in ((linear, 1, "grows"), (standard, 0, "not told")):
        assert row["exponent"] == pytest.approx(exponent, abs=0.25)
        assert row["low"] < exponent < row["high"]
        assert row["growth"] == growth
        assert (row["points"], row["censored"], row["seeds"], row["reason"]) == (4, 0, 3, None)
        assert sum(row[f"weight_{law}"] for law in LAW_NAMES) == pytest.approx(1)
    assert (linear["predicted"], standard["predicted"]) == ("1/2", "0")
    assert (linear["agrees"], standard["agrees"]) == (None if linear["low"] > 0.5 else True, True)
    assert (round(linear["at_hand"], 2), standard["at_hand"]) == (0.37, 0)
    assert linear["over_standard_low"] < 1 < linear["over_standard_high"]
    assert standard["over_standard"] is None
    assert answer.notes == []
    assert question(grown(), "fit d ~ L by model where acc > 0.9").rows == answer.rows
    law = question(grown(), "fit d ~ n where acc > 0.9 and model = 'linear'").rows[0]
    assert law["factor"] * 20 ** law["exponent"] == pytest.approx(2 * 20 / 2**0.5, rel=0.5)
    assert (law["predicted"], law["agrees"]) == (None, None)


def test_what_a_smaller_size_failed_with_counts_there_alone() -> None:
    store = FakeStore()
    trials = [planned(n, d) for n in (8, 16, 32) for d in WIDTHS]
    store.add_sweep("s", trials)
    for n, d in ((8, 8), (8, 16), (16, 16), (32, 16)):
        store.end(planned(n, d), "completed", 0.95 if d == 16 else 0.5)
    [row] = question(store, "fit d ~ L where acc > 0.9").rows
    assert (row["points"], row["censored"]) == (3, 2)
    assert row["reason"].startswith("all points but 1 are censored")


@pytest.mark.parametrize(("settled", "censored"), [(True, 0), (False, 4)])
def test_where_a_sweep_settles_an_unsettled_size_is_a_bound_from_above(
    settled: bool, censored: int
) -> None:
    store = FakeStore()
    budgets = (1000, 2000, 4000)
    trials = [
        planned(n, d, seed, steps=steps)
        for n in (8, 16, 32, 64)
        for d in WIDTHS[:4]
        for seed in range(3)
        for steps in (budgets if settled else budgets[:1])
    ]
    trials += [planned(n, 32, seed, steps=1000) for n in (8, 16, 32, 64) for seed in (7, 8)]
    store.add_sweep(
        "s",
        trials,
        settle={"factor": 4, "least": 2000, "most": 4000, "share": None},
        fresh_seeds=[7, 8],
    )
    for trial in trials:
        store.end(trial, "completed", 0.95 if trial["d"] >= 32 else 0.5)
    answer = question(store, "fit d ~ L where acc > 0.9")
    assert [row["censored"] for row in answer.rows] == [censored]
    assert any(note.startswith("not settled: in 4 of 4") for note in answer.notes) != settled


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
    assert row["exponent"] == pytest.approx(-1, abs=0.1)
    assert row["growth"] == "falls"
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
