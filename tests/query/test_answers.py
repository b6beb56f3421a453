"""Answers to questions: what the rows of `min` and `frontier` hold, goals and notes. `frontier` is
held against a comparison of all pairs of cells. A question may be any text at all."""

import json
from math import inf
from typing import Any

import pytest
from fake_store import FakeStore, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import ended, grid, mixed, question, ran, verdicts

from sweepd.errors import UserError
from sweepd.grid.options import OF_ANSWERS, OF_CELLS, RESERVED
from sweepd.intervals import wilson
from sweepd.query.answers import ask
from sweepd.query.readable import rows_for_people
from sweepd.query.verbs import LAW_COLUMNS, PER_HALVING
from sweepd.store.store import Store

GRID = "task: {name: lis, n: [6, 8]}"
COLUMNS = [
    "task", "size", "L", "model", "value", "fail", "pass", "inferred", "passed", "seeds", "acc",
    "acc_low", "acc_high", "acc_seed_min", "acc_seed_max", "chain_acc", "commonest",
    "loss", "loss_seed_min", "loss_seed_max", "close", "at", "edge", "verdict",
    "steps", "fail_steps", "effort", "gain", "missing", "rates", "holds_to", "why", "least_any",
    "least_any_verdict", "least_median", "least_median_verdict", "least_all", "least_all_verdict",
]  # fmt: skip


def with_fields(*names: str) -> FakeStore:
    """A store in which d and fields of these names vary. Everything passes."""
    axes: list[dict[str, Any]] = [
        {"d": d, **dict.fromkeys(names, value)} for d in (8, 16) for value in (1, 3)
    ]
    return ran([planned(**one) for one in axes], lambda _: 0.95)


@pytest.mark.parametrize("text", ["best edge by d", "max at by d", "frontier at, acc"])
def test_an_answer_about_a_field_named_like_a_column_of_every_row_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"has a column `(edge|at)` of its own"):
        question(with_fields("edge", "at"), text)


def test_the_columns_of_answers_are_known() -> None:
    of_cells = {*RESERVED, *OF_CELLS, "steps", "n", "d", "lr", "heads", "values"}
    for text in ("min d by n", "frontier flops, acc", "best d", "max acc"):
        own = OF_ANSWERS[text.partition(" ")[0]]
        assert set(question(mixed(), text).columns) <= of_cells | set(own), text
    assert set(OF_ANSWERS["min"]) <= {*COLUMNS, *PER_HALVING}
    assert {*OF_ANSWERS["fit"], "seeds"} == {*LAW_COLUMNS}


@pytest.mark.parametrize("name", ["exponent", "value", "verdict", "passed", "close"])
def test_people_see_answers_about_fields_named_like_columns_of_other_verbs(name: str) -> None:
    store = with_fields(name)
    for text in (f"best d by {name}", f"max acc by {name}", f"frontier flops, acc by {name}"):
        columns, rows = rows_for_people(question(store, text))
        assert [row[name] for row in rows] == [1, 3] and set(columns) <= set(rows[0])
    verb = "fit d ~ n" if name == "exponent" else "min d"
    with pytest.raises(UserError, match=f"has a column `{name}` of its own"):
        question(store, f"{verb} by {name} where acc > 0.9")
    columns, rows = rows_for_people(question(store, "min d by n where acc > 0.9"))
    assert [row["value"] for row in rows] == ["≤ 8"] and set(columns) <= set(rows[0])


@pytest.mark.parametrize(
    ("rule", "pooled", "verdict"),
    [
        ("median", 0.2, "at most"), ("mean", None, "above"),
        ("all", None, "above"), ("any", 0.1, "at most"),
    ],
)  # fmt: skip
def test_a_row_about_loss(rule: str, pooled: float | None, verdict: str) -> None:
    trials = [planned(seed=k) for k in range(3)]
    store = ended(trials, {"loss": 0.2}, {"loss": 0.1}, "diverged", **{"pass": rule})
    [row] = question(store, "min d where loss < 0.3").rows
    assert (row["verdict"], row["loss"]) == (verdict, pooled)
    assert (row["loss_seed_min"], row["loss_seed_max"]) == (0.1, None), "infinite where it diverged"
    store.end(trials[2], "completed", loss=0.6, attempt=2000)
    [row] = question(store, "min d where loss < 0.3").rows
    assert (row["loss_seed_min"], row["loss_seed_max"]) == (0.1, 0.6)
    assert verdicts(store, "min d where loss_max < 0.6") == [("above", None, 16, 0)]
    assert verdicts(store, "min d where loss_max <= 0.6 and loss_min = 0.1") == [
        ("at most", 16, None, 0)
    ]


def test_the_best_of_several_cells_is_so_by_what_is_asked() -> None:
    trials = [planned(warmup=warmup) for warmup in (1, 2)]
    store = ended(trials, {"acc": 0.99, "loss": 0.3}, {"acc": 0.95, "loss": 0.1})
    for text, warmup in {"acc > 0.9": 1, "loss < 0.5": 2, "acc > 0.9 and loss < 0.5": 1}.items():
        [row] = question(store, f"min d by size where {text}").rows
        assert json.loads(row["at"]) == {"warmup": warmup}


def test_a_score_that_nothing_measures_is_pointed_out() -> None:
    answer = question(grid({(8, 16): ("completed", None)}), "min d where acc > 0.9")
    assert answer.rows[0]["verdict"] == "open"
    assert "not measured: 1 cells have completed trials without acc" in answer.notes


@pytest.mark.parametrize(
    ("where", "note"),
    [
        (
            "model = 'standart'",
            "no cell has model = 'standart' (did you mean standard?); model is one of: standard",
        ),
        ("d = 8 and layers = 2", "no cell has d = 8; d is one of: 16, 32"),
        ("(8 = d or d = 9)", None),
    ],
)
def test_a_condition_that_no_cell_meets_names_what_there_is(where: str, note: str | None) -> None:
    store = ended([planned(d=d, layers=2) for d in (16, 32)], None, None)
    answer = question(store, f"min d where acc > 0.9 and {where}")
    assert answer.rows == [] and answer.notes == [note] * (note is not None)


def test_a_row_of_min() -> None:
    accs = {16: (0.1, 0.2, 0.95), 32: (0.92, 0.89, 0.99)}
    trials = [planned(d=d, seed=k) for d in accs for k in range(3)]
    store = ran(trials, lambda trial: accs[trial["d"]][trial["seed"]])
    answer = question(store, "min d where acc > 0.9")
    assert answer.columns == COLUMNS
    low, high = wilson(0.92, 100)
    assert answer.rows == [
        {
            "task": "lis", "size": 8, "L": 19, "model": "standard",
            "value": 32, "fail": 16, "pass": 32, "inferred": 0, "passed": 2, "seeds": 3,
            "acc": 0.92, "acc_low": low, "acc_high": high,
            "acc_seed_min": 0.89, "acc_seed_max": 0.99, "chain_acc": None, "commonest": None,
            "loss": None, "loss_seed_min": None, "loss_seed_max": None,
            "close": True, "at": "{}", "edge": "", "verdict": "exact",
            "steps": None, "fail_steps": None, "effort": 0.25, "gain": None, "missing": None,
            "rates": 1, "holds_to": None, "why": "close: some of its seeds pass",
            "least_any": 16, "least_any_verdict": "at most",
            "least_median": 32, "least_median_verdict": "exact",
            "least_all": None, "least_all_verdict": "above",
        }
    ]  # fmt: skip
    assert answer.notes == []
    [row] = question(store, "min d where acc > 0.99").rows
    assert (row["value"], row["fail"], row["at"], row["verdict"]) == (None, 32, "{}", "above")
    assert (row["passed"], row["seeds"], row["acc"], row["close"]) == (0, 3, 0.92, False)


def test_passing_cells_are_told_apart_by_where_they_stand() -> None:
    accs = {("0.01", 1): 0.93, ("0.1", 1): 0.97, ("0.01", 2): 0.95, ("0.1", 2): 0.2}
    trials = [planned(lr=lr, warmup=warmup) for lr, warmup in accs]
    store = ran(trials, lambda t: accs[t["lr"], t["warmup"]], tune=["train.lr"])
    found = question(store, "min d where acc > 0.9").rows
    assert [(row["warmup"], row["acc"], json.loads(row["at"])) for row in found] == [
        (1, 0.97, {"lr": "0.1"}),
        (2, 0.95, {"lr": "0.01"}),
    ]
    [row] = question(store, "min d by size where acc > 0.9").rows
    assert json.loads(row["at"]) == {"lr": "0.1", "warmup": 1}


def test_a_question_without_a_score_is_about_the_goal() -> None:
    store = grid({(8, 16): 0.5, (8, 32): 0.7}, goal="acc > 0.6")
    answer = question(store, "min d where model = 'standard'")
    assert [(row["value"], row["verdict"]) for row in answer.rows] == [(32, "exact")]
    assert any("the goal decides: acc > 0.6" in note for note in answer.notes)
    assert question(store, "min d where model = 'sparse'").rows == []
    store.add_sweep("other", [planned(12)], goal="acc > 0.7")
    with pytest.raises(UserError, match="goals differ"):
        question(store, "min d")
    assert len(question(store, "min d", sweeps=["s"]).rows) == 1


def test_codes_side_by_side() -> None:
    store = grid({(8, 16): 0.5, (8, 32): 0.95})
    store.end(planned(d=16, code="old"), "completed", 0.97)
    rows = ask(store, "min d where acc > 0.9", code="all").rows
    assert [(row["code"], row["value"]) for row in rows] == [("now", 32), ("old", 16)]
    answer = question(store, "min d where acc > 0.9")
    assert [row["value"] for row in answer.rows] == [32]
    assert any("another code" in note for note in answer.notes)
    each_once = grid({(8, 16): 0.5, (8, 32): 0.95})
    answer = ask(each_once, "min d where acc > 0.9", code="all")
    assert "code" not in answer.group and {row["code"] for row in answer.rows} == {"now"}


def test_unfinished_cells_and_cells_without_a_finite_value_are_counted() -> None:
    store = grid({(8, 8): None, (8, 16): ("stopped", 0.2), (8, 32): 0.95})
    notes = question(store, "min d where acc > 0.9").notes
    early = "unfinished: 1 of 3 cells, 1 of them with seeds that stopped early"
    assert notes == [early, "untried: 1 of 3 cells"]
    notes = question(store, "fit d ~ n where acc > 0.9").notes
    assert notes[:2] == [early, "untried: 1 of 3 cells"]
    answer = question(grid({(8, 16): 0.95}), "min sqrt(-d) where acc > 0.9")
    assert answer.rows == []
    assert answer.notes == ["left out: 1 cells for which an expression has no value yet"]


def test_what_is_no_number_and_what_is_no_condition() -> None:
    for text, message in {
        "min model": "`model` is of type VARCHAR, not a number",
        "min d = 3": "not a number",
        "min d where d": "not a condition",
        "min d where acc": "not a condition",
        "min d where acc > 0.9 and model + 1 > 2": "No function matches",
        "min cast(model as integer) where acc > 0.9": "Could not convert",
    }.items():
        with pytest.raises(UserError, match=message):
            question(mixed(), text)


SIZES = range(4, 18, 2)
"""Each has a frontier of its own. A question takes as long for one as for all."""
PLACES = st.tuples(st.sampled_from(SIZES), st.sampled_from([8, 16, 32]), st.sampled_from([1, 2]))
SCORES = st.sampled_from([0.0, 0.5, 0.9, 1.0, None])


@settings(max_examples=10)
@given(
    st.dictionaries(PLACES, SCORES, min_size=20) | st.dictionaries(PLACES, SCORES, max_size=4),
    st.sampled_from(["acc", "loss", "loss_max"]),
)
def test_the_frontier_is_what_no_cell_beats(cells: Any, score: str) -> None:
    trials = [planned(n, d, layers=layers) for n, d, layers in cells]
    scores = [acc if acc is None else {"acc": acc, "loss": 1 - acc} for acc in cells.values()]
    answer = question(ended(trials, *scores), f"frontier d * layers, {score}")
    found = {(row["size"], row["d * layers"], row[score]) for row in answer.rows}
    assert len(found) == len(answer.rows)

    def points(size: int) -> list[tuple[int, float]]:
        own = {(d * layers, acc) for (n, d, layers), acc in cells.items() if n == size}
        return [(cost, acc) for cost, acc in own if acc is not None]

    expected = {
        (size, cost, acc if score == "acc" else 1 - acc)
        for size in SIZES
        for cost, acc in points(size)
        if not any(c <= cost and a >= acc and (c, a) != (cost, acc) for c, a in points(size))
    }
    assert found == expected
    measured = {key: acc for key, acc in cells.items() if acc is not None}
    of_score = {key: acc if score == "acc" else 1 - acc for key, acc in measured.items()}
    shown = [(n, d * layers, value) in expected for (n, d, layers), value in of_score.items()]
    tied = [int(note.split()[1]) for note in answer.notes if note.startswith("tied:")]
    assert sum(tied) == sum(shown) - len(expected)
    assert answer.rows == sorted(answer.rows, key=lambda row: (row["size"], row["d * layers"]))


def test_a_row_of_the_frontier() -> None:
    store = mixed()
    answer = question(store, "frontier flops, acc where acc > 0.6 and size = 6")
    assert answer.columns == [
        "task", "size", "L", "model", "flops", "acc", "d", "seeds", "acc_low", "acc_high",
        "acc_seed_min", "acc_seed_max", "chain_acc", "commonest",
        "loss", "loss_seed_min", "loss_seed_max", "solved", "at", "edge",
    ]  # fmt: skip
    found = [(row["model"], row["d"], row["acc"], row["at"]) for row in answer.rows]
    assert found == [("linear", 32, 0.95, '{"heads": 4}'), ("standard", 16, 0.95, '{"heads": 4}')]
    columns = question(store, "frontier d, acc by d").columns
    assert columns[:5] == ["task", "d", "model", "acc", "seeds"]


def test_the_frontier_is_by_the_seeds_that_ended_unless_one_was_stopped() -> None:
    trials = [planned(d=d, seed=k) for d in (8, 16, 32, 64) for k in range(2)]
    of_32, of_64 = (0.7, ("solved", 0.9)), ("failed", None)
    store = ended(trials, 0.5, None, 0.6, ("stopped", 0.6), *of_32, *of_64)
    answer = question(store, "frontier flops, acc")
    found = [(row["d"], row["acc"], row["seeds"]) for row in answer.rows]
    assert found == [(8, 0.5, 1), (32, 0.8, 2)]
    assert "left out: 2 cells for which an expression has no value yet" in answer.notes
    assert answer.notes[-1].startswith("partial: 1 of 2 cells shown are judged by fewer seeds")


def test_a_diverged_cell_has_no_loss_to_show() -> None:
    store = grid({(8, 16): ("diverged", None)})
    assert question(store, "frontier flops, loss").rows == []
    assert question(store, "frontier flops, acc").rows[0]["acc"] == 0.0
    assert inf not in question(store, "min d where acc > 0.9").rows[0].values()


def test_a_real_store_and_an_empty_one(tmp_path: Any) -> None:
    store = Store.create(str(tmp_path))
    assert question(store, "min d where acc > 0.9").rows == []
    fake = mixed()
    store.save_sweep("s", GRID, fake.load_sweep("s"), fake.plan)
    store.write_trials(fake.endings)
    for text in ("min d where acc > 0.9", "min flops by L", "frontier flops, acc"):
        real, in_memory = question(store, text), question(fake, text)
        assert real == in_memory and real.cells == in_memory.cells


def test_the_least_compute_may_be_spent_on_width_or_on_steps() -> None:
    trials = [
        planned(8, d, steps=steps) | {"train_flops": 1.0 * d * steps}
        for d in (8, 16)
        for steps in (10, 30, 100)
    ]
    enough = {8: 100, 16: 30}
    store = ran(trials, lambda t: 0.95 if t["steps"] >= enough[t["d"]] else 0.5)
    [row] = question(store, "min train_flops where acc > 0.9").rows
    assert (row["value"], row["at"]) == (480, '{"d": 16, "steps": 30}')
    assert (row["fail"], row["verdict"]) == (240, "exact")


def test_a_solved_trial_is_a_bound_in_a_frontier() -> None:
    store = grid({(8, 8): ("solved", 0.96), (8, 16): 0.97})
    answer = question(store, "frontier d, acc")
    assert [row["solved"] for row in answer.rows] == [1, 0]
    assert any(note.startswith("censored: 1 of 2 cells") for note in answer.notes)


def test_the_interval_is_as_wide_as_the_sample_is_worth() -> None:
    chained = {"acc": 0.95, "commonest": 0.3, "chain_acc": 0.9}
    store = grid({(8, 8): chained, (8, 16): {"acc": 0.95, "independent": 25}})
    whole, part = question(store, "min d by d where acc > 0.9").rows
    assert (whole["acc_low"], whole["acc_high"]) == wilson(0.95, 100)
    assert (part["acc_low"], part["acc_high"]) == wilson(0.95, 25)
    assert (whole["commonest"], whole["chain_acc"], part["commonest"]) == (0.3, 0.9, None)
