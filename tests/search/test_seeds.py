"""The seeds of a cell. The pass rule over intervals says what questions say in SQL. The search asks
for as many seeds as may decide, never for more or fewer. If a result is close, it asks for further
seeds."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from fake_store import FakeStore, now, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import simulated

from sweepd.grid.options import Goal, PassRule
from sweepd.grid.trials import Trial
from sweepd.judge.cells import is_near
from sweepd.query.answers import ask
from sweepd.search.seeds import CellSeeds, Outcome

RULES = st.sampled_from(["median", "all", "any", "mean"])
GOALS = st.sampled_from([Goal("acc", ">", 0.9), Goal("acc", ">=", 0.5), Goal("loss", "<", 0.1)])
OWN = {"f1": "up", "err": "down"}
"""Metrics of a user's own loop, of which no limits are known."""
OWN_GOALS = st.sampled_from([Goal("f1", ">", 0.9), Goal("err", "<", 0.1)])
TRIALS = simulated("task.n=4", "model.d=8", "seeds=[0,1,2,3,4]").trials
STATUSES = st.sampled_from(["completed", "solved", "stopped", "diverged"])


@st.composite
def outcomes(draw: st.DrawFn, metric: str, most: int = 3) -> dict[str, Outcome]:
    ended = {}
    for trial in TRIALS[:most]:
        if draw(st.booleans()):
            score = draw(st.sampled_from([0.0, 0.05, 0.1, 0.5, 0.85, 0.9, 0.92, 1.0]))
            status = draw(STATUSES)
            measured = None if status in ("stopped", "diverged") else score
            ended[trial.id] = Outcome(status, measured, 100)
    return ended


def deciding(goal: Goal, rule: PassRule, seeds: int = 3, first: int = 3) -> CellSeeds:
    return CellSeeds(goal, rule, TRIALS[:seeds], first)


def asked(store: FakeStore) -> dict[int, bool | None]:
    """Whether each cell passes, by its d, as a question says. It takes as long for one."""
    rows = ask(store, "min d by d", code=now).rows
    failed = {row["d"]: False if row["verdict"] == "above" else None for row in rows}
    return {row["d"]: row["value"] is not None or failed[row["d"]] for row in rows}


WIDTHS = range(8, 8 * 13, 8)


@given(st.data(), GOALS | OWN_GOALS, RULES)
@settings(max_examples=30)
def test_a_verdict_is_what_a_question_says(data: st.DataObject, goal: Goal, rule: PassRule) -> None:
    cells = {d: data.draw(outcomes(goal.metric)) for d in WIDTHS}
    store = FakeStore()
    rows = {(d, seed): planned(d=d, seed=seed) for d in WIDTHS for seed in range(3)}
    store.add_sweep("s", [*rows.values()], metrics=OWN, **{"goal": str(goal), "pass": rule})
    for (d, seed), row in rows.items():
        if outcome := cells[d].get(TRIALS[seed].id):
            score = {goal.metric: outcome.score} if outcome.score is not None else {}
            store.end(row, outcome.status, **{"acc": None, **score, "total": 100})
    assert asked(store) == {d: deciding(goal, rule).passes(ended) for d, ended in cells.items()}


FIVE = st.lists(st.sampled_from([None, "failed", 0.2, 0.89, 0.91, 0.99]), min_size=5, max_size=5)


@given(st.lists(FIVE, min_size=len(WIDTHS), max_size=len(WIDTHS)), st.integers(1, 4), RULES)
@settings(max_examples=20)
def test_with_further_seeds_it_is_what_a_question_says_too(
    cells: list[list[Any]], first: int, rule: PassRule
) -> None:
    store = FakeStore()
    rows = {(d, seed): planned(d=d, seed=seed) for d in WIDTHS for seed in range(5)}
    store.add_sweep("s", [*rows.values()], extra_seeds=list(range(first, 5)), **{"pass": rule})
    found, passes = deciding(Goal("acc", ">", 0.9), rule, 5, first), {}
    for d, seeds in zip(WIDTHS, cells, strict=True):
        ended, lost = {}, set()
        for seed, (trial, score) in enumerate(zip(TRIALS, seeds, strict=True)):
            if score == "failed":
                store.end(rows[d, seed], "failed")
                lost.add(trial.id)
            elif score:
                store.end(rows[d, seed], "completed", score)
                ended[trial.id] = Outcome("completed", score, 100)
        if not found.needed(ended, lost):  # else the search wants more than questions know of
            passes[d] = found.passes(ended, lost)
    answer = asked(store)
    assert {d: answer[d] for d in passes} == passes


@given(st.data(), GOALS, RULES)
def test_needed_seeds_are_as_few_as_may_decide(
    data: st.DataObject, goal: Goal, rule: PassRule
) -> None:
    ended = data.draw(outcomes(goal.metric))
    found = deciding(goal, rule)
    needed = found.needed(ended)
    waiting = [trial for trial in TRIALS[:3] if trial.id not in ended]

    def decided_with(trials: Sequence[Trial]) -> bool:
        ends = (Outcome("completed", 0.0, 100), Outcome("completed", 1e9, 100))
        ends = ends if goal.metric == "loss" else (ends[0], Outcome("completed", 1.0, 100))
        return any(
            found.passes(ended | {t.id: end for t, end in zip(trials, combination, strict=True)})
            is not None
            for combination in itertools.product(ends, repeat=len(trials))
        )

    least = next(
        (k for k in range(len(waiting) + 1)
         if any(decided_with(trials) for trials in itertools.combinations(waiting, k))),
        None,
    )  # fmt: skip
    assert (None if needed is None else len(needed)) == least
    assert needed is None or {t.id for t in needed} <= {t.id for t in waiting}
    assert (found.passes(ended) is not None) == (needed == ())


def test_seeds_that_are_lost_leave_the_others_to_decide() -> None:
    found, goal = deciding(Goal("acc", ">", 0.9), "median"), 0.95
    a, b, c = TRIALS[:3]
    passed = Outcome("completed", goal, 100)
    assert found.needed({}, {a.id}) == (b, c)
    assert found.passes({b.id: passed, c.id: passed}, {a.id}) is True
    assert found.needed({b.id: passed}, {a.id, c.id}) is None, "one of three is no median"


@pytest.mark.parametrize(
    ("scores", "called"),
    [
        ([0.99], 1),
        ([0.2], 1),
        ([0.91], 2),
        ([0.91, 0.99], 2),  # a third seed may be anything: the median stays above .9
        ([0.91, 0.85], 3),
        ([0.99, 0.2], 3),
        ([0.91, 0.89, 0.9, 0.91, 0.9], 5),
    ],
)
def test_close_calls_call_further_seeds(scores: list[float], called: int) -> None:
    found = deciding(Goal("acc", ">", 0.9), "median", 5, 1)
    ended = {
        trial.id: Outcome("completed", score, 100)
        for trial, score in zip(TRIALS, scores, strict=False)
    }
    assert len(found.called(ended, ())) == called
    assert (found.needed(ended) == ()) == (called == len(scores))


def test_a_lost_extra_seed_is_replaced() -> None:
    found = deciding(Goal("acc", ">", 0.9), "median", 5, 1)
    ended = {TRIALS[0].id: Outcome("completed", 0.91, 100)}
    assert found.needed(ended, {TRIALS[1].id}) == (TRIALS[2],)
    lost = {trial.id for trial in TRIALS[1:]}
    assert found.needed(ended, lost) == () and found.passes(ended, lost) is True


def test_the_worst_is_no_number() -> None:
    assert Outcome("diverged").ends(Goal("loss", "<", 0.1)) == (math.inf, math.inf)
    assert Outcome("diverged").ends(Goal("acc", ">", 0.9)) == (0.0, 0.0)
    assert Outcome("completed", math.nan).ends(Goal("acc", ">", 0.9)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("scores", "totals", "goal", "near"),
    [
        ([0.89], [100], Goal("acc", ">", 0.9), True),
        ([0.5], [100], Goal("acc", ">", 0.9), False),
        ([0.89], [], Goal("acc", ">", 0.9), False),
        ([0.1], [100], Goal("loss", "<", 0.1), False),  # a loss is no share, though between 0 and 1
    ],
)
def test_scores_that_are_no_shares_are_never_near(
    scores: list[float], totals: list[int], goal: Goal, near: bool
) -> None:
    assert is_near(scores, totals, goal, "median") is near
