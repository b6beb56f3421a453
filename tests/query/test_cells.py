"""The cells of a question. A condition on a cell is true, false or open, which is compared with all
ways in which the seeds that still run may end. Also tested are pass rules, and scores with their
interval. Covers `intervals.py`."""

import itertools
from collections.abc import Callable
from math import isclose, sqrt
from typing import Any

import pytest
from fake_store import planned
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import ended, grid, question, verdicts
from twins import POOL, SEEDS, outcome

from sweepd.intervals import wilson


@settings(max_examples=8)
@given(
    st.lists(st.lists(SEEDS, min_size=3, max_size=3), min_size=20, max_size=20),
    st.sampled_from(list(POOL)),
)
def test_a_condition_holds_if_it_does_however_the_open_seeds_end(cells: Any, rule: str) -> None:
    every = [planned(d=8 * (i + 1), seed=k) for i in range(len(cells)) for k in range(3)]
    store = ended(every, *itertools.chain(*cells))
    conditions: dict[str, Callable[[float], bool]] = {
        "acc > 0.9": lambda acc: acc > 0.9,
        "0.9 <= acc": lambda acc: acc >= 0.9,
        "not acc < 0.5": lambda acc: acc >= 0.5,
        "acc between 0.4 and 0.94": lambda acc: 0.4 <= acc <= 0.94,
        "acc = 0.93": lambda acc: acc == 0.93,
        "acc <> 0.95": lambda acc: acc != 0.95,
        "acc > 0.9 or d > 0": lambda _: True,
        "acc > 0.9 and d < 0 or acc > 1": lambda _: False,
    }
    for text, passes in conditions.items():
        answer = question(store, f"min d by d where {text}", seeds=rule)
        found = {row["d"]: row["verdict"] for row in answer.rows}
        for i, seeds in enumerate(cells):
            expected = outcome(seeds, rule, passes)
            ran = any(seed and seed[0] in ("completed", "solved", "diverged") for seed in seeds)
            verdict = "at most" if expected else "above" if expected is False and ran else "open"
            between = rule == "mean" and ("=" in text or "<>" in text or "between" in text)
            if expected is None or not between:  # means reach more than ANY_ACC lets them
                assert found[8 * (i + 1)] == verdict, (text, seeds)
            else:
                assert found[8 * (i + 1)] in (verdict, "open"), (text, seeds)


def test_a_mean_at_the_threshold_meets_it_in_whatever_order_the_seeds_came() -> None:
    trials = [planned(seed=seed) for seed in range(3)]
    for accs in itertools.permutations((0.85, 0.9, 0.95)):
        [row] = question(ended(trials, *accs), "min d where acc >= 0.9", seeds="mean").rows
        assert row["verdict"] == "at most"


def test_comparisons_of_scores_with_each_other_wait_for_both() -> None:
    store = grid({(8, 8): {"acc": 0.5, "chain_acc": 0.4}, (8, 16): None})
    store.end(planned(d=16), "solved", 0.98, chain_acc=0.4)
    for text in ("acc > chain_acc", "acc - chain_acc > 0", "acc in (0.5, 1)"):
        assert verdicts(store, f"min d by d where {text}") == [
            ("at most", 8, None, 0),
            ("open", None, None, 0),
        ]
    assert verdicts(store, "min d by d where acc > 0.9 or d > 1 and chain_acc is null") == [
        ("above", None, 8, 0),
        ("at most", 16, None, 0),
    ]


@pytest.mark.parametrize("other", ["block = 2", "not block = 3"])
def test_a_column_that_a_cell_lacks_keeps_nothing_open(other: str) -> None:
    """`standard` has no `block`. So what decides of it is acc alone."""
    trials = [planned(8, d, model="standard", block=None) for d in (4, 8)]
    trials += [planned(8, d, model="sparse", block=2) for d in (4, 8)]
    store = ended(trials, 0.5, 0.95, 0.5, 0.95)
    answer = question(store, f"min d where acc > 0.9 or {other}")
    found = {row["model"]: (row["value"], row["verdict"]) for row in answer.rows}
    assert found == {"standard": (8, "exact"), "sparse": (4, "at most")}
    assert not any("unfinished" in note for note in answer.notes)


def test_conditions_on_loss() -> None:
    trials = [planned(d=d) for d in (8, 16, 32, 64, 128)]
    store = ended(trials, "diverged", {"loss": 0.5}, None, None, None)
    store.end(trials[2], "solved", loss=0.4)
    store.end(trials[3], "solved", loss=0.1)
    found = verdicts(store, "min d by d where loss < 0.3")
    assert [verdict for verdict, *_ in found] == ["above", "above", "open", "at most", "open"]
    answer = question(store, "min d where loss < 0.3")
    assert [(row["value"], row["close"], row["acc_low"]) for row in answer.rows] == [
        (64, None, None)
    ]
    assert answer.about == {"loss"}


@pytest.mark.parametrize(
    ("rule", "acc", "total"), [("median", 0.92, 100), ("mean", 0.9, 300), ("all", 0.8, 100)]
)
def test_the_interval_is_that_of_the_pooled_accuracy(rule: str, acc: float, total: int) -> None:
    store = ended([planned(seed=k) for k in range(3)], 0.92, 0.8, 0.98)
    [row] = question(store, "min d where acc > 0.5", seeds=rule).rows
    assert row["acc"] == pytest.approx(acc)
    assert (row["acc_low"], row["acc_high"]) == pytest.approx(wilson(acc, total))


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_solves_its_equation(counts: tuple[int, int]) -> None:
    k, n = counts
    low, high = wilson(k / n, n)
    assert 0 <= low <= k / n <= high <= 1
    for bound in (low, high):
        distance = 1.959963984540054 * sqrt(bound * (1 - bound) / n)
        assert isclose((k / n - bound) ** 2, distance**2, rel_tol=1e-6, abs_tol=1e-12)
