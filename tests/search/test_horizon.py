"""When a cell that fails is forecast to go on failing, and what both searches train for longer
because of it. Their answers are the same whatever the order of results, the slots, kills and
failures. Covers `search/horizon.py` and `search/stairs.py`."""

import math
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulated import drive, settling, truth

from sweepd.grid.options import Goal, PassRule, Settle
from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.search.base import Allowance, Search
from sweepd.search.estimate import bills
from sweepd.search.horizon import (
    BEST_RATES,
    AtRate,
    Final,
    Forecast,
    Runs,
    best_rates,
    edge,
    forecast,
    last_doubling,
)
from sweepd.search.seeds import Outcome
from sweepd.search.staircase import search_of
from sweepd.search.stairs import LineAnswer
from sweepd.store.schema import TRIALS

GOAL = Goal("acc", ">", 0.9)
SETTLE = Settle(factor=4, least=2000, most=16_000)
SIZES, WIDTHS, RATES = (4, 6, 8), (4, 8, 16, 32), (1e-3, 3e-3, 1e-2)


def planned(search: str, *sets: str) -> Plan:
    return settling(f"search={search}", *sets)


hidden = partial(truth, noise=0.004, total=4096)
"""What is true, and hardly hidden by chance."""


def runs(*seeds: dict[int, float], total: int = 4096) -> Runs:
    return {
        seed: {steps: Final(score, total) for steps, score in scores.items()}
        for seed, scores in enumerate(seeds)
    }


def stands(
    rates: Sequence[Runs], goal: Goal, rule: PassRule, settle: Settle, budget: int
) -> Forecast:
    """`forecast` of what ended at rates that rise."""
    at_rates = [AtRate(10.0**i, runs) for i, runs in enumerate(rates)]
    return forecast(at_rates, goal, rule, settle, budget)


FLAT = {1000: 0.50, 2000: 0.502, 4000: 0.503}
RISING = {1000: 0.66, 2000: 0.75, 4000: 0.83}
GROWING = {1000: 0.50, 2000: 0.52, 4000: 0.57}
PASSING = {1000: 0.92}


@pytest.mark.parametrize(
    ("seeds", "kind", "rule"),
    [(*case, "median") for case in [
        ((FLAT, FLAT, FLAT), "holds"),
        ((RISING, RISING, RISING), "moving"),
        ((GROWING, GROWING, GROWING), "moving"),
        ((FLAT, FLAT), "untested"),  # two seeds say too little
        ((FLAT, FLAT, {1000: 0.5}), "untested"),  # one of them was not trained for longer
        ((FLAT, FLAT, PASSING), "moving"),  # the seeds disagree
        (({1000: 0.58, 2000: 0.72, 4000: 0.79},) * 3, "holds"),  # the gains fall fast
        (({2000: 0.72, 4000: 0.79},) * 3, "moving"),  # which two scores cannot show
        (({1000: 0.5, 2000: 0.5},) * 3, "untested"),  # 4 times the passing budget are needed
        (({1000: 0.88, 2000: 0.89, 4000: 0.892},) * 3, "moving"),  # within the evaluation error
    ]] + [
        # Where all seeds must pass, those that do decide nothing.
        ((FLAT, PASSING, PASSING), "holds", "all"),
        ((FLAT, PASSING, PASSING), "moving", "any"),
    ],
)  # fmt: skip
def test_when_a_cell_is_forecast_to_fail(
    seeds: tuple[dict[int, float], ...], kind: str, rule: PassRule
) -> None:
    assert stands([runs(*seeds)], GOAL, rule, SETTLE, 1000).kind == kind


def test_a_pass_that_took_too_long_for_the_largest_budget_settles_nothing() -> None:
    found = stands([runs(FLAT, FLAT, FLAT)], GOAL, "median", SETTLE, 8000)
    assert found.kind == "moving" and "32000" in found.reason


LOW, FLATS, BEHIND = (
    runs(scores, scores, scores)
    for scores in (
        {steps: score - 0.1 for steps, score in FLAT.items()},
        FLAT,
        {1000: 0.45, 2000: 0.6, 4000: 0.78},
    )
)
HOPELESS = runs(*[dict.fromkeys((1000, 2000, 4000), 0.0)] * 3)
ONCE, WORST = runs(*[{1000: 0.0}] * 3), runs(*[{1000: 0.1}] * 3)


@pytest.mark.parametrize(
    ("rates", "kind"),
    [
        ([LOW, FLATS], "untested"),  # the best rate is at the edge
        ([LOW, FLATS, LOW], "holds"),
        ([HOPELESS] * 3, "holds"),  # a width that has accuracy 0 at every rate must settle
        ([ONCE, HOPELESS, HOPELESS, ONCE], "holds"),
        ([HOPELESS] * 2, "untested"),
        ([WORST, FLATS, BEHIND], "moving"),  # the second best rate must stand still too
    ],
)
def test_which_rates_a_forecast_rests_on(rates: list[Runs], kind: str) -> None:
    assert stands(rates, GOAL, "median", SETTLE, 1000).kind == kind


@pytest.mark.parametrize(("edge_scores", "kind"), [(0.005, "holds"), (0.1, "untested")])
def test_an_edge_must_lead_by_more_than_chance(edge_scores: float, kind: str) -> None:
    """If every rate only guesses, the seeds alone decide which rate scores best."""
    steps = (1000, 2000, 4000)
    inside = runs(*[dict.fromkeys(steps, score) for score in (0.24, 0.25, 0.26)])
    at_edge = runs(*[dict.fromkeys(steps, score + edge_scores) for score in (0.24, 0.25, 0.26)])
    found = stands([at_edge, inside, inside], GOAL, "median", SETTLE, 1000)
    assert found.kind == kind
    first, second = best_rates([AtRate(1.0, at_edge), AtRate(2.0, inside)], GOAL, "median")
    assert {first.peak_lr, second.peak_lr} == {1.0, 2.0}


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=3, max_size=6))
def test_the_best_rates_score_best_and_lie_inside_where_they_may(scores: list[float]) -> None:
    rates = [AtRate(10.0**i, runs({1000: score})) for i, score in enumerate(scores)]
    first, second = best_rates(rates, GOAL, "median")
    of = {rate.peak_lr: score for rate, score in zip(rates, scores, strict=True)}
    assert [of[first.peak_lr], of[second.peak_lr]] == sorted(scores, reverse=True)[:2]
    assert bool(edge(rates, first)) == (max(scores) > max(scores[1:-1]))


SLOWER = {1000: 0.66, 2000: 0.77, 4000: 0.825}


@pytest.mark.parametrize(
    ("lead", "others", "kind"),
    [
        (SLOWER, {1000: 0.66}, "untested"),
        (SLOWER, SLOWER, "holds"),  # three seeds say more than one
        ({**SLOWER, 8000: 0.86}, {**SLOWER, 8000: 0.86}, "moving"),
        ({s: score - 0.1 for s, score in SLOWER.items()}, {1000: 0.56}, "holds"),  # further away
        ({1000: 0.66, 2000: 0.80, 4000: 0.80}, {1000: 0.66}, "holds"),  # it has a forecast alone
    ],
)
def test_of_a_second_rate_that_comes_nearer_to_the_goal_one_seed_says_too_little(
    lead: dict[int, float], others: dict[int, float], kind: str
) -> None:
    """So a real row was judged too early (results/horizon)."""
    hopeless = runs(*[{1000: 0.1}] * 3)
    best = runs(*[{1000: 0.72, 2000: 0.725, 4000: 0.727}] * 3, total=1024)
    rates = [hopeless, best, runs(others, lead, others, total=1024), hopeless]
    found = stands(rates, GOAL, "median", SETTLE, 1000)
    assert found.kind == kind
    assert kind != "untested" or "second best rate comes nearer" in found.reason


def test_losses_fall() -> None:
    flat, falling = {s: Final(0.5) for s in FLAT}, {s: Final(800 / s) for s in FLAT}
    for losses, kind in ((flat, "holds"), (falling, "moving")):
        seeds = dict.fromkeys(range(3), losses)
        assert stands([seeds], Goal("loss", "<", 0.1), "median", SETTLE, 1000).kind == kind


@given(
    st.lists(st.floats(0.1, 0.85), min_size=3, max_size=5),
    st.floats(0, 0.3),
    st.integers(64, 10_000),
)
def test_more_that_is_missing_and_more_answers_never_unsettle(
    scores: list[float], gain: float, total: int
) -> None:
    """A goal further away, or the same scores on a larger sample, leave a forecast standing."""
    seeds = [{1000: s - gain / 2, 2000: s - gain / 10, 4000: s} for s in scores]
    found = last_doubling(runs(*seeds, total=total), GOAL, "median")
    if found is None:
        return
    further = last_doubling(runs(*seeds, total=total), Goal("acc", ">", 0.95), "median")
    surer = last_doubling(runs(*seeds, total=4 * total), GOAL, "median")
    assert further and surer
    if found.holds_to:
        assert further.holds_to and surer.holds_to


def rows(plan: Plan, ledger: dict[str, Outcome]) -> dict[float, tuple[float | None, int, str]]:
    """For each size: the least d that passes, at which budget, and its forecast."""
    found = answers(plan, ledger)
    return {size: (at.value, at.budget, mark.kind) for size, (at, mark) in found.items()}


def answers(plan: Plan, ledger: dict[str, Outcome]) -> dict[float, tuple[LineAnswer, Forecast]]:
    [stair] = search_of(planned("staircase", *_sets(plan))).stairs
    settle = plan.grid.settle
    assert settle is not None
    passes = {at: stair.passes(at, ledger, ()) for at in stair.cells}
    known = {at: found for at, found in passes.items() if found is not None}
    return {
        size: (at, stair.forecast(at, settle, ledger))
        for size, at in stair.answers(known, ledger, ()).items()
    }


def _sets(plan: Plan) -> tuple[str, ...]:
    return ("tune=[train.lr]", f"train.lr={list(RATES)}") if plan.grid.tune else ()


@given(
    st.integers(0, 10_000),
    st.sampled_from(["grid", "staircase"]),
    st.booleans(),
    st.sampled_from([1, 8]),
    st.randoms(use_true_random=False),
)
@example(871, "grid", True, 8, random.Random(0))  # at 8000 steps one of three seeds fails
@settings(max_examples=12, derandomize=True)
def test_answers_do_not_depend_on_order_slots_restarts_and_failures(
    seed: int, search: str, tuned: bool, slots: int, order: random.Random
) -> None:
    sets = ("tune=[train.lr]", f"train.lr={list(RATES)}") if tuned else ()
    made, outcome_of = planned(search, *sets), hidden(seed)
    failed: set[str] = set()

    def failing_once(trial: Trial) -> Outcome:
        if trial.seed == 1 and trial.id not in failed:
            failed.add(trial.id)
            return Outcome("failed")
        return outcome_of(trial)

    calm, ended, _ = drive(lambda: search_of(made), outcome_of)
    wild, also, last = drive(lambda: search_of(made), failing_once, slots, order, 0.1)
    assert rows(made, calm) == rows(made, wild)
    assert len(ended) == len({trial.id for trial in ended}), "nothing runs twice"
    assert len(also) <= len({trial.id for trial in also}) + len(failed)
    assert not last.wanted()


@given(st.integers(0, 10_000))
@settings(max_examples=20, derandomize=True)
def test_a_rate_beyond_the_range_that_has_begun_is_run_until_it_is_decided(seed: int) -> None:
    """Otherwise a question would wait for the other seeds of this rate, which nobody runs."""
    made = planned("staircase", "tune=[train.lr]", "train.lr=[0.001, 0.003, 0.01]")

    def by_luck(trial: Trial) -> Outcome:
        """Every rate is as good as any other, and hopeless."""
        own = random.Random(f"{seed} {trial.seed} {trial.size} {trial.axes}")
        return Outcome("completed", own.uniform(0.2, 0.3), 4096)

    ledger, _, _ = drive(lambda: search_of(made), by_luck)
    begun = [
        ladder
        for stair in search_of(made).stairs
        for ladders in stair.ladders.values()
        for ladder in ladders
        if ladder.in_reserve and ladder.ended(ledger).runs
    ]
    assert not [ladder for ladder in begun if ladder.base.needed(ledger, ())]


@given(st.integers(0, 10_000))
@settings(max_examples=10, derandomize=True)
def test_only_cells_that_decide_are_trained_for_longer(seed: int) -> None:
    made = planned("staircase")
    ledger, ended, _ = drive(lambda: search_of(made), hidden(seed))
    longer: set[tuple[int, Any]] = {(t.size, t.axes["d"]) for t in ended if t.train.steps > 1000}
    least = {size: value for size, (value, *_) in rows(made, ledger).items()}
    first = {
        size: min((d for d in WIDTHS if passes_at_first(made, ledger, size, d)), default=math.inf)
        for size in SIZES
    }
    for size, d in longer:
        assert d < first[size] or first[size] == math.inf, "a cell that passes is not"
        value = least[size]
        below = [w for w in WIDTHS if value is not None and w < value]
        assert d >= max(below, default=0), "nor one that is further down"
    assert all(trial.train.steps <= 16_000 for trial in ended)


@given(st.integers(0, 10_000))
@settings(max_examples=10, derandomize=True)
def test_what_is_not_given_up_is_trained_up_to_the_largest_budget(seed: int) -> None:
    patient, hasty = planned("staircase", "settle.give_up=false"), planned("staircase")
    ledger, ended, last = drive(lambda: search_of(patient), hidden(seed))
    assert last.trained_on(give_up=False) == 0
    before, fewer, gave_up = drive(lambda: search_of(hasty), hidden(seed))
    assert (len(ended) > len(fewer)) == (gave_up.trained_on(give_up=False) > 0)
    at_first = answers(hasty, before)
    for size, (_, mark) in answers(patient, ledger).items():
        if mark.kind == "moving" and mark.last_doubling and not mark.last_doubling.close:
            assert mark.last_doubling.steps == 16_000
        assert mark.kind == "holds" or at_first[size][1].kind != "holds"


@pytest.mark.parametrize(("most", "give_up"), [(0.95, True), (0.5, True), (0.5, False)])
def test_where_nothing_passes_larger_sizes_wait_for_the_smallest(
    most: float, give_up: bool
) -> None:
    made = planned("staircase", f"settle.give_up={str(give_up).lower()}")

    def outcome_of(trial: Trial) -> Outcome:
        """At the smallest size d = 32 reaches `most` with 4000 steps. Nothing else passes .5."""
        late = trial.size == 4 and trial.axes["d"] == 32 and trial.train.steps >= 4000
        return Outcome("completed", most if late else 0.5, 4096)

    _, ended, _ = drive(lambda: search_of(made), outcome_of)
    longer = {trial.size for trial in ended if trial.axes["d"] == 32 and trial.train.steps > 1000}
    passes = most > 0.9
    assert longer == ({4, 6} if passes else {4} if give_up else {4, 6, 8})


@pytest.mark.parametrize(("widths", "kind"), [([4, 512], "holds"), ([4, 8], "moving")])
def test_a_cell_is_trained_on_only_where_no_trial_is_dear(widths: list[int], kind: str) -> None:
    """d = 4 has a forecast with 16,000 steps. Beside d = 512 these cost little."""
    made = planned("staircase", f"model.d={widths}", "settle.share=0.1")
    scores = {1000: 0.45, 2000: 0.57, 4000: 0.72, 8000: 0.84, 16_000: 0.85}

    def outcome_of(trial: Trial) -> Outcome:
        score = scores[trial.train.steps] if trial.axes["d"] == 4 else 0.95
        return Outcome("completed", score, 4096)

    ledger, ended, search = drive(lambda: search_of(made), outcome_of)
    [stair], settle = search.stairs, made.grid.settle
    assert settle is not None
    at = stair.answers({(4, d): d > 4 for d in widths}, ledger, ())[4]
    assert stair.forecast(at, settle, ledger).kind == kind
    assert max(trial.train.steps for trial in ended) == (16_000 if kind == "holds" else 8000)


def passes_at_first(made: Plan, ledger: dict[str, Outcome], size: int, d: int) -> bool:
    scores = [
        ledger[t.id].score
        for t in made.trials
        if (t.size, t.axes["d"], t.train.steps) == (size, d, 1000) and t.id in ledger
    ]
    return sum(score > 0.9 for score in scores if score is not None) >= 2


@pytest.mark.parametrize("spent", [{"flops": 0}, {"seconds": 0}])
@pytest.mark.parametrize("kind", ["staircase", "grid"])
def test_settling_adds_only_what_is_needed_and_an_allowance_ends_nothing_else(
    kind: str, spent: dict[str, float]
) -> None:
    made, outcome_of = planned(kind), hidden(3)
    without, _, _ = drive(lambda: search_of(planned(kind, "settle=off")), outcome_of)
    _, added, _ = drive(lambda: search_of(made), outcome_of, known=without)
    assert added and not {trial.id for trial in added} & without.keys()

    def poor() -> Search:
        search = search_of(made)
        search.allowance = Allowance(**spent)
        return search

    ledger, _, search = drive(poor, outcome_of)
    assert ledger.keys() == without.keys() and not search.wanted() and search.trained_on()


def test_every_line_is_answered_before_one_is_settled() -> None:
    """On one slot, with a line for each of two models."""
    models = "model.name=[standard, linear]"
    without, _, _ = drive(lambda: search_of(planned("staircase", models, "settle=off")), hidden(3))
    ledger, ended, _ = drive(lambda: search_of(planned("staircase", models)), hidden(3))
    assert {trial.id for trial in ended[: len(without)]} == without.keys() < ledger.keys()


def test_a_pass_at_the_best_of_several_rates_is_confirmed_on_a_fresh_seed() -> None:
    made = planned("staircase", "tune=[train.lr]", f"train.lr={list(RATES)}", "model.d=32")
    lucky = {(trial.id) for trial in made.planned if trial.seed < 2 and trial.size == 4}

    def outcome_of(trial: Trial) -> Outcome:
        return Outcome("completed", 0.95 if trial.id in lucky else 0.3, 4096)

    _, ended, search = drive(lambda: search_of(made), outcome_of)
    assert any(trial.seed == 3 for trial in ended), "a seed that the grid does not name"
    [stair] = search.stairs
    ledger = search.outcomes
    fresh = [t for t in ended if t.seed == 3 and t.size == 4 and t.train.steps == 1000]
    assert {t.axes["lr"] for t in fresh} == set(RATES), "each rate is refused in turn"
    assert not stair.passes((4, 32), ledger, ())


@pytest.mark.parametrize(
    ("failing", "run", "passes"),
    [
        ((), (3, 4), True),
        ((3,), (3, 4, 5, 6), True),  # three pass and one fails
        ((3, 5), (3, 4, 5, 6, 7, 8), True),
        ((3, 5, 6), (3, 4, 5, 6), True),  # of seven four pass, and nothing can confirm that
        ((3, 4), (3, 4, 5, 6, 7, 8), True),
        ((2, 3), (3,), False),  # of four two pass, and the median is .725
    ],
)
def test_fresh_seeds_confirm_once_two_more_pass_than_fail(
    failing: tuple[int, ...], run: tuple[int, ...], passes: bool
) -> None:
    """d = 32 passes with 2000 steps."""
    made = planned("staircase", "model.d=32", "task.n=4")

    def outcome_of(trial: Trial) -> Outcome:
        passed = trial.train.steps > 1000 and trial.seed not in failing
        return Outcome("completed", 0.95 if passed else 0.5, 4096)

    ledger, ended, search = drive(lambda: search_of(made), outcome_of)
    [stair] = search.stairs
    assert {t.seed for t in ended if t.seed > 2 and t.train.steps == 2000} == {*run}
    assert stair.passes((4, 32), ledger, ()) is passes
    again = {t.seed for t in ended if t.train.steps > 2000}
    assert again == (set() if passes else {2, 3}), "those that failed are trained for longer"


def test_where_all_seeds_must_pass_one_fresh_seed_that_fails_counts_against_them() -> None:
    """It is trained for longer like any seed that fails, until it passes or is forecast to fail."""

    def found(enough: int) -> tuple[set[tuple[int, int]], bool | None]:
        made = planned("staircase", "model.d=32", "task.n=4", "pass=all")

        def outcome_of(trial: Trial) -> Outcome:
            passed = trial.train.steps > (enough if trial.seed == 3 else 1000)
            return Outcome("completed", 0.95 if passed else 0.6, 4096)

        ledger, ended, search = drive(lambda: search_of(made), outcome_of)
        fresh = {(trial.seed, trial.train.steps) for trial in ended if trial.seed > 2}
        return fresh, search.stairs[0].passes((4, 32), ledger, ())

    assert found(8000) == ({(3, 2000), (3, 4000), (3, 8000)}, False)
    assert found(2000) == ({(3, 2000), (3, 4000), (4, 4000)}, True)


def test_the_edge_of_the_rates_is_widened() -> None:
    """Where the largest rate is the best one, larger ones that the grid does not name are tried."""
    made = planned("staircase", "tune=[train.lr]", "train.lr=[1e-4, 3e-4, 1e-3]", "model.d=[4, 8]")

    def outcome_of(trial: Trial) -> Outcome:
        away = abs(math.log(trial.train.peak_lr(32) / 3e-3))
        return Outcome("completed", 0.5 - 0.05 * away, 100_000)

    _, ended, _ = drive(lambda: search_of(made), outcome_of)
    rates: set[Any] = {trial.axes["lr"] for trial in ended}
    assert max(rates) == pytest.approx(1e-2, rel=0.2) and min(rates) == 1e-4
    longest = [trial for trial in ended if trial.train.steps >= 4000]
    assert {trial.axes["lr"] for trial in longest} == {0.00333333, 0.001}


def test_one_seed_that_diverges_does_not_hide_the_best_rate() -> None:
    """By the median, the rate .01 is just short of the goal and still gains."""
    goal = Goal.parse("loss < 0.1")
    falling = {1000: Final(0.3), 4000: Final(0.12)}
    diverged = {steps: Final(math.inf) for steps in falling}
    chance = {1000: Final(0.9), 4000: Final(0.9)}
    rates = [
        AtRate(0.001, dict.fromkeys(range(3), chance)),
        AtRate(0.01, {0: diverged, 1: falling, 2: falling}),
        AtRate(0.02, dict.fromkeys(range(3), chance)),
    ]
    assert best_rates(rates, goal, "median")[0] is rates[1]
    mark = forecast(rates, goal, "median", Settle(least=1000), 1000)
    assert mark.kind == "moving"


def test_settling_costs_about_the_most_that_is_told() -> None:
    made, outcome_of = planned("staircase"), hidden(5)
    search = search_of(made)
    search.learn({}, ())
    priced = bills(search, 1, TRIALS.concat([]))
    most = priced["settle_most"].train_flops
    assert most
    ledger, _, _ = drive(lambda: search_of(made), outcome_of)
    search.learn(ledger, ())
    spent = sum(trial.effort for trial in made.trials if trial.on_demand and trial.id in ledger)
    assert spent <= 2 * most


def test_nothing_is_priced_twice() -> None:
    """In each row settling runs one cell with three seeds for 2000, 4000, 8000 and 16,000 steps.
    The grid runs all of them for 1000 steps before."""
    for search in ("grid", "staircase"):
        found = search_of(planned(search))
        found.learn({}, ())
        priced = bills(found, 1, TRIALS.concat([]))
        assert priced["grid"].trials == 36
        assert search == "grid" or priced["worst"].trials <= 36
        assert priced["settle_most"].trials == 3 * 4 * len(SIZES)


def test_fresh_seeds_are_priced_where_rates_compete() -> None:
    """Each row's value is confirmed with two of them, beside what is trained for longer."""
    found = search_of(planned("staircase", "train.lr=[1e-3, 3e-3, 1e-2]", "tune=[train.lr]"))
    found.learn({}, ())
    priced = bills(found, 1, TRIALS.concat([]))["settle_most"].trials
    assert priced == (3 * 4 * BEST_RATES + 2) * len(SIZES)
