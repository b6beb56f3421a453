"""What every search has in common, and the search of the whole grid. A search says which trial to
run next."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweepd.grid.options import Settle, Staircase
from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.search.seeds import CellSeeds, Outcome, Outcomes, cells_of
from sweepd.search.stairs import Stair, stairs

MOST_MOVES = 10
"""The number of times in a launch that a trial may lose its node without this counting as a
failure. There is a limit because a trial that itself brings nodes down must end. So a trial that
has reached a newer checkpoint since it last lost one is counted anew."""


class Allowance:
    """What a launch may spend on trials that settle answers. One limit is on training FLOPs,
    counted as if each trial began at its first step. The other is on the seconds since the launch
    began, after which none of these trials is handed out."""

    def __init__(self, flops: float = math.inf, seconds: float = math.inf) -> None:
        self.flops, self.seconds = flops, seconds
        self.spent = 0.0
        self.began = time.monotonic()

    def spend(self, flops: float) -> None:
        self.spent += flops

    @property
    def is_spent(self) -> bool:
        return self.spent >= self.flops or time.monotonic() - self.began >= self.seconds


class Search(ABC):
    """Hands out trials until the grid's question is answered.

    `learn` tells the search which trials have ended, and which of the others it may run. `next`
    returns a trial to run, or None while there is none. `ended` takes the outcome of a trial. A
    failed trial is tried again as often as the grid allows, and is then abandoned. A trial that
    was interrupted, because its node was lost, is handed out again.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.in_full: Collection[str] = ()
        """The ids of trials that count as ended only once they have run their whole budget."""
        self.outcomes: dict[str, Outcome] = {}
        self.owned: Collection[str] = ()
        self.in_flight: set[str] = set()
        self.abandoned: set[str] = set()
        self.tries: Counter[str] = Counter()
        self.moves: Counter[str] = Counter()
        self.allowance = Allowance()
        self.stairs: Sequence[Stair] = ()
        """The lines of the grid, in searches that walk them or settle their answers."""

    def learn(self, outcomes: Outcomes, owned: Collection[str]) -> None:
        """Starts over from the outcomes that are known, with no trial in flight."""
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
            if trial.id in (other.id for other in self.settling()):
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
        """Returns whether the trial can be handed out."""
        return trial.id in self.owned and not self.taken(trial)

    def taken(self, trial: Trial) -> bool:
        """Returns whether the trial has ended, was abandoned or is in flight."""
        return any(trial.id in ids for ids in (self.outcomes, self.abandoned, self.in_flight))

    @abstractmethod
    def wanted(self) -> list[Trial]:
        """Returns the trials that have not ended and are needed now, whoever runs them."""

    @abstractmethod
    def settling(self) -> Sequence[Trial]:
        """Returns the trials that have not ended and would settle the answers, if the allowance
        lasts. A line that needs other trials first has none."""

    def affordable(self) -> Sequence[Trial]:
        """Returns the trials that settle the answers, or none once the allowance is spent."""
        return () if self.allowance.is_spent else self.settling()

    def trained_on(self, **changes: Any) -> int:
        """Returns how many cells would be trained on with these options of `Settle` changed."""
        settle = self.plan.grid.settle
        longer = self.longer_by(replace(settle, **changes)) if settle else ()
        return len({trial.cell for trial in longer})

    def longer_by(self, settle: Settle) -> list[Trial]:
        """Returns the trials that would settle the answers, by what all positions say now."""
        trials: list[Trial] = []
        for stair in self.stairs:
            votes = {at: stair.passes(at, self.outcomes, self.abandoned) for at in stair.cells}
            known = {at: passed for at, passed in votes.items() if passed is not None}
            trials += stair.longer(known, settle, self.outcomes, self.abandoned)
        return trials

    def tally(self) -> Mapping[str, int]:
        """Returns how many cells were tried for each reason, where a search has several reasons.
        Cells that differ in nuisance axes alone count as one."""
        return {}

    @abstractmethod
    def choose(self) -> Trial | None:
        """Returns the trial to hand out next, or None if there is none."""

    @abstractmethod
    def update(self, trial: Trial) -> None:
        """Takes account of a change in what is known of this trial."""

    @abstractmethod
    def rebuild(self) -> None:
        """Takes account of changes in what is known of any trial."""


class GridSearch(Search):
    """The search that runs every cell of the grid, seed by seed, and further seeds of close calls.
    Failed trials come last. Once all have ended, it runs the trials that settle the answers, if
    asked."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.cells = [cell for cell in cells_of(plan) if not cell.trials[0].on_demand]
        self.cell_of = {trial.id: cell for cell in self.cells for trial in cell.trials}
        self.waiting: dict[str, Trial] = {}
        if plan.grid.settle:
            self.stairs = list(stairs(plan, Staircase()))
        self.longer: list[Trial] | None = None
        """The trials that would settle the answers; None where something has changed since."""

    def wanted(self) -> list[Trial]:
        return [*self.waiting.values(), *self.affordable()]

    def choose(self) -> Trial | None:
        if self.waiting:
            return next(filter(self.free, self.waiting.values()), None)
        ready = filter(self.free, self.affordable())
        return min(ready, key=lambda trial: trial.effort, default=None)

    def settling(self) -> Sequence[Trial]:
        if self.waiting:  # nothing is worked out before it may run
            return ()
        if self.longer is None:
            settle = self.plan.grid.settle
            self.longer = self.longer_by(settle) if settle else []
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
        """Adds the seeds of a cell that count and have not run to the waiting trials."""
        for trial in seeds.called(self.outcomes, self.abandoned):
            if not self.taken(trial):
                self.waiting.setdefault(trial.id, trial)
