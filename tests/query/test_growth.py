"""The rows of `fit`: which trials a law is fitted to, its columns, what is settled and what is only
known from above, and the questions that no fit answers. Also tested is what a smaller d costs in
steps, and when a measured exponent contradicts theory."""

from typing import Any

import pytest
from fake_store import FakeStore, Row, planned
from questions import grid, question, ran

from sweepd.errors import UserError
from sweepd.query.claim_files import predictions
from sweepd.query.laws import LAW_NAMES
from sweepd.query.verbs import slopes

WIDTHS = (8, 16, 32, 64, 128, 256)
COLUMNS = [
    "task", "model", "exponent", "low", "high", "growth", "factor",
    "weight_constant", "weight_log", "weight_power", "weight_sqrt", "weight_plateau",
    "points", "censored", "seeds", "least_steps", "most_steps",
    "first_exponent", "first_low", "first_high",
    "over_standard", "over_standard_low", "over_standard_high", "slope_log", "slope_sqrt",
    "predicted", "reason",
]  # fmt: skip


def grown(seeds: int = 3, **axes: Any) -> FakeStore:
    """Linear needs d = 2n, standard d = 32; the middle one of three seeds is on the mark."""
    trials = [
        planned(n, d, seed, model=model, **axes)
        for n in (8, 16, 32, 64)
        for d in WIDTHS
        for seed in range(seeds)
        for model in ("linear", "standard")
    ]

    def acc(trial: Row) -> float:
        need = 2 * trial["n"] if trial["model"] == "linear" else 32
        return 0.95 if trial["d"] >= need * 2 ** (trial["seed"] - 1) else 0.5

    return ran(trials, acc)


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
    assert {(row["slope_log"], row["slope_sqrt"]) for row in (linear, standard)} == {
        slopes([19, 131])
    }
    assert linear["over_standard_low"] < 1 < linear["over_standard_high"]
    assert standard["over_standard"] is None
    assert answer.notes == []
    assert question(grown(), "fit d ~ L by model where acc > 0.9").rows == answer.rows
    of_goal = question(grown(), "fit d ~ L")
    assert of_goal.rows == answer.rows and "the goal decides: acc > 0.9" in of_goal.notes[0]
    law = question(grown(), "fit d ~ n where acc > 0.9 and model = 'linear'").rows[0]
    assert law["factor"] * 20 ** law["exponent"] == pytest.approx(2 * 20 / 2**0.5, rel=0.5)
    assert law["predicted"] is None


def test_what_a_smaller_size_failed_with_counts_there_alone() -> None:
    tried = {(8, 8): 0.5, (8, 16): 0.95, (16, 16): 0.95, (32, 16): 0.95}
    store = grid({(n, d): tried.get((n, d)) for n in (8, 16, 32) for d in WIDTHS})
    [row] = question(store, "fit d ~ L where acc > 0.9").rows
    assert (row["points"], row["censored"]) == (3, 2)
    assert row["low"] < 0 < row["high"]


def test_a_law_is_about_the_budgets_that_were_tried() -> None:
    """With 1000 steps d = 2n is needed, with more n. That of the least budget stands beside it."""
    trials = [
        planned(n, d, seed, steps=steps)
        for n in (8, 16, 32, 64)
        for d in WIDTHS
        for seed in range(3)
        for steps in (1000, 4000)
    ]
    settle = {"factor": 4, "least": 2000, "most": 4000, "share": None}

    def acc(trial: Row) -> float:
        need = 2 * trial["n"] if trial["steps"] == 1000 else 16
        return 0.95 if trial["d"] >= need else 0.5

    store = ran(trials, acc, settle=settle)
    [row] = question(store, "fit d ~ n where acc > 0.9").rows
    assert (row["least_steps"], row["most_steps"], row["censored"]) == (1000, 4000, 0)
    assert row["exponent"] == pytest.approx(0, abs=0.1)
    assert row["first_exponent"] == pytest.approx(1, abs=0.1)
    assert row["first_low"] < 1 < row["first_high"]
    [at_first] = question(store, "fit d ~ n where acc > 0.9 and steps = 1000").rows
    assert at_first["exponent"] == row["first_exponent"] and at_first["first_exponent"] is None


def test_costs_and_expressions_along_the_size() -> None:
    [row] = question(grown(), "fit flops_weights ~ L where acc > 0.9 and model = 'linear'").rows
    assert row["exponent"] == pytest.approx(3, abs=0.5)  # d² · L
    assert row["predicted"] is None
    [row] = question(grown(), "fit d * d ~ size where acc > 0.9 and model = 'linear'").rows
    assert row["exponent"] == pytest.approx(2, abs=0.4)


def test_a_fit_along_an_axis_is_made_at_each_size() -> None:
    trials = [planned(8, d, layers=layers) for d in WIDTHS for layers in (1, 2, 4)]
    store = ran(trials, lambda trial: 0.95 if trial["d"] * trial["layers"] >= 64 else 0.5)
    answer = question(store, "fit d ~ layers where acc > 0.9")
    [row] = answer.rows
    assert (row["size"], row["L"], row["seeds"]) == (8, 19, 1)
    assert row["exponent"] == pytest.approx(-1, abs=0.1)
    assert row["growth"] == "falls"
    assert any(note.startswith("one seed") for note in answer.notes)


def test_only_what_differs_at_one_size_is_a_group() -> None:
    trials = [
        planned(n, d, heads=heads, value_range=2 * n)
        for n in (8, 16, 32)
        for d in WIDTHS
        for heads in (2, 4)
    ]
    store = ran(trials, lambda trial: 0.95 if trial["d"] >= 4 * trial["n"] else 0.5)
    answer = question(store, "fit d ~ L where acc > 0.9")
    assert answer.columns[:3] == ["task", "model", "heads"]
    assert [row["heads"] for row in answer.rows] == [2, 4]
    pooled = question(store, "fit d ~ L by model where acc > 0.9")
    assert [row["points"] for row in pooled.rows] == [3]


def test_what_cannot_be_fitted_says_why() -> None:
    answer = question(grown(), "fit d ~ L where acc > 0.9 and n < 20 and model = 'linear'")
    assert answer.rows[0]["reason"] == "2 of 2 points say anything: a fit needs 3"
    assert {answer.rows[0][name] for name in ("exponent", "low", "high", "factor")} == {None}
    assert answer.rows[0]["predicted"] == "1/2"
    [row] = question(grown(), "fit d ~ L where acc > 0.9 and d = 32 and model = 'linear'").rows
    assert (row["points"], row["censored"]) == (4, 4)
    assert row["reason"] == "all points are censored: widen the range of what is minimised"
    assert question(grown(), "fit d ~ L where acc > 0.9 and n > 100").rows == []
    untried = grid({(n, d): None for n in (8, 16, 32) for d in WIDTHS})
    [row] = question(untried, "fit d ~ L").rows
    assert (row["points"], row["seeds"]) == (0, 0)
    assert row["reason"] == "0 of 3 points say anything: a fit needs 3"


def test_no_prediction_without_chains_of_thought() -> None:
    for cot, predicted in ((True, "1/2"), (False, None)):
        store = grown(seeds=1, cot=cot)
        row = question(store, "fit d ~ L where acc > 0.9 and model = 'linear'").rows[0]
        assert row["predicted"] == predicted


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


# What a smaller d costs in steps

BUDGETS = (1000, 2000, 4000, 8000, 16000)
SETTLE = {"factor": 4, "least": 2000, "most": 16000, "share": None}


def halving(times: float, **info: object) -> FakeStore:
    """d = 64 needs 1000 steps or a little less, and each halving `times` as many."""
    trials = [
        planned(8, d, seed, steps=steps)
        for d in (4, 8, 16, 32, 64)
        for steps in BUDGETS
        for seed in range(3)
    ]
    halvings = {64: 0, 32: 1, 16: 2, 8: 3, 4: 4}
    return ran(
        trials, lambda t: 0.95 if t["steps"] >= 900 * times ** halvings[t["d"]] else 0.5, **info
    )


@pytest.mark.parametrize("times", [2, 4])
def test_each_halving_costs_so_many_times_the_steps(times: int) -> None:
    answer = question(halving(times, settle=SETTLE), "min d by n, steps where acc > 0.9")
    assert {row["steps"] for row in answer.rows} == set(BUDGETS)
    [(rate, low, high)] = {
        (row["per_halving"], row["per_halving_low"], row["per_halving_high"]) for row in answer.rows
    }
    assert rate == pytest.approx(times, rel=0.35)
    assert 1 < low < times < high


def test_too_few_widths_and_a_sweep_that_does_not_settle_have_no_rate() -> None:
    text = "min d by n, steps where acc > 0.9"
    rows = question(halving(2, settle=SETTLE), f"{text} and d >= 32").rows
    assert [row["per_halving"] for row in rows] == [None] * 5
    assert "per_halving" not in question(halving(2), text).columns


def test_cells_of_a_loop_without_steps_say_nothing() -> None:
    store = halving(2, settle=SETTLE)
    trials = [planned(8, d, seed, model="mine.py:Run") for d in (4, 8) for seed in range(3)]
    store.add_sweep("own", trials)
    for trial in trials:
        store.end(trial, "completed", 0.95)
    rows = question(store, "min d by model, steps where acc > 0.9").rows
    assert {row["per_halving"] is None for row in rows if row["model"] == "mine.py:Run"} == {True}
    assert {row["per_halving"] is None for row in rows if row["model"] == "standard"} == {False}


# What theory predicts


def test_slopes_are_those_of_laws_with_logarithms() -> None:
    of_log, of_sqrt = slopes([11, 15, 23])
    assert of_sqrt == pytest.approx(0.316, abs=0.005)
    assert of_log == pytest.approx(1 - 2 * 0.316, abs=0.01)
    assert slopes([1e30, 1e60])[1] == pytest.approx(0.495, abs=0.001)
    assert slopes([2, 4])[0] == pytest.approx(1)
    assert slopes([2, 4])[1] is None  # where √(x / ln x) falls
    assert slopes([1, 4]) == slopes([5]) == slopes([]) == (None, None)


def test_predictions_are_those_of_the_shipped_claims() -> None:
    tasks = {"lis", "edit_distance", "ed_local", "arithmetic"}
    assert predictions().keys() == {(t, m) for t in tasks for m in ("standard", "sparse", "linear")}
