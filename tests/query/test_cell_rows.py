"""The cells behind a row of `min`: their states, which of them decides the row, and which one
stands for a value."""

from __future__ import annotations

from fake_store import FakeStore, now, planned
from questions import grid, question

from sweepd.query.answers import answer
from sweepd.query.database import connect


def states(store: FakeStore) -> dict[tuple[int, int], str]:
    cells = question(store, "min d where acc > 0.9").cells
    return {(cell["size"], cell["value"]): cell["state"] for cell in cells}


def test_every_state_of_a_cell() -> None:
    store = grid(
        {
            (8, 8): 0.5,
            (8, 16): 0.95,
            (8, 32): ("failed", None),
            (8, 64): None,
            (10, 8): None,  # failed at the smaller size
            (10, 16): ("stopped", 0.6),
            (10, 32): 0.95,
        }
    )
    assert states(store) == {
        (8, 8): "failed",
        (8, 16): "passed",
        (8, 32): "unfinished",
        (8, 64): "untried",
        (10, 8): "inferred",
        (10, 16): "ended early",
        (10, 32): "passed",
    }


def test_a_smaller_value_than_one_that_failed_is_inferred_to_fail() -> None:
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
    store = FakeStore()
    trials = [planned(d=16, heads=heads) for heads in (1, 2, 4)]
    store.add_sweep("s", trials)
    for trial, acc in zip(trials, (0.95, 0.97, 0.2), strict=True):
        store.end(trial, "completed", acc)
    cells = answer(connect(store, code=now), "min d by size where acc > 0.9").cells
    assert len(cells) == 3 and {cell["state"] for cell in cells} == {"passed"}
    assert [cell["acc"] for cell in cells if cell["stands"]] == [0.97]


def test_a_frontier_names_the_cell_of_each_row() -> None:
    store = grid({(8, 8): 0.5, (8, 16): 0.95})
    found = question(store, "frontier flops, acc")
    values = {cell["cell"]: cell["value"] for cell in question(store, "min d").cells}
    assert [values[cell["cell"]] for cell in found.cells] == [row["d"] for row in found.rows]
