"""How cells fall into rows: the default groups, the clause `by`, what `by` merges, and what the
column `at` holds. Covers `query/verbs.py`."""

import json

import pytest
from fake_store import FakeStore, planned
from questions import ended, grid, mixed, question, ran

from sweepd.errors import UserError


def test_the_default_group_is_what_differs() -> None:
    answer = question(mixed(), "min d where acc > 0.9")
    assert answer.columns[:6] == ["task", "size", "L", "model", "heads", "value"]
    found = [(row["size"], row["model"], row["heads"], row["value"]) for row in answer.rows]
    assert found == [
        (6, "linear", 2, None), (6, "linear", 4, 32), (6, "standard", 2, 32),
        (6, "standard", 4, 16), (8, "linear", 2, None), (8, "linear", 4, 32),
        (8, "standard", 2, 32), (8, "standard", 4, 16),
    ]  # fmt: skip


def test_a_field_is_written_differently_where_one_sweep_leaves_it_null() -> None:
    store = ended([planned(success=None), planned(success=0.98)], None, None)
    assert "success" in question(store, "min d where acc > 0.9").columns


def test_by_replaces_all_but_task_and_model() -> None:
    answer = question(mixed(), "min d by L where acc > 0.9 and model = 'standard'")
    assert answer.columns[:4] == ["task", "L", "model", "value"]
    assert [(row["L"], row["value"]) for row in answer.rows] == [(15, 16), (19, 16)]
    [linear, standard] = question(mixed(), "min heads per d where acc > 0.9 and d = 32").rows
    assert (linear["d"], linear["value"], standard["value"]) == (32, 4, 2)
    with pytest.raises(UserError, match="by acc: group by one of"):
        question(mixed(), "min d by acc where acc > 0.9")


def merged(store: FakeStore, text: str) -> list[str]:
    return [note for note in question(store, text).notes if note.startswith(("merged:", "pooled:"))]


def test_what_by_merges_is_said() -> None:
    trials = [
        planned(n, d, value_range=2 * n, levels=levels, heads=heads, success=success)
        for n in (6, 8)
        for d in (8, 16)
        for levels, heads, success in ((1, 2, None), (1, 4, 0.98), (2, 2, None))
    ]
    store = ran(trials, lambda trial: 0.95 if trial["d"] > 8 else 0.5)
    said = "merged: rows are the best over {}, which `by` leaves out"
    for text, fields in {
        "min d by L where acc > 0.9": "heads, levels, success",
        "min d by L, heads, success where acc > 0.9": "levels",
        "min d by heads, success where acc > 0.9 and size = 6": "levels",
        "min flops by n, levels where acc > 0.9": "heads, success",
        "min d by levels, heads, success where acc > 0.9": "n, value_range",
        "min d * levels by L where acc > 0.9": "heads, success",
        "fit d ~ L by levels where acc > 0.9": "heads, success",
    }.items():
        assert merged(store, text) == [said.format(fields)], text
    for text in (
        "min d where acc > 0.9",
        "min n where acc > 0.9",
        "min d by L, levels where acc > 0.9 and heads = 2",
        "min heads by L, levels, d, success where acc > 0.9",
        "fit d ~ L where acc > 0.9",
        "frontier flops, acc",
    ):
        assert merged(store, text) == [], text


def test_cells_of_different_problems_do_not_beat_one_another() -> None:
    trials = [
        planned(n, d, levels=levels, heads=heads)
        for n in (6, 8)
        for d in (8, 16)
        for levels in (1, 2)
        for heads in (2, 4)
    ]
    store = ran(
        trials,
        lambda t: (t["d"] * t["heads"] - t["n"]) / (100 * t["levels"]),
        task_fields={"lis": ["n", "levels"]},
    )
    answer = question(store, "frontier d, acc")
    assert answer.columns[:6] == ["task", "size", "L", "model", "levels", "d"]
    found = [(row["size"], row["levels"], row["d"]) for row in answer.rows]
    assert found == [(n, levels, d) for n in (6, 8) for levels in (1, 2) for d in (8, 16)]
    assert all(json.loads(row["at"]) == {"heads": 4} for row in answer.rows)
    by_size = question(store, "frontier d, acc by size")
    assert [(row["size"], row["d"]) for row in by_size.rows] == [(6, 8), (6, 16), (8, 8), (8, 16)]
    said = "pooled: cells that differ in {}, other problems, compete"
    assert by_size.notes == [said.format("levels")]
    assert merged(store, "frontier d, acc by levels") == [said.format("n")]
    assert merged(store, "frontier d, acc by heads") == [said.format("n, levels")]
    assert merged(store, "frontier d, acc by n where levels = 2") == []
    [row, _] = question(store, "frontier levels, acc where d = 16").rows[:2]
    assert (row["size"], row["levels"]) == (6, 1)


def test_a_size_stands_in_at_where_there_are_several() -> None:
    for sizes, at in (((8,), {}), ((6, 8), {"size": 8})):
        store = grid({(n, d): 0.95 if (n, d) == (8, 16) else 0.5 for n in sizes for d in (8, 16)})
        [row] = question(store, "min d by model where acc > 0.9").rows
        assert (row["value"], json.loads(row["at"])) == (16, at)
