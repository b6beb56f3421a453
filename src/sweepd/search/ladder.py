"""The budgets of one cell, from the shortest up, and what its seeds say together at each of them.

A seed that met the goal is not trained for longer, and a pass stays a pass. So at a larger budget
a seed that has not run there counts with its latest score. Its true score there counts as at
least as good, as with a trial that stopped as solved. Questions apply the same rule in SQL
(`query.cells_sql`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sweepd.grid.trials import Trial
from sweepd.search.seeds import CellSeeds, Outcome, Outcomes
from sweepd.search.settle import AtRate, Final


@dataclass(frozen=True, eq=False)
class Ladder:
    """A cell at one combination of nuisance values.

    rungs: its seeds at each budget, the least budget first. in_reserve: whether its first rung is
    run only where the best of the other rates is at the edge of those tried.
    """

    rungs: tuple[CellSeeds, ...]
    in_reserve: bool

    @property
    def base(self) -> CellSeeds:
        return self.rungs[0]

    @property
    def trials(self) -> Iterator[Trial]:
        return (trial for rung in self.rungs for trial in rung.trials)

    @property
    def peak_lr(self) -> float:
        """The highest learning rate of its training, by which the ladders of one position are
        ordered."""
        trial = self.base.trials[0]
        return trial.train.peak_lr(trial.values.model.get("d", 1))

    def passed(self, outcomes: Outcomes, abandoned: Collection[str]) -> CellSeeds | None:
        """Returns the first rung at which the cell passes, or None if there is none."""
        for i, rung in enumerate(self.rungs):
            if rung.passes(self._carried(i, outcomes), abandoned if i == 0 else ()):
                return rung
        return None

    def next_trials(self, level: int, outcomes: Outcomes) -> list[Trial]:
        """Returns the trials of a rung whose seeds did not meet the goal on the rungs below.
        Extra and fresh seeds are left out."""
        goal = self.base.goal
        met = {
            trial.seed
            for rung in self.rungs[:level]
            for trial in rung.trials
            if (outcome := outcomes.get(trial.id))
            and outcome.score is not None
            and goal.met(outcome.score)
        }
        rung = self.rungs[level]
        return [trial for trial in rung.trials[: rung.first] if trial.seed not in met]

    def ended(self, outcomes: Outcomes) -> AtRate:
        """Returns the final scores of the trials that have ended, as `settle` takes them. A trial
        that diverged has the worst score."""
        found: dict[int, dict[int, Final]] = {}
        for trial in (trial for rung in self.rungs for trial in rung.planned):
            outcome = outcomes.get(trial.id)
            if outcome:
                worst, _ = Outcome("diverged").bounds(self.base.goal)
                score = worst if outcome.status == "diverged" else outcome.score
                if score is not None:
                    found.setdefault(trial.seed, {})[trial.train.steps] = Final(
                        score, outcome.total
                    )
        return AtRate(self.peak_lr, found)

    def _carried(self, i: int, outcomes: Outcomes) -> Outcomes:
        """Returns the outcomes at rung i. A seed that has not run there has its outcome on the
        last rung below where it has run, as if it had stopped as solved."""
        if i == 0:
            return outcomes
        latest: dict[int, Outcome] = {}
        for rung in self.rungs[: i + 1]:
            for trial in rung.trials:
                if outcome := outcomes.get(trial.id):
                    at_this = rung is self.rungs[i]
                    latest[trial.seed] = (
                        outcome if at_this else Outcome("solved", outcome.score, outcome.total)
                    )
        return {t.id: latest[t.seed] for t in self.rungs[i].trials if t.seed in latest}
