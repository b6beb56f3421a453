"""The benchmark that measures settled answers: what it charges for extending a run, and how it
counts. It must tell a rule that waits from one that guesses, and it must read the real search. The
rule in these tests is a naive one: a cell stands still if its last doubling of the budget gained
less than some slack."""

from __future__ import annotations

import itertools
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

from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.search.base import GridSearch, Search
from sweepd.search.seeds import CellSeeds, cells_of
from sweepd.search.staircase import search_of

MOST, FACTOR, LEAST = 32_000, 4, 2000


class Naive(Search):
    """Size by size: the least d that passes at the base, then the next smaller one, longer and
    longer."""

    def __init__(self, plan: Plan, slack: float) -> None:
        super().__init__(plan)
        self.slack = slack
        self.cells: dict[int, dict[Any, dict[int, list[CellSeeds]]]] = {}
        for seeds in cells_of(plan):
            trial = seeds.trials[0]
            widths = self.cells.setdefault(trial.size, {})
            rungs = widths.setdefault(trial.axes["d"], {})
            rungs.setdefault(trial.train.steps, []).append(seeds)

    def cell(self, size: int, d: int, steps: int) -> tuple[bool | None, float | None, list[Trial]]:
        """Whether it passes, its best pooled score, and the trials that it lacks."""
        rates = self.cells[size][d][steps]
        lacking = [t for seeds in rates for t in seeds.trials if not self.over(t)]
        if lacking:
            return None, None, lacking
        scores = [sorted(self.score(t) for t in seeds.trials) for seeds in rates]
        at = {"median": 1, "all": 0, "any": 2}[self.plan.grid.pass_rule]
        best = max(each[at] for each in scores)
        return best > 0.9, best, []

    def score(self, trial: Trial) -> float:
        score = self.outcomes[trial.id].score
        assert score is not None
        return score

    def state(self, size: int) -> tuple[Answer, list[Trial]]:
        """What a size says, and the trials that it needs next."""
        widths = sorted(self.cells[size])
        rungs = sorted(self.cells[size][widths[0]])
        at, passed = None, rungs[0]
        for i, d in enumerate(widths):
            passing, _, lacking = self.cell(size, d, rungs[0])
            if lacking:
                return Answer(None, "untested"), lacking
            if passing:
                at = i
                break
        value = len(widths) if at is None else at
        while value:
            last: float | None = None
            for steps in rungs:
                passing, score, lacking = self.cell(size, widths[value - 1], steps)
                if lacking:
                    return Answer(None, "untested"), lacking
                if passing:
                    value, passed = value - 1, steps
                    break
                long = steps >= max(FACTOR * passed, LEAST)
                assert score is not None
                if long and last is not None and score - last < self.slack:
                    return Answer((*widths, None)[value], "yes"), []
                last = score
            else:
                return Answer((*widths, None)[value], "moving"), []
        return Answer(widths[0], "untested"), []

    def wanted(self) -> list[Trial]:
        return [trial for size in self.cells for trial in self.state(size)[1]]

    def choose(self) -> Trial | None:
        return next((trial for trial in self.wanted() if self.free(trial)), None)

    def update(self, trial: Trial) -> None: ...

    def rebuild(self) -> None: ...

    def answers(self) -> Answers:
        return {size: self.state(size)[0] for size in self.cells}


def rungs(base: int) -> tuple[str, ...]:
    steps = list(itertools.takewhile(lambda s: s < MOST, (base * 2**k for k in range(9))))
    return (f"train.steps={[*steps, MOST]}",)


def naive_answers(search: Search) -> Answers:
    assert isinstance(search, Naive)
    return search.answers()


def naive(slack: float) -> Method:
    return Method(rungs, lambda plan: Naive(plan, slack), naive_answers)


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
        say: Answers = {size: Answer(d, "yes") for size, d in told.items()}
        tally = tallied([truth], told_as(say))
        total = together(tally.kinds.values())
        assert (total.rows, total.yes) == (len(truth.sizes), len(truth.sizes))
        assert total.right == (total.rows if right else 0)
        assert len(tally.wrong) == total.rows - total.right
        assert total.here == sum(d is not None and d > truth.widths[0] for d in least.values())
        assert tally.costs == [1.0]


def test_a_rule_that_waits_is_right_more_often_than_one_that_guesses() -> None:
    same: dict[str, Any] = {
        "sizes": (4, 6),
        "widths": WIDTHS[:5],
        "rates": (RATE,),
        "base": 1000,
        "rule": "median",
    }
    truths = [replace(draw(seed), **same, edges=draw(seed).edges[:2]) for seed in range(40)]
    waits, guesses = (
        together(tallied(truths, naive(slack)).kinds.values()) for slack in (0.005, 1)
    )
    assert guesses.yes > waits.yes > 0
    assert guesses.right / guesses.yes < waits.right / waits.yes


@pytest.mark.parametrize("looks", LOOKS)
def test_cells_by_chance_pass_as_often_as_they_must(looks: str) -> None:
    """Without settling, a rate passes if two of its three seeds do, and a cell if one of its rates
    does."""
    base, count = known(lambda search: {4: at_base(search)}), 300
    for chance, rates in ((0.2, 1), (0.2, 5), (0.95, 1)):
        one = 3 * chance**2 * (1 - chance) + chance**3
        found = passes(base, chance, rates, LOOKS[looks], count) / count
        assert found == pytest.approx(1 - (1 - one) ** rates, abs=0.09)


def at_base(search: Search) -> Answer:
    """Of one size, the least d of which some cell passes."""
    least: list[Any] = [
        seeds.trials[0].axes["d"]
        for seeds in cells_of(search.plan)
        if seeds.passes(search.outcomes)
    ]
    return Answer(min(least, default=None), "untested")


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
