"""The staircase search over trials. On random surfaces it finds the same frontier as brute force,
whatever the order of results, the slots, failures and restarts. Seeds, nuisance values and the
trials of other sweeps cost no more than they must."""

import math
import random
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import drive, simulated

from sweepd.grid.options import Staircase
from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.search.base import Search
from sweepd.search.estimate import bills
from sweepd.search.seeds import Outcome, cells_of
from sweepd.search.staircase import StaircaseSearch, promotion_of, search_of
from sweepd.store.schema import TRIALS

SIZES, WIDTHS = (4, 6, 8, 10), (4, 8, 12, 16, 20, 24)
plan_of = cache(simulated)
MONOTONE = st.lists(st.sampled_from([*WIDTHS, math.inf]), min_size=4, max_size=4).map(sorted)
Noise = dict[tuple[int, int], bool]
NOISE = st.dictionaries(st.tuples(st.sampled_from(SIZES), st.sampled_from(WIDTHS)), st.booleans())


def completed(acc: float) -> Outcome:
    return Outcome("completed", acc, 1024)


def surface(minima: Iterable[float], noise: Noise | None = None) -> Callable[[Trial], Outcome]:
    """Outcomes of trials; `noise` turns all but the first seed of some cells."""
    least = dict(zip(SIZES, minima, strict=True))

    def outcome_of(trial: Trial) -> Outcome:
        at: tuple[int, Any] = trial.size, trial.axes["d"]
        passes = at[1] >= least[at[0]]
        if noise and at in noise:
            passes ^= trial.seed in ((1, 2) if noise[at] else (2,))
        return completed(0.99 if passes else 0.3)

    return outcome_of


def size_and_d(trial: Trial) -> tuple[int, Any]:
    return trial.size, trial.axes["d"]


def frontier(plan: Plan, outcome_of: Callable[[Trial], Outcome]) -> dict[int, float]:
    """Brute force: the least d that passes at each size, if every trial of the grid runs."""
    return answer(plan, {trial.id: outcome_of(trial) for trial in plan.trials})


def answer(plan: Plan, ledger: Mapping[str, Outcome]) -> dict[int, float]:
    """The least d that passes at each size, as far as it is known."""
    found = dict.fromkeys(SIZES, math.inf)
    for seeds in cells_of(plan):
        if seeds.passes(ledger):
            size, d = size_and_d(seeds.trials[0])
            found[size] = min(found[size], d)
    return found


@given(MONOTONE, st.integers(1, 7), st.randoms(use_true_random=False), st.sampled_from([0, 0.2]))
@settings(max_examples=40)
def test_the_frontier_is_that_of_the_whole_grid(
    minima: list[float], slots: int, order: random.Random, restarts: float
) -> None:
    plan, outcome_of = plan_of(), surface(minima)
    ledger, ended, search = drive(lambda: search_of(plan), outcome_of, slots, order, restarts)
    assert answer(plan, ledger) == frontier(plan, outcome_of)
    assert len(ended) == len({t.id for t in ended}), "nothing runs twice"
    tally = search.tally()
    assert tally["walk"] <= len(SIZES) + len(WIDTHS) - 1
    assert tally["spot check"] <= 2 + len(SIZES) and not tally["widened"]
    assert not search.wanted()


@given(MONOTONE, NOISE, st.integers(1, 5), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_on_any_surface_a_value_is_one_that_passed_and_a_contradiction_is_looked_into(
    minima: list[float], noise: Noise, slots: int, order: random.Random
) -> None:
    plan, outcome_of = plan_of(), surface(minima, noise)
    ledger, ended, search = drive(lambda: search_of(plan), outcome_of, slots, order)
    truth, found = frontier(plan, outcome_of), answer(plan, ledger)
    assert all(found[size] >= truth[size] for size in SIZES)
    assert len(ended) <= len(plan.trials)
    [stair] = search.stairs
    assert isinstance(search, StaircaseSearch)
    [known] = search.known
    assert set(stair.line.around_contradictions(known)) <= known.keys()


@given(MONOTONE)
@settings(max_examples=40)
def test_alone_it_runs_no_width_above_the_frontier_and_no_seed_too_many(
    minima: list[float],
) -> None:
    plan, outcome_of = plan_of("search={staircase: {spot_checks: 0}}"), surface(minima)
    _, ended, _ = drive(lambda: search_of(plan), outcome_of)
    least = frontier(plan, outcome_of)
    assert all(d <= least[size] for size, d in map(size_and_d, ended))
    cells = {trial.cell for trial in ended}
    assert len(ended) == 2 * len(cells), "two seeds that agree decide a median of three"


def test_the_cheaper_of_two_lines_runs_first() -> None:
    plan = simulated("model.name=[standard, linear]", "search={staircase: {speculate: false}}")
    search = searching(plan)
    handed = handed_out(search, 4)
    assert search.next() is None, "one cell a line is needed, and of each two seeds"
    assert [t.effort for t in handed] == sorted(t.effort for t in handed)
    assert {(t.size, t.axes["d"]) for t in handed} == {(4, 4)}


@pytest.mark.parametrize(
    ("sets", "where"),
    [
        # Chances: 4 sizes to pass, 3 widths to fail; then 3 to 3.
        (["model.d=[16, 20, 24]", "task.n=[16, 17, 18, 19]"], [(16, 16), (16, 16), (17, 16)]),
        (["model.d=[16, 20, 24]", "task.n=[16, 32, 64, 128]"], [(16, 16), (16, 16)]),
        # 1 size to pass, 5 widths to fail; then 1 to 4, and 1 to 3.
        (["model.d=[8, 10, 12, 14, 16]", "task.n=8"], [(8, 8), (8, 8), (8, 10), (8, 10)]),
        (["model.d=[8, 32, 128, 512, 2048]", "task.n=8"], [(8, 8), (8, 8)]),
    ],
)
def test_idle_slots_run_ahead_where_it_saves_more_than_it_risks(
    sets: list[str], where: list[tuple[int, int]]
) -> None:
    plan = simulated(*sets)
    search = searching(plan)
    handed = handed_out(search, len(where))
    assert [(t.size, t.axes["d"]) for t in handed] == where
    further = search.next()
    assert (further is None) == (len(where) == 2)


def test_idle_slots_run_the_other_seeds_where_all_must_pass() -> None:
    plan = simulated("pass=all", "task.n=[4, 6, 8, 10]", "model.d=[4, 8]")
    search = searching(plan)
    handed = handed_out(search, 3)
    where = [(t.size, t.axes["d"], t.seed) for t in handed]
    assert where == [(4, 4, 0), (4, 4, 1), (4, 4, 2)], "4 sizes to pass, 2 widths to fail"


@given(MONOTONE, st.lists(st.integers(0, 71), max_size=40))
@settings(max_examples=40)
def test_what_other_sweeps_ran_is_used(minima: list[float], others: list[int]) -> None:
    plan, outcome_of = plan_of(), surface(minima)
    known = {plan.trials[i].id: outcome_of(plan.trials[i]) for i in others}
    ledger, ended, _ = drive(lambda: search_of(plan), outcome_of, known=known)
    assert answer(plan, ledger) == frontier(plan, outcome_of)
    assert not {trial.id for trial in ended} & known.keys()


def test_trials_of_another_driver_are_waited_for() -> None:
    plan = simulated()
    search = search_of(plan)
    first = [trial for trial in plan.trials if (trial.size, trial.axes["d"]) == (4, 4)]
    search.learn({}, {t.id for t in plan.trials} - {t.id for t in first})
    assert [t.id for t in search.wanted()] == [t.id for t in first[:2]]
    while trial := search.next():
        assert trial not in first
        search.ended(trial, completed(0.95))
    assert search.finished and search.wanted() == first[:2]
    search.learn({t.id: completed(0.95) for t in first}, {t.id for t in plan.trials})
    assert (search.wanted()[0].size, search.wanted()[0].axes["d"]) == (6, 4)


def test_a_failed_trial_is_tried_again_and_then_its_cell_is_passed_by() -> None:
    plan = simulated("search={staircase: {spot_checks: 0}}")
    outcome_of = surface([8, 8, 8, 8])

    def failing(trial: Trial) -> Outcome:
        bad = (trial.size, trial.axes["d"]) == (4, 8)
        return Outcome("failed") if bad else outcome_of(trial)

    ledger, ended, search = drive(lambda: search_of(plan), failing)
    bad = [t for t in ended if (t.size, t.axes["d"]) == (4, 8)]
    assert len(bad) == 2 * 2 and len(search.abandoned) == 2
    assert answer(plan, ledger) == {4: 12, 6: 12, 8: 12, 10: 12}
    ledger, *_ = drive(lambda: search_of(plan), outcome_of, known=ledger)
    assert answer(plan, ledger)[4] == 8, "the next launch tries it again"


@pytest.mark.parametrize(("winner", "most"), [(0.001, 2), (0.01, 4)])
def test_one_nuisance_value_that_passes_is_enough(winner: float, most: int) -> None:
    plan = simulated(
        "train.lr=[0.001, 0.01]", "tune=[train.lr]", "search={staircase: {spot_checks: 0}}"
    )
    outcome_of = surface([4, 4, 4, 4])

    def tuned(trial: Trial) -> Outcome:
        return outcome_of(trial) if trial.axes["lr"] == winner else completed(0.2)

    ledger, ended, _ = drive(lambda: search_of(plan), tuned)
    assert answer(plan, ledger) == dict.fromkeys(SIZES, 4)
    assert len(ended) == 2 * 4 + (most - 2), "what won at one size is tried first at the next"


def test_competitors_run_together() -> None:
    plan = simulated(
        "train.lr=[0.001, 0.01, 0.1]", "tune=[train.lr]", "stop={asha: {grace: 100}}", "seeds=[0]"
    )
    search = searching(plan)
    rates: list[Any] = [trial.axes["lr"] for trial in search.wanted()]
    assert sorted(rates) == [0.001, 0.01, 0.1]


def test_a_promotion_runs_in_full_what_the_answer_hangs_on() -> None:
    plan = simulated("seeds=[0]", "search=grid")
    stopped = {(4, 4), (4, 8), (6, 8), (4, 16), (10, 24)}
    whole = surface([8, 8, 12, 12])

    def outcome_of(trial: Trial) -> Outcome:
        early = (trial.size, trial.axes["d"]) in stopped
        return Outcome("stopped") if early else whole(trial)

    ledger, *_ = drive(lambda: search_of(plan), outcome_of)
    assert len(ledger) == len(plan.trials)
    ledger, ended, _ = drive(lambda: promotion_of(plan), whole, known=ledger)
    assert {(t.size, t.axes["d"]) for t in ended} == {(4, 4), (4, 8), (6, 8)}
    assert answer(plan, ledger) == {4: 8, 6: 8, 8: 12, 10: 12}


def test_other_axes() -> None:
    text = """
name: memories
task: {name: adaptive_memory, memories: [1, 2, 3], length: 32}
model: {name: tmx, d: 24, heads: [1, 2, 3, 4], layers: 1}
search: {staircase: {minimize: heads, along: memories, spot_checks: 0}}
"""
    plan = simulated(text=text)

    def outcome_of(trial: Trial) -> Outcome:
        heads: Any = trial.axes["heads"]
        return completed(0.95 if heads >= trial.axes["memories"] else 0.5)

    _, ended, _ = drive(lambda: search_of(plan), outcome_of)
    where = [(t.axes["memories"], t.axes["heads"]) for t in ended]
    assert where == [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3)]


def test_lines_differ_in_every_other_axis() -> None:
    plan = simulated("model.layers=[1, 2]", "model.name=[standard, linear]", "seeds=[0]")
    rules = plan.grid.search
    assert isinstance(rules, Staircase)
    assert len(StaircaseSearch(plan, rules).stairs) == 4


def test_a_bill_holds_what_the_search_then_runs() -> None:
    plan = simulated("search={staircase: {speculate: false}}")
    rng = random.Random(0)
    ranges = bills(searching(plan), 1, TRIALS.concat([]))
    assert ranges["grid"].trials == 72
    spent = []
    for _ in range(40):
        minima = sorted(rng.choice([*WIDTHS, math.inf]) for _ in SIZES)
        _, ended, _ = drive(lambda: search_of(plan), surface(minima))
        spent.append(sum(trial.effort for trial in ended))
    names = ("least", "likely", "worst", "grid")
    least, likely, worst, whole = (ranges[name].train_flops or 0.0 for name in names)
    assert 0 < least <= min(spent) and max(spent) <= worst
    assert least < likely < worst <= whole


def handed_out(search: Search, count: int) -> list[Trial]:
    handed = [search.next() for _ in range(count)]
    trials = [trial for trial in handed if trial is not None]
    assert len(trials) == count
    return trials


def searching(plan: Plan) -> Search:
    search = search_of(plan)
    search.learn({}, {trial.id for trial in plan.trials})
    return search
