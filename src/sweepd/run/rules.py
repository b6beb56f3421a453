"""The rules of a grid that give up on trials, as Ray Tune decides them: a plateau, and ASHA."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sweepd.grid.spec import Grid
from sweepd.grid.trials import Trial, competitors

if TYPE_CHECKING:
    from ray.tune.stopper import TrialPlateauStopper

MOST_STEPS = 2**31
"""The number of steps that is assumed where nobody says after how many steps a trial ends."""


class GivingUp:
    """Hears the checks of all trials of a launch. Ray is imported only where a grid has a rule."""

    def __init__(self, grid: Grid, trials: Sequence[Trial], in_full: Collection[str] = ()) -> None:
        """in_full: the ids of trials that no rule may give up on."""
        self.grid, self.in_full = grid, in_full
        self.mode = "min" if grid.goal.comparison.startswith("<") else "max"
        steps = {trial.train.steps for trial in trials}
        self.horizon = max(steps) if all(steps) else MOST_STEPS
        self.heard: dict[str, int] = {}
        """The step of each trial's latest check. A trial that is tried again repeats earlier
        checks, and these are skipped."""
        self.plateaus: dict[tuple[Any, ...], TrialPlateauStopper] = {}
        self.rungs: dict[tuple[Any, ...], Any] = {}
        """An AsyncHyperBandScheduler for each group of competitors."""

    def hear(self, trial: Trial, checks: Iterable[tuple[int, float | None]]) -> bool:
        """Returns whether a rule gives up on the trial at one of these checks, each a step and a
        value of the goal's metric, or None where the check did not measure it. All of them count
        for the trials that are compared with it."""
        given_up = [
            self.gives_up(trial, step, value) for step, value in checks if value is not None
        ]
        return any(given_up) and trial.id not in self.in_full

    def gives_up(self, trial: Trial, step: int, value: float) -> bool:
        """Returns whether a rule gives up on the trial at this check, a `value` of the metric."""
        if step <= self.heard.get(trial.id, 0):
            return False
        self.heard[trial.id] = step
        stop, evaluate, given_up = trial.values.stop, trial.values.evaluate, False
        if rule := stop.plateau:
            from ray.tune.stopper import TrialPlateauStopper

            every = evaluate.check_every if evaluate else 1
            if (rule, every) not in self.plateaus:
                self.plateaus[rule, every] = TrialPlateauStopper(
                    "value",
                    rule.std,
                    num_results=rule.checks,
                    grace_period=math.ceil(rule.grace / every),
                )
            given_up = bool(self.plateaus[rule, every](trial.id, {"value": value}))
        if asha := stop.asha:
            from ray.tune.schedulers import AsyncHyperBandScheduler

            group = competitors(trial, self.grid.tune)
            if group not in self.rungs:
                self.rungs[group] = AsyncHyperBandScheduler(
                    time_attr="step",
                    metric="value",
                    mode=self.mode,
                    max_t=max(self.horizon, asha.grace),
                    grace_period=asha.grace,
                    reduction_factor=asha.reduction,
                    stop_last_trials=False,
                )
            rungs, nobody = self.rungs[group], None
            # By our id: a trial that is tried again is no new competitor.
            known_as = SimpleNamespace(trial_id=trial.id)
            rungs.on_trial_add(nobody, known_as)
            decision = rungs.on_trial_result(nobody, known_as, {"step": step, "value": value})
            given_up = given_up or decision == AsyncHyperBandScheduler.STOP
        return given_up
