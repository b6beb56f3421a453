"""The exchange rate of `min d by steps`: by what factor the training steps grow when d is
halved."""

from __future__ import annotations

import pytest
from fake_store import FakeStore, planned
from questions import question

BUDGETS = (1000, 2000, 4000, 8000, 16000)
SETTLE = {"factor": 4, "least": 2000, "most": 16000, "share": None}


def store_of(times: float, **info: object) -> FakeStore:
    """d = 64 needs 1000 steps or a little less, and each halving `times` as many."""
    store = FakeStore()
    trials = [
        planned(8, d, seed, steps=steps)
        for d in (4, 8, 16, 32, 64)
        for steps in BUDGETS
        for seed in range(3)
    ]
    store.add_sweep("s", trials, **info)
    for trial in trials:
        needed = 900 * times ** {64: 0, 32: 1, 16: 2, 8: 3, 4: 4}[trial["d"]]
        store.end(trial, "completed", 0.95 if trial["steps"] >= needed else 0.5)
    return store


@pytest.mark.parametrize("times", [2, 4])
def test_each_halving_costs_so_many_times_the_steps(times: int) -> None:
    answer = question(store_of(times, settle=SETTLE), "min d by n, steps where acc > 0.9")
    assert {row["steps"] for row in answer.rows} == set(BUDGETS)
    [(rate, low, high)] = {
        (row["per_halving"], row["per_halving_low"], row["per_halving_high"]) for row in answer.rows
    }
    assert rate == pytest.approx(times, rel=0.35)
    assert 1 < low < times < high


def test_too_few_widths_have_no_rate() -> None:
    store = store_of(2, settle=SETTLE)
    rows = question(store, "min d by n, steps where acc > 0.9 and d >= 32").rows
    assert [row["per_halving"] for row in rows] == [None] * 5


def test_a_sweep_that_does_not_settle_has_none() -> None:
    answer = question(store_of(2), "min d by n, steps where acc > 0.9")
    assert "per_halving" not in answer.columns


def test_cells_of_a_loop_without_steps_say_nothing() -> None:
    store = store_of(2, settle=SETTLE)
    trials = [planned(8, d, seed, model="mine.py:Run") for d in (4, 8) for seed in range(3)]
    store.add_sweep("own", trials)
    for trial in trials:
        store.end(trial, "completed", 0.95)
    rows = question(store, "min d by model, steps where acc > 0.9").rows
    assert {row["per_halving"] is None for row in rows if row["model"] == "mine.py:Run"} == {True}
    assert {row["per_halving"] is None for row in rows if row["model"] == "standard"} == {False}
