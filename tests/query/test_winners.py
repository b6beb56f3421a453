"""`best` and `max`: in each group the one cell that is the best, compared with a slow search for
it. Covers `query/verbs.py`."""

from typing import Any

import pytest
from fake_store import FakeStore, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import ended, question, ran

from sweepd.errors import UserError

RATES = ("0.001", "0.01", "0.1")


def rates(scores: dict[tuple[int, int], float], **info: Any) -> FakeStore:
    """A store with a cell for each (d, which rate), of the given accuracy."""
    trials = [planned(d=d, lr=RATES[i]) for d, i in scores]
    return ran(trials, lambda t: scores[t["d"], RATES.index(t["lr"])], **info)


SCORES = {(8, 0): 0.5, (8, 1): 0.7, (8, 2): 0.6, (16, 0): 0.2, (16, 1): 0.8, (16, 2): 0.95}


def losing(losses: dict[int, tuple[float | None, ...]]) -> FakeStore:
    """A store whose goal is a loss: by d the loss at each rate. None diverged."""
    trials = [planned(d=d, lr=rate) for d in losses for rate in RATES]
    every = [loss for of_d in losses.values() for loss in of_d]
    scores = ["diverged" if loss is None else {"acc": 0.5, "loss": loss} for loss in every]
    return ended(trials, *scores, goal="loss < 0.1")


def test_the_best_rate_by_width_and_where_the_range_was_too_narrow() -> None:
    answer = question(rates(SCORES), "best lr by d")
    assert answer.columns[:6] == ["task", "d", "model", "lr", "acc", "values"]
    names = ("d", "lr", "acc", "values", "edge")
    assert [tuple(row[name] for name in names) for row in answer.rows] == [
        (8, "0.01", 0.7, 3, ""),
        (16, "0.1", 0.95, 3, "lr"),
    ]
    tuned = question(rates(SCORES, tune=["train.lr"]), "best lr by d")
    assert [row["lr"] for row in tuned.rows] == ["0.01", "0.1"]


def test_a_condition_selects_and_without_by_the_group_is_that_of_min() -> None:
    answer = question(rates(SCORES), "best lr where d = 8")
    assert [(row["size"], row["d"], row["lr"]) for row in answer.rows] == [(8, 8, "0.01")]
    assert question(rates(SCORES), "best lr by d where acc > 0.9").rows[0]["d"] == 16


def test_the_loss_decides_where_the_goals_are_about_it_and_a_rate_that_diverged_was_tried() -> None:
    """So the best rate does not lie at the edge of those that were tried."""
    store = losing({8: (0.3, 0.2, None)})
    for text in ("best lr by d", "best lr by d where loss < 0.25"):
        answer = question(store, text)
        [row] = answer.rows
        assert (row["lr"], row["loss"], row["values"], row["edge"]) == ("0.01", 0.2, 3, "")
        assert not any(note.startswith("left out") for note in answer.notes)


def test_a_group_without_a_winner_is_named() -> None:
    store = losing({8: (0.2, 0.2, 0.2), 16: (None, None, None)})
    answer = question(store, "best lr by d")
    assert [row["d"] for row in answer.rows] == [8]
    assert [note for note in answer.notes if note.startswith("no best: in 1 groups no lr")]
    answer = question(store, "best lr by d where loss < 0.1")
    assert not answer.rows and any(note.startswith("no best: in 2") for note in answer.notes)


def test_a_seed_that_a_rule_stopped_does_not_count() -> None:
    store = ended([planned(d=8, seed=seed) for seed in range(3)], 0.7, 0.7, "stopped")
    [row] = question(store, "max acc by d").rows
    assert (row["acc"], row["seeds"]) == (0.7, 2)


def test_an_axis_is_wanted() -> None:
    for text, told in (("best acc by d", "name an axis"), ("best d + 1", "names of columns")):
        with pytest.raises(UserError, match=told):
            question(rates(SCORES), text)


def test_max_is_the_greatest_of_each_group() -> None:
    answer = question(rates(SCORES), "max acc by d")
    assert [(row["d"], row["acc"]) for row in answer.rows] == [(8, 0.7), (16, 0.95)]
    assert [row["at"] for row in answer.rows] == ['{"lr": "0.01"}', '{"lr": "0.1"}']
    [row] = question(rates(SCORES), "max acc").rows
    assert (row["acc"], row["d"]) == (0.95, 16)


@settings(max_examples=15)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from([8, 16, 32]), st.integers(0, 2)),
        st.integers(0, 100).map(lambda percent: percent / 100),
        min_size=1,
    )
)
def test_best_and_max_agree_with_looking_at_every_cell(
    scores: dict[tuple[int, int], float],
) -> None:
    store = rates(scores)
    slow = {d: max(acc for (other, _), acc in scores.items() if other == d) for d, _ in scores}
    best, greatest = (question(store, f"{verb} by d").rows for verb in ("best lr", "max acc"))
    assert {row["d"]: row["acc"] for row in best} == slow
    assert {row["d"]: row["acc"] for row in greatest} == slow
    assert all(scores[row["d"], RATES.index(row["lr"])] == row["acc"] for row in best)
