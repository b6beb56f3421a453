"""The seeds of one cell at one budget: which of them a search runs, and when they have decided
whether the cell passes (`sweepd.judge`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from sweepd.grid.metrics import Better
from sweepd.grid.options import Goal, PassRule
from sweepd.judge.cells import OPEN, as_bool, decide, is_near
from sweepd.judge.seeds import ends, known
from sweepd.listing import Row

if TYPE_CHECKING:
    from sweepd.grid.plan import Plan
    from sweepd.grid.trials import Trial

Ends = tuple[float, float]
"""The worst and the best score that a seed may turn out to have."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial ended. score: its value of the goal's metric. total: the size of the test
    sample, in independent answers."""

    status: str
    score: float | None = None
    total: int | None = None

    @classmethod
    def of(cls, row: Row, metric: str) -> Outcome:
        """Returns the outcome of a trial with these columns in the store."""
        return cls(row["status"], row.get(metric), row["independent"] or row["total"])

    def ends(self, goal: Goal) -> Ends:
        """Returns the worst and the best score that the whole budget may have given."""
        return _ends(self.status, self.score, goal.metric, goal.better)


@lru_cache(maxsize=100_000)
def _ends(status: str, score: float | None, metric: str, better: Better) -> Ends:
    number = np.nan if score is None else score
    _, at_worst, at_best = known([status], [number], *ends(metric, better))
    return float(at_worst[0]), float(at_best[0])


Outcomes = Mapping[str, Outcome]
"""The outcomes of trials that are done, by the id of the trial."""


@dataclass(frozen=True, eq=False)
class CellSeeds:
    """The seeds of one cell. Its `first` seeds count from the beginning. Each other one counts once
    it has ended. If those that have ended leave a close call that one more seed may turn, that is
    called, and the search waits for it."""

    goal: Goal
    rule: PassRule
    trials: tuple[Trial, ...]
    """The trials of the cell, in the order in which its seeds are tried."""
    first: int
    fresh: int = 0
    """How many trials, the last of `trials`, run only where there is a pass to confirm."""

    @property
    def steps(self) -> int:
        """The cell's training budget."""
        return self.trials[0].train.steps

    @property
    def planned(self) -> tuple[Trial, ...]:
        """The trials that every search may run, which are all but the fresh ones."""
        return self.trials[: len(self.trials) - self.fresh]

    @property
    def fresh_trials(self) -> tuple[Trial, ...]:
        return self.trials[len(self.trials) - self.fresh :]

    def passes(self, outcomes: Outcomes, abandoned: Collection[str] = ()) -> bool | None:
        """Returns whether the cell passes, or None while its seeds do not decide that. abandoned:
        ids of trials that will not end because they failed."""
        return as_bool(self._decide(self._ends(self.called(outcomes, abandoned), outcomes)))

    def close(self, outcomes: Outcomes) -> bool:
        """Returns whether more seeds may turn the outcome. They may if the seeds that ran
        disagree, or if the interval of the evaluation error contains the goal's threshold."""
        ran = [outcomes[trial.id] for trial in self.planned if trial.id in outcomes]
        votes = {self._decide([outcome.ends(self.goal)]) for outcome in ran} - {OPEN}
        if len(votes) > 1:
            return True
        scores = [outcome.score for outcome in ran if outcome.score is not None]
        totals = [outcome.total for outcome in ran if outcome.total]
        return is_near(scores, totals, self.goal, self.rule)

    def called(self, outcomes: Outcomes, abandoned: Collection[str]) -> list[Trial]:
        """Returns the trials of the seeds that count by now, whether or not they have ended."""
        extra = self.planned[self.first :]
        called = [*self.planned[: self.first], *(t for t in extra if t.id in outcomes)]
        called += [trial for trial in self.fresh_trials if trial.id in outcomes]
        more = [t for t in extra if t.id not in outcomes and t.id not in abandoned][:1]
        if more and self._decide(self._ends(called, outcomes)) != OPEN:
            turned = self._decide(self._ends(called + more, outcomes)) == OPEN
            called += more if turned and self.close(outcomes) else []
        return called

    def needed(
        self, outcomes: Outcomes, abandoned: Collection[str] = ()
    ) -> tuple[Trial, ...] | None:
        """Returns the trials without which nothing is decided: as many as decide it if they agree,
        and none once the cell is decided. Returns None if it cannot be decided."""
        called = self.called(outcomes, abandoned)
        waiting = [t for t in called if t.id not in outcomes and t.id not in abandoned]
        others = self._ends([t for t in called if t not in waiting], outcomes)
        unknown = ends(self.goal.metric, self.goal.better)
        for count in range(len(waiting) + 1):
            rest = [unknown] * (len(waiting) - count)
            for end in unknown:  # all of them as good, or as bad, as can be
                if self._decide([*others, *[(end, end)] * count, *rest]) != OPEN:
                    return tuple(waiting[:count])
        return None

    def _ends(self, trials: Sequence[Trial], outcomes: Outcomes) -> list[Ends]:
        unknown = ends(self.goal.metric, self.goal.better)
        of_trials = (outcomes.get(trial.id) for trial in trials)
        return [outcome.ends(self.goal) if outcome else unknown for outcome in of_trials]

    def _decide(self, seeds: Sequence[Ends]) -> int:
        at_worst, at_best = zip(*seeds, strict=True)
        return decide(self.goal, self.rule, at_worst, at_best)


def cells_of(plan: Plan) -> list[CellSeeds]:
    """Returns the cells of a plan."""
    grid, fresh = plan.grid, len(plan.grid.fresh_seeds)
    return [
        CellSeeds(grid.goal, grid.pass_rule, trials, grid.first_seeds, fresh)
        for trials in plan.cells
    ]
