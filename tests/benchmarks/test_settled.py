"""The benchmark that measures settled answers: what it charges for extending a run, and how it
counts. It must tell a rule that waits from one that guesses, and it must read the real search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import settled
from curves import RATE, WIDTHS, draw
from settled import (
    COIN_WIDTHS,
    LOOKS,
    REAL,
    Answer,
    Answers,
    Coins,
    Method,
    passes,
    planned,
    run,
    tallied,
    together,
)

from sweepd.search.base import GridSearch, Search
from sweepd.search.seeds import cells_of
from sweepd.search.staircase import search_of


def at_base(search: Search) -> Answers:
    """Of each size, the least d of which some cell passes with the least budget."""
    base = min(trial.train.steps for trial in search.plan.trials)
    least: dict[float, Any] = {trial.size: None for trial in search.plan.trials}
    for seeds in cells_of(search.plan):
        trial = seeds.trials[0]
        d: Any = trial.axes["d"]
        if trial.train.steps == base and seeds.passes(search.outcomes):
            least[trial.size] = min(d, least[trial.size] or d)
    return {size: Answer(d, "yes") for size, d in least.items()}


def told_as(answers: Answers) -> Method:
    return known(lambda search: answers)


def known(say: Callable[[Search], Answers]) -> Method:
    """A method that runs the staircase and says what it is told."""
    return Method(lambda base: (), search_of, say)


def test_an_extension_costs_what_lies_behind_the_kept_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settled, "SLOTS", 1)
    plan = planned((4,), (8,), (3e-3,), 1000, "median", ("train.steps=[1000,2000,4000,32000]",))
    base = min(trial.effort for trial in plan.trials)
    # a decay of .2: 2000 steps go on from 800, 4000 from 1600, 32000 from 3200
    assert sum(run(GridSearch(plan), draw(0)).values()) == pytest.approx(
        3 * (1 + 1.2 + 2.4 + 28.8) * base
    )


def test_nothing_is_charged_less_while_the_shorter_run_still_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(settled, "SLOTS", 6)
    plan = planned((4,), (8,), (3e-3,), 1000, "median", ("train.steps=[1000,2000]",))
    base = min(trial.effort for trial in plan.trials)
    assert sum(run(GridSearch(plan), draw(0)).values()) == pytest.approx(3 * (1 + 2) * base)


@pytest.mark.parametrize("right", [True, False])
def test_who_knows_the_truth_is_right_and_who_knows_better_is_not(right: bool) -> None:
    for truth in map(draw, range(6)):
        least = {size: truth.row(size).least for size in truth.sizes}
        told = least if right else dict.fromkeys(truth.sizes, 4)
        tally = tallied([truth], told_as({size: Answer(d, "yes") for size, d in told.items()}))
        total = together(tally.kinds.values())
        assert (total.rows, total.yes) == (len(truth.sizes), len(truth.sizes))
        assert total.right == (total.rows if right else 0)
        assert len(tally.wrong) == total.rows - total.right
        assert total.here == sum(d is not None and d > truth.widths[0] for d in least.values())
        assert tally.costs == [1.0]


def test_a_rule_that_waits_is_right_more_often_than_one_that_guesses() -> None:
    """The real rule trains on where a d fails. The guess is what passes at once."""
    same: dict[str, Any] = {
        "sizes": (4, 6), "widths": WIDTHS[:5], "rates": (RATE,), "base": 1000, "rule": "median"
    }  # fmt: skip
    truths = [replace(draw(seed), **same, edges=draw(seed).edges[:2]) for seed in range(40)]
    waits, guesses = (
        together(tallied(truths, method).kinds.values())
        for method in (REAL, replace(REAL, answers=at_base))
    )
    assert guesses.yes > waits.yes > 0
    assert guesses.right / guesses.yes < waits.right / waits.yes


@pytest.mark.parametrize("looks", LOOKS)
def test_cells_by_chance_pass_as_often_as_they_must(looks: str) -> None:
    """Without settling, a rate passes if two of its three seeds do, and a cell if one of its rates
    does."""
    base, count = known(at_base), 300
    for chance, rates in ((0.2, 1), (0.2, 5), (0.95, 1)):
        one = 3 * chance**2 * (1 - chance) + chance**3
        found = passes(base, chance, rates, LOOKS[looks], count) / count
        assert found == pytest.approx(1 - (1 - one) ** rates, abs=0.09)


def test_the_real_search_is_read_as_it_ends() -> None:
    """One size and two widths. The lesser width never passes, or passes at once."""
    for chance, settled_as in ((0.0, "yes"), (1.0, "smallest")):
        method = REAL
        search = method.search(
            planned((4,), COIN_WIDTHS, (3e-3,), 1000, "median", method.sets(1000))
        )
        spent = sum(run(search, Coins(0, chance, False)).values())
        [answer] = method.answers(search).values()
        assert answer == (COIN_WIDTHS[chance == 0], settled_as)
        base = {t.axes["d"]: t.effort for t in search.plan.trials if t.train.steps == 1000}
        lesser = 3 * (1 + 1.2 + 2.4) if chance == 0 else 0
        assert spent >= lesser * base[8]


@pytest.mark.parametrize("seed", [0, 3, 8])
def test_what_could_settle_is_no_less_than_what_does(seed: int) -> None:
    """The real search, with all the time that it may want."""
    truth = draw(seed)
    search = search_of(settled.grid_of(truth, settled.PATIENT.sets(truth.base)))
    run(search, truth)
    answers, could = settled.answers_of(search), []
    for size in truth.sizes:
        least, answer = truth.row(size).least, answers[size]
        if least is not None and least > truth.widths[0]:
            could.append(size)
            if least == answer.value and answer.settled == "yes":
                assert settled.could_settle(truth, size)
    assert could
    late = replace(truth, base=16_000)  # four times as long is more than the largest budget
    assert not any(settled.could_settle(late, size) for size in could)
