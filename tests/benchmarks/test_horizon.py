"""The benchmarks that judge forecasts: what the simulated one charges for extending a run, how both
count, and that they read the real search and the real rule."""

from collections.abc import Callable
from typing import Any

import horizon
import horizon_simulated as simulated
import pytest
from curves import draw
from horizon_simulated import (
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
from sweepd.search.horizon import Final
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
    return {size: Answer(d) for size, d in least.items()}


def told_as(answers: Answers) -> Method:
    return known(lambda search: answers)


def known(say: Callable[[Search], Answers]) -> Method:
    """A method that runs the staircase and says what it is told."""
    return Method(lambda base: (), search_of, say)


def test_an_extension_costs_what_lies_behind_the_kept_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulated, "SLOTS", 1)
    plan = planned((4,), (8,), (3e-3,), 1000, "median", ("train.steps=[1000,2000,4000,32000]",))
    base = min(trial.effort for trial in plan.trials)
    # a decay of .2: 2000 steps go on from 800, 4000 from 1600, 32000 from 3200
    assert sum(run(GridSearch(plan), draw(0)).values()) == pytest.approx(
        3 * (1 + 1.2 + 2.4 + 28.8) * base
    )


def test_nothing_is_charged_less_while_the_shorter_run_still_trains(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(simulated, "SLOTS", 6)
    plan = planned((4,), (8,), (3e-3,), 1000, "median", ("train.steps=[1000,2000]",))
    base = min(trial.effort for trial in plan.trials)
    assert sum(run(GridSearch(plan), draw(0)).values()) == pytest.approx(3 * (1 + 2) * base)


@pytest.mark.parametrize("deciding", ["passes", "fails"])
def test_a_forecast_is_wrong_if_the_cell_passes_by_then(deciding: str) -> None:
    for truth in (truth for truth in map(draw, range(40)) if truth.family == "power"):
        ends = {size: truth.row(size).least for size in truth.sizes}
        last = truth.widths[-1]
        size = next((s for s, d in ends.items() if d == last), None)
        if size is None:
            continue
        # Of a d that passes in the end, no forecast of eternity holds; of one below it, every one.
        d = last if deciding == "passes" else truth.widths[-2]
        told: Answers = {
            s: Answer(None, d if s == size else None, 10**9, 4 * 10**9) for s in truth.sizes
        }
        tally = tallied([truth], told_as(told))
        total = together(tally.kinds.values())
        assert (total.rows, total.tried) == (len(truth.sizes), 1)
        assert total.reach == {2: 1, 4: 1}
        assert total.passed[4] == (deciding == "passes") == len(tally.wrong)
        assert tally.costs == [1.0]
        return
    raise AssertionError("no truth with a d that passes at the end of its widths")


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
    for chance, deciding, times in ((0.0, 8, 4), (1.0, None, 1)):
        search = REAL.search(planned((4,), COIN_WIDTHS, (3e-3,), 1000, "median", REAL.sets(1000)))
        spent = sum(run(search, Coins(0, chance, False)).values())
        [answer] = REAL.answers(search).values()
        assert (answer.value, answer.deciding) == (COIN_WIDTHS[chance == 0], deciding)
        assert answer.times == times
        base = {t.axes["d"]: t.effort for t in search.plan.trials if t.train.steps == 1000}
        lesser = 3 * (1 + 1.2 + 2.4) if chance == 0 else 0
        assert spent >= lesser * base[8]


def test_recorded_trials_are_seen_up_to_the_budget_alone() -> None:
    """A cell is flat up to 2000 steps, and passes with 8000."""
    scores = {500: 0.5, 1000: 0.5, 2000: 0.5, 4000: 0.5, 8000: 0.95}
    runs = {seed: {s: Final(at, 1024) for s, at in scores.items()} for seed in range(3)}
    one, later = horizon.judged(("lis",) * 6, runs)
    assert (later.steps, later.passes[2]) == (4000, True)
    assert (one.steps, one.times, dict(one.passes)) == (2000, 4, {2: False, 4: True, 8: True})
    assert one.wrong
    assert "1 of   1" in list(horizon.summary([one]))[1]
    assert list(horizon.listing([one]))[1].endswith("WRONG")
