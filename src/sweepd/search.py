"""Which trial to try next: what every search has in common, and the search of the whole grid."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from sweepd.jury import Jury, Outcome, Outcomes
from sweepd.plan import Plan, Trial

MOST_MOVES = 10
"""How often in a launch a trial may lose its node for free: one that takes nodes down must end."""


class Search(ABC):
    """Hands out trials until the grid's question is settled.

    `learn` tells it which trials have ended, and which of the others are its own to run. `next`
    hands out a trial, or None while there is none to run; `ended` takes how it came out. A failed
    trial is tried again, as often as the grid allows, and is lost then; an interrupted one, whose
    node was lost, is handed out again.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.in_full: Collection[str] = ()
        """ids of trials that count as ended only once they have run their whole budget"""
        self.outcomes: dict[str, Outcome] = {}
        self.mine: Collection[str] = ()
        self.out: set[str] = set()
        self.lost: set[str] = set()
        self.tries: Counter[str] = Counter()
        self.moves: Counter[str] = Counter()

    def learn(self, outcomes: Outcomes, mine: Collection[str]) -> None:
        """Start over from what is known; nothing runs now."""
        self.outcomes = {
            id_: outcome
            for id_, outcome in outcomes.items()
            if outcome.status != "stopped" or id_ not in self.in_full
        }
        self.mine, self.out = mine, set()
        self.look_around()

    def next(self) -> Trial | None:
        trial = self.choose()
        if trial:
            self.out.add(trial.id)
            self.tries[trial.id] += 1
            self.look_at(trial)
        return trial

    def ended(self, trial: Trial, outcome: Outcome) -> None:
        self.out.remove(trial.id)
        if outcome.status == "interrupted":
            self.moves[trial.id] += 1
        elif outcome.status != "failed":
            self.outcomes[trial.id] = outcome
        elif self.tries[trial.id] - self.moves[trial.id] > self.plan.grid.retries:
            self.lost.add(trial.id)
        self.look_at(trial)

    @property
    def finished(self) -> bool:
        """Whether nothing is out and nothing can be handed out."""
        return not self.out and self.choose() is None

    def free(self, trial: Trial) -> bool:
        """Whether the trial can be handed out."""
        return trial.id in self.mine and not self.settled(trial)

    def settled(self, trial: Trial) -> bool:
        """Whether the trial has ended, was given up or is out."""
        return any(trial.id in ids for ids in (self.outcomes, self.lost, self.out))

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
    def look_at(self, trial: Trial) -> None:
        """Something has changed about this trial."""

    @abstractmethod
    def look_around(self) -> None:
        """Everything may have changed."""


class GridSearch(Search):
    """Every cell, seed by seed, and further seeds for close calls; failed trials come last."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.juries = {trial.id: jury for jury in juries(plan) for trial in jury.trials}
        self.waiting: dict[str, Trial] = {}

    def wanted(self) -> list[Trial]:
        return list(self.waiting.values())

    def choose(self) -> Trial | None:
        return next(filter(self.free, self.waiting.values()), None)

    def look_at(self, trial: Trial) -> None:
        self.waiting.pop(trial.id, None)
        if trial.id not in self.out:
            self.call(self.juries[trial.id])

    def look_around(self) -> None:
        self.waiting = {}
        for jury in dict.fromkeys(self.juries.values()):
            self.call(jury)
        order = (trial for trial in self.plan.trials if trial.id in self.waiting)
        self.waiting = {trial.id: trial for trial in order}

    def call(self, jury: Jury) -> None:
        """Line up the seeds of a cell that count and have not run."""
        for trial in jury.called(self.outcomes, self.lost):
            if not self.settled(trial):
                self.waiting.setdefault(trial.id, trial)


def juries(plan: Plan) -> list[Jury]:
    """The cells of a plan."""
    grid = plan.grid
    cells: dict[tuple[Any, ...], list[Trial]] = defaultdict(list)
    for trial in plan.trials:
        cells[trial.cell].append(trial)
    return [Jury(grid.goal, grid.pass_rule, tuple(c), grid.first_seeds) for c in cells.values()]
