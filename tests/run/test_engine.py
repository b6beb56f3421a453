"""The rules that give up on trials, as Ray Tune decides them. They are compared with their
definitions, on checks that come in any order or twice, and of several groups of competitors at
once. Covers `run/rules.py`."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.errors import EnvironmentFailure
from sweepd.grid.options import Goal
from sweepd.grid.plan import plan
from sweepd.grid.settings import Asha, Plateau, Stop
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.run import engine
from sweepd.run.rules import GivingUp

GRID = """
task: {name: lis, n: 4}
model: {name: standard, d: [8, 16], heads: 2}
train: {steps: 1000, lr: [1e-3, 1e-2]}
evaluate: {check_every: 50}
seeds: [0, 1]
tune: [train.lr]
"""


PLANNED = plan(parse_grid(GRID, "grid.yaml", [], Path()))


def rules(stop: Stop, goal: Goal = PLANNED.grid.goal) -> tuple[GivingUp, tuple[Trial, ...]]:
    trials = tuple(
        replace(trial, values=replace(trial.values, stop=stop)) for trial in PLANNED.trials
    )
    return GivingUp(PLANNED.grid.model_copy(update={"goal": goal}), trials), trials


VALUES = st.lists(st.sampled_from([0.0, 0.1, 0.11, 0.12, 0.5, 0.9]), min_size=1, max_size=20)


@given(VALUES, st.integers(1, 600), st.integers(2, 5), st.sampled_from([0.006, 0.05, 0.2]))
@settings(max_examples=60)
def test_a_plateau_is_a_small_spread_of_the_last_checks_after_the_grace(
    values: list[float], grace: int, checks: int, std: float
) -> None:
    judge, [trial, *_] = rules(Stop(plateau=Plateau(grace, std, checks)))
    for count in range(1, len(values) + 1):
        last = values[max(0, count - checks) : count]
        stands = count >= checks and count * 50 >= grace and bool(np.std(last) < std)
        assert judge.gives_up(trial, count * 50, values[count - 1]) is stands


ARRIVALS = st.lists(
    st.tuples(st.integers(0, 7), st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8])), max_size=60
)


@pytest.mark.parametrize("goal", [Goal("acc", ">", 0.9), Goal("loss", "<=", 0.1)], ids=str)
@given(ARRIVALS, st.integers(20, 300), st.sampled_from([2.0, 3.0, 4.0]))
@settings(max_examples=40)
def test_asha_keeps_the_best_share_of_a_rung(
    goal: Goal, arrivals: list[tuple[int, float]], grace: int, reduction: float
) -> None:
    """At its first check past a rung a trial must be among the best of those before it: of the
    same d and size, whatever their rate and seed."""
    judge, trials = rules(Stop(asha=Asha(grace, reduction)), goal)
    sign = -1 if goal.metric == "loss" else 1
    rungs: dict[Any, dict[int, float]] = defaultdict(dict)
    steps: dict[int, int] = defaultdict(int)
    for index, value in arrivals:
        trial = trials[index]
        steps[index] += 50
        passed = [grace * reduction**k for k in range(20) if grace * reduction**k <= steps[index]]
        behind = False
        if passed and index not in (rung := rungs[trial.axes["d"], passed[-1]]):
            cutoff = np.percentile(list(rung.values()), 100 * (1 - 1 / reduction)) if rung else -9
            behind = bool(sign * value < cutoff)
            rung[index] = sign * value
        assert judge.gives_up(trial, steps[index], value) is behind


def test_a_check_told_twice_counts_once() -> None:
    judge, [trial, *_] = rules(Stop(plateau=Plateau(50, checks=2)))
    told = [judge.gives_up(trial, step, 0.5) for step in (50, 50, 100, 50, 100, 150)]
    assert told == [False, False, True, False, False, True]


def test_nobody_is_given_up_without_a_rule() -> None:
    judge, trials = rules(Stop())
    for trial, other in pairwise(trials):
        assert not any(judge.gives_up(trial, step, 0.0) for step in range(50, 1000, 50))
        assert not judge.gives_up(other, 1000, 1.0)


def test_ray_that_does_not_start_is_the_environments_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray raises a bare Exception where one of its processes is too slow."""

    def init(**_: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr("ray.init", init)
    with pytest.raises(EnvironmentFailure, match="no Ray to join at there: The current node"):
        engine.start_ray("there", pytest.fail)
