"""Which trial to try next: what every search has in common, and the search of the whole grid."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sweepd.grid.options import Staircase
from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.search.seeds import CellSeeds, Outcome, Outcomes, cells_of
from sweepd.search.stairs import Stair, stairs

MOST_MOVES = 10
"""How often in a launch a trial may lose its node for free: one that takes nodes down must end."""


class Allowance:
    """What a launch may spend on trials that run on demand: training FLOPs, counted as if each
    began at its first step, and seconds from the first of them on."""

    def __init__(self, flops: float = math.inf, seconds: float = math.inf) -> None:
        self.flops, self.seconds = flops, seconds
        self.spent = 0.0
        self.began: float | None = None

    def spend(self, flops: float) -> None:
        self.spent += flops
        self.began = self.began or time.monotonic()

    @property
    def is_spent(self) -> bool:
        passed = 0.0 if self.began is None else time.monotonic() - self.began
        return self.spent >= self.flops or passed >= self.seconds


class Search(ABC):
    """Hands out trials until the grid's question is settled.

    `learn` tells it which trials have ended, and which of the others are its own to run. `next`
    hands out a trial, or None while there is none to run; `ended` takes how it came out. A failed
    trial is tried again, as often as the grid allows, and is abandoned then. An interrupted one,
    whose node was lost, is handed out again.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.in_full: Collection[str] = ()
        """ids of trials that count as ended only once they have run their whole budget"""
        self.outcomes: dict[str, Outcome] = {}
        self.owned: Collection[str] = ()
        self.in_flight: set[str] = set()
        self.abandoned: set[str] = set()
        self.tries: Counter[str] = Counter()
        self.moves: Counter[str] = Counter()
        self.allowance = Allowance()
        self.stairs: Sequence[Stair] = ()
        """the lines of the grid, for searches that walk or settle them"""

    def learn(self, outcomes: Outcomes, owned: Collection[str]) -> None:
        """Start over from what is known; nothing runs now."""
        self.outcomes = {
            id_: outcome
            for id_, outcome in outcomes.items()
            if outcome.status != "stopped" or id_ not in self.in_full
        }
        self.owned, self.in_flight = owned, set()
        self.rebuild()

    def next(self) -> Trial | None:
        trial = self.choose()
        if trial:
            self.in_flight.add(trial.id)
            self.tries[trial.id] += 1
            if trial.on_demand:
                self.allowance.spend(trial.train_flops or 0.0)
            self.update(trial)
        return trial

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        self.in_flight.remove(trial.id)
        if outcome.status == "interrupted":
            self.moves[trial.id] += 1
        elif outcome.status != "failed":
            self.outcomes[trial.id] = outcome
        elif self.tries[trial.id] - self.moves[trial.id] > self.plan.grid.retries:
            self.abandoned.add(trial.id)
        self.update(trial)

    @property
    def finished(self) -> bool:
        """Whether nothing is in flight and nothing can be handed out."""
        return not self.in_flight and self.choose() is None

    def free(self, trial: Trial) -> bool:
        """Whether the trial can be handed out."""
        return self.affordable(trial) and trial.id in self.owned and not self.taken(trial)

    def affordable(self, trial: Trial) -> bool:
        """Whether the allowance lasts for the trial. It is asked of those on demand alone."""
        return not (trial.on_demand and self.allowance.is_spent)

    def over(self, trial: Trial) -> bool:
        """Whether the trial has ended or was abandoned."""
        return trial.id in self.outcomes or trial.id in self.abandoned

    def taken(self, trial: Trial) -> bool:
        """Whether the trial has ended, was abandoned or is in flight."""
        return self.over(trial) or trial.id in self.in_flight

    @abstractmethod
    def wanted(self) -> list[Trial]:
        """Trials that have not ended and are needed now, whoever runs them."""

    def tally(self) -> Mapping[str, int]:
        """How many cells were tried for what, where a search has several reasons."""
        return {}

    @abstractmethod
    def choose(self) -> Trial | None:
        """What to hand out next, if anything."""

    @abstractmethod
    def update(self, trial: Trial) -> None:
        """Something has changed about this trial."""

    @abstractmethod
    def rebuild(self) -> None:
        """Everything may have changed."""


class GridSearch(Search):
    """Every cell, seed by seed, and further seeds for close calls; failed trials come last.

    Once all of them have ended, what settles the answers, if the grid asks for that.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.cells = [cell for cell in cells_of(plan) if not cell.trials[0].on_demand]
        self.cell_of = {trial.id: cell for cell in self.cells for trial in cell.trials}
        self.waiting: dict[str, Trial] = {}
        if plan.grid.settle:
            self.stairs = list(stairs(plan, Staircase()))
        self.longer: list[Trial] | None = None
        """trials that would settle the answers; None: nobody asked since something changed"""

    def wanted(self) -> list[Trial]:
        return list(self.waiting.values()) or list(filter(self.affordable, self.settling()))

    def choose(self) -> Trial | None:
        if self.waiting:
            return next(filter(self.free, self.waiting.values()), None)
        ready = filter(self.free, self.settling())
        return min(ready, key=lambda trial: trial.effort, default=None)

    def settling(self) -> list[Trial]:
        if self.longer is None:
            self.longer = [
                trial
                for stair in self.stairs
                for trial in stair.settling(self.plan.grid, self.outcomes, self.abandoned)
            ]
        return self.longer

    def update(self, trial: Trial) -> None:
        self.longer = None
        self.waiting.pop(trial.id, None)
        if trial.id not in self.in_flight and trial.id in self.cell_of:
            self.call(self.cell_of[trial.id])

    def rebuild(self) -> None:
        self.longer = None
        self.waiting = {}
        for seeds in self.cells:
            self.call(seeds)
        order = (trial for trial in self.plan.trials if trial.id in self.waiting)
        self.waiting = {trial.id: trial for trial in order}

    def call(self, seeds: CellSeeds) -> None:
        """Line up the seeds of a cell that count and have not run."""
        for trial in seeds.called(self.outcomes, self.abandoned):
            if not self.taken(trial):
                self.waiting.setdefault(trial.id, trial)
