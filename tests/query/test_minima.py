"""Rows of `min`, and the cells behind them. Every verdict is compared with a slow twin, which is
written from the definitions. Also tested is which values count as smaller. Of a minimised score
nothing is known from below."""

import itertools
import json
from typing import Any

import pytest
from fake_store import FakeStore, Row, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import ended, grid, mixed, question, ran, verdicts
from twins import POOL, SEEDS, Point, min_verdicts, outcome


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({(8, 8): 0.5, (8, 16): 0.8, (8, 32): 0.95}, ("exact", 32, 16, 0)),
        ({(8, 8): 0.95, (8, 16): None}, ("at most", 8, None, 0)),
        ({(8, 8): None, (8, 16): 0.8, (8, 32): 0.95}, ("bracketed", 32, 16, 1)),
        ({(8, 8): 0.2, (8, 16): None, (8, 32): 0.95}, ("at most", 32, 8, 0)),
        ({(8, 16): None, (8, 32): 0.95}, ("at most", 32, None, 0)),
        ({(8, 16): ("stopped", 0.3), (8, 32): 0.95}, ("at most", 32, None, 0)),
        ({(8, 16): ("failed", None), (8, 32): 0.95}, ("at most", 32, None, 0)),
        ({(8, 16): ("interrupted", None), (8, 32): 0.95}, ("at most", 32, None, 0)),
        ({(8, 16): ("solved", 0.85), (8, 32): 0.95}, ("at most", 32, None, 0)),
        ({(8, 16): ("diverged", None), (8, 32): ("solved", 0.95)}, ("exact", 32, 16, 0)),
        ({(8, 16): 0.5, (8, 32): 0.95, (8, 64): 0.6}, ("not monotone", 32, 16, 0)),
        ({(8, 16): 0.5, (8, 32): 0.9}, ("above", None, 32, 0)),
        ({(8, 16): None, (8, 32): 0.9}, ("above", None, 32, 1)),
        ({(8, 16): 0.5, (8, 32): None}, ("open", None, 16, 0)),
        ({(8, 16): 0.5, (8, 32): ("stopped", 0.1)}, ("open", None, 16, 0)),
        # beside smaller and larger sizes
        ({(6, 16): 0.5, (8, 16): None, (6, 32): 0.95, (8, 32): 0.95}, ("bracketed", 32, 16, 1)),
        ({(6, 16): 0.5, (8, 16): None, (6, 32): 0.5, (8, 32): 0.95}, ("not monotone", 32, 16, 1)),
        ({(6, 16): 0.5, (8, 16): None}, ("above", None, 16, 1)),
        ({(6, 16): 0.95, (8, 16): None}, ("open", None, None, 0)),
        ({(8, 16): None, (8, 32): 0.95, (12, 16): 0.5}, ("at most", 32, None, 0)),
    ],
)
def test_verdicts_of_one_size(cells: Any, expected: Any) -> None:
    rows = question(grid(cells), "min d where acc > 0.9").rows
    [row] = [row for row in rows if row["size"] == 8]
    assert (row["verdict"], row["value"], row["fail"], row["inferred"]) == expected


def test_a_group_without_size_infers_nothing_from_smaller_sizes() -> None:
    store = grid({(6, 16): 0.5, (8, 16): None, (6, 32): 0.95, (8, 32): 0.95})
    [row] = question(store, "min d by heads where acc > 0.9").rows
    assert (row["heads"], row["value"], row["verdict"]) == (2, 32, "at most")
    assert json.loads(row["at"]) == {"size": 6}
    by_n = question(store, "min d by n where acc > 0.9").rows
    assert [(row["n"], row["verdict"]) for row in by_n] == [(6, "exact"), (8, "bracketed")]


WIDTHS, SIZES = (8, 16, 32, 64), (6, 8, 12)


@settings(max_examples=40)
@given(st.data(), st.sampled_from(list(POOL)), st.integers(1, 3))
def test_verdicts_are_those_of_the_slow_twin(data: st.DataObject, rule: str, count: int) -> None:
    pairs = st.sets(st.sampled_from(list(itertools.product(SIZES, WIDTHS))))
    lrs = data.draw(st.sampled_from([("0.01",), ("0.01", "0.1")]))
    points: list[Point] = [(n, d, lr) for n, d in sorted(data.draw(pairs)) for lr in lrs]
    every = [planned(n, d, k, lr=lr) for n, d, lr in points for k in range(count)]
    seeds = [data.draw(st.lists(SEEDS, min_size=count, max_size=count)) for _ in points]
    cells = {
        point: outcome(of_point, rule, lambda acc: acc > 0.9)
        for point, of_point in zip(points, seeds, strict=True)
    }
    store = ended(every, *itertools.chain(*seeds), tune=["train.lr"], **{"pass": rule})
    answer = question(store, "min d where acc > 0.9")
    found = {
        row["size"]: tuple(row[name] for name in ("verdict", "value", "fail", "inferred"))
        for row in answer.rows
    }
    assert found == min_verdicts(cells)
    for row in answer.rows:
        assert row["pass"] == row["value"]
        assert 0 <= row["passed"] <= row["seeds"] <= count
        if row["value"] is not None:
            assert cells[row["size"], row["value"], json.loads(row["at"]).get("lr", lrs[0])]


def test_least_values_with_nothing_tried_below_are_counted() -> None:
    store = grid({(6, 8): 0.95, (8, 8): 0.95, (12, 8): 0.5, (12, 16): 0.95, (16, 8): 0.5})
    answer = question(store, "min d where acc > 0.9")
    assert [row["verdict"] for row in answer.rows] == ["at most", "at most", "exact", "above"]
    assert answer.notes == ["smallest: in 2 of 4 rows no value below was tried"]
    assert question(store, "min d where acc > 0.9 and size >= 12").notes == []


def test_expressions_rank_cells_by_their_value() -> None:
    [row] = question(mixed(), "min d * heads by size where acc > 0.9 and size = 6").rows[1:]
    assert (row["value"], row["fail"], row["verdict"]) == (64, 32, "exact")
    answer = question(mixed(), "min params by L where acc > 0.9 and model = 'linear'")
    assert [(row["value"], row["fail"], row["verdict"]) for row in answer.rows] == [
        (12 * 32 * 32, 12 * 16 * 16, "exact")
    ] * 2
    assert json.loads(answer.rows[0]["at"]) == {"d": 32, "heads": 4}
    assert "d" not in question(mixed(), "min flops where acc > 0.9").columns
    memory = question(mixed(), "min state_bytes where acc > 0.9 and size = 8 and heads = 4").rows
    assert [(row["model"], row["value"]) for row in memory] == [
        ("linear", 8 * 32 * 19),
        ("standard", 8 * 16 * 19),
    ]
    rows = question(mixed(), "frontier train_bytes, acc where acc > 0.6 and size = 8").rows
    assert [row["train_bytes"] for row in rows] == [192 * 32 * 32, 192 * 16 * 16]
    [row] = question(mixed(), "min d / 3 by task where acc > 0.9 and model = 'linear'").rows
    assert row["value"] == pytest.approx(32 / 3)


def test_costs_that_depend_on_size_still_find_the_cell_of_the_smaller_size() -> None:
    store = grid({(6, 16): 0.5, (8, 16): None, (6, 32): 0.95, (8, 32): 0.95})
    rows = question(store, "min flops where acc > 0.9").rows
    assert [(row["verdict"], row["inferred"]) for row in rows] == [("exact", 0), ("bracketed", 1)]


IMPOSSIBLE = ("acc > 1", "loss < 0", "acc > 0.9 and d < 0 or acc > 1")


def test_a_condition_that_nothing_can_meet_fails_nowhere_before_training() -> None:
    def told(cells: dict[tuple[int, int], Any]) -> list[list[tuple[Any, ...]]]:
        store = grid(cells)
        return [verdicts(store, f"min d where {condition}") for condition in IMPOSSIBLE]

    assert told({(8, 16): None, (8, 32): None}) == 3 * [[("open", None, None, 0)]]
    for unfinished in (None, ("failed", None), ("interrupted", None), ("stopped", 0.5)):
        assert told({(8, 16): 0.5, (8, 32): unfinished}) == 3 * [[("open", None, 16, 0)]]
        for rows in told({(6, 16): unfinished, (8, 16): unfinished}):
            assert {kind for kind, *_ in rows} == {"open"}
    assert told({(8, 16): 0.5, (8, 32): 0.6}) == 3 * [[("above", None, 32, 0)]]
    everything = verdicts(grid({(8, 16): None, (8, 32): 0.5}), "min d where acc >= 0")
    assert everything == [("at most", 16, None, 0)]


def test_a_minimised_score_is_no_setting_of_which_a_larger_one_must_pass() -> None:
    """The answer is the least loss among the cells that pass. A cell without a loss yet may have a
    lower one."""
    trials = [planned(d=d) for d in (8, 16, 32, 64)]
    scores = [{"acc": a, "loss": x} for a, x in ((0.5, 0.6), (0.95, 0.3), (0.97, 0.2))]
    store = ended(trials, *scores, None)
    assert verdicts(store, "min loss by size where acc > 0.9") == [("at most", 0.2, None, 0)]
    assert verdicts(store, "min loss by size where acc < 0.6") == [("at most", 0.6, None, 0)]
    assert verdicts(store, "min acc - 1 by size where loss < 0.4") == [
        ("at most", pytest.approx(-0.05), None, 0)
    ]
    answer = question(store, "min loss by size where acc > 0.98")
    assert [row["verdict"] for row in answer.rows] == ["open"], "the fourth cell was never tried"
    store.end(trials[3], "completed", 0.96, loss=0.4)
    answer = question(store, "min loss by size where acc > 0.98")
    assert [(row["verdict"], row["fail"]) for row in answer.rows] == [("above", None)]
    assert verdicts(store, "min loss by size where acc > 0.9") == [("at most", 0.2, None, 0)]
    notes = question(store, "min loss by size where acc > 0.9").notes
    assert not any(note.startswith(("smallest", "unfinished")) for note in notes)


def test_size_itself_can_be_minimised() -> None:
    answer = question(grid({(6, 16): 0.95, (8, 16): 0.5}), "min size where acc < 0.9")
    assert answer.columns[:4] == ["task", "model", "value", "fail"]
    assert [(row["value"], row["fail"], row["verdict"]) for row in answer.rows] == [(8, 6, "exact")]
    answer = question(mixed(), "min n * n where acc > 0.9 and n = 8 and heads = 4 and d = 32")
    assert [row["value"] for row in answer.rows] == [64, 64]


@pytest.mark.parametrize("more", ["lr", "heads", "steps"])
def test_a_value_that_failed_at_a_smaller_size_contradicts_beside_settings_tried_later_alone(
    more: str,
) -> None:
    """d = 8 failed at n = 4 in the settings in which it passes at n = 6, where one more was
    tried."""
    tried: dict[str, list[Any]] = {
        "lr": ["0.01", "0.1", "1.0"], "heads": [2, 1, 4], "steps": [200, 400, 100]
    }  # fmt: skip
    settings = tried[more]
    trials = [
        planned(n, d, **{"steps": 200, more: value})
        for n, d in itertools.product((4, 6), (4, 8))
        for value in (settings if n == 6 else settings[:2])
    ]

    def acc(trial: Row) -> float:
        return 0.95 if (trial["n"], trial["d"], trial[more]) == (6, 8, settings[0]) else 0.5

    store = ran(trials, acc, tune=["train.lr"])
    told = {row["n"]: (row["value"], row["verdict"]) for row in question(store, "min d by n").rows}
    assert told == {4: (None, "above"), 6: (8, "not monotone")}


def test_a_value_that_passed_at_the_smaller_size_in_other_settings_contradicts_nothing() -> None:
    trials = [planned(n, 8, lr=lr) for n in (4, 6) for lr in ("0.01", "0.1")]
    passing = ((4, "0.1"), (6, "0.01"))
    store = ran(trials, lambda t: 0.95 if (t["n"], t["lr"]) in passing else 0.5, tune=["train.lr"])
    assert [row["verdict"] for row in question(store, "min d by n").rows] == ["at most"] * 2


# The cells behind the rows


def states(store: FakeStore) -> dict[tuple[int, int], str]:
    cells = question(store, "min d where acc > 0.9").cells
    return {(cell["size"], cell["value"]): cell["state"] for cell in cells}


def test_every_state_of_a_cell() -> None:
    cells: dict[tuple[int, int], tuple[Any, str]] = {
        (8, 8): (0.5, "failed"), (8, 16): (0.95, "passed"), (8, 64): (None, "untried"),
        (8, 32): (("failed", None), "unfinished"), (10, 8): (None, "inferred"),
        (10, 16): (("stopped", 0.6), "ended early"), (10, 32): (0.95, "passed"),
    }  # fmt: skip
    store = grid({at: ending for at, (ending, _) in cells.items()})
    assert states(store) == {at: state for at, (_, state) in cells.items()}
    assert states(grid({(8, 8): None, (8, 16): 0.5, (8, 32): 0.95}))[8, 8] == "inferred"


def test_which_cells_decide_and_win() -> None:
    found = question(grid({(8, 8): 0.4, (8, 16): 0.5, (8, 32): 0.95, (8, 64): 0.97}), "min d").cells
    assert [cell["value"] for cell in found if cell["decides"]] == [16]
    assert [cell["value"] for cell in found if cell["wins"]] == [32]
    assert all(cell["stands"] for cell in found)
    nothing = question(grid({(8, 8): 0.4, (8, 16): 0.5}), "min d").cells
    assert [cell["value"] for cell in nothing if cell["decides"]] == [16]
    assert not any(cell["wins"] for cell in nothing)


def test_the_best_of_the_cells_that_share_a_value_stands_for_it() -> None:
    accs = {1: 0.95, 2: 0.97, 4: 0.2}
    store = ran([planned(d=16, heads=heads) for heads in accs], lambda t: accs[t["heads"]])
    cells = question(store, "min d by size where acc > 0.9").cells
    assert len(cells) == 3 and {cell["state"] for cell in cells} == {"passed"}
    assert [cell["acc"] for cell in cells if cell["stands"]] == [0.97]


def test_a_frontier_names_the_cell_of_each_row() -> None:
    store = grid({(8, 8): 0.5, (8, 16): 0.95})
    found = question(store, "frontier flops, acc")
    values = {cell["cell"]: cell["value"] for cell in question(store, "min d").cells}
    assert [values[cell["cell"]] for cell in found.cells] == [row["d"] for row in found.rows]
