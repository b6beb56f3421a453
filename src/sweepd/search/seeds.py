"""The seeds of one cell: when they have decided whether it passes, and which are still needed.

What is known of a seed's score is an interval. For a seed that ran its whole budget it is a
point. For a seed that stopped as solved it goes from its score to the best score there is. For a
seed that has not ended it holds all scores. The pass rule, applied to the lower and to the upper
ends, bounds the cell's score. The cell is decided where both bounds meet the goal or both miss
it. Questions pool scores in SQL (`query.cells_sql`), and count seeds here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from sweepd.grid.metrics import Better, is_share, range_of
from sweepd.grid.options import CONFIRMING, MEAN_DIGITS, Goal, PassRule
from sweepd.intervals import wilson
from sweepd.limits import measured
from sweepd.listing import Row

if TYPE_CHECKING:  # questions count seeds too, and do without plans
    from sweepd.grid.plan import Plan
    from sweepd.grid.trials import Trial

Bounds = tuple[float, float]


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

    def bounds(self, goal: Goal) -> Bounds:
        """Returns the least and the greatest score that the whole budget may have given."""
        least, greatest = range_of(goal.metric)
        lower_is_better = goal.better == "down"
        if self.status == "diverged":
            return (greatest, greatest) if lower_is_better else (least, least)
        if (score := measured(self.score)) is None:
            return least, greatest
        if self.status == "completed":
            return score, score
        if self.status == "solved":
            return (least, score) if lower_is_better else (score, greatest)
        return least, greatest


Outcomes = Mapping[str, Outcome]
"""The outcomes of trials that are done, by the id of the trial."""


@dataclass(frozen=True, eq=False)
class CellSeeds:
    """The seeds of one cell. Every cell is judged by its `first` seeds. If those that have ended
    leave a close call that one more seed may turn, that is called, and counts like the others."""

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
        passes = self.planned_pass(outcomes, abandoned)
        refused = passes and refuses(len(self.failed_fresh(outcomes)), self.fresh)
        return False if refused else passes

    def planned_pass(self, outcomes: Outcomes, abandoned: Collection[str] = ()) -> bool | None:
        """Returns whether the cell passes, whatever its fresh seeds say."""
        return self._decide([self._bounds(t, outcomes) for t in self.called(outcomes, abandoned)])

    def confirming(self, outcomes: Outcomes) -> Sequence[Trial]:
        """Returns the fresh trials that confirm a pass, of which `CONFIRMING` more must pass than
        fail. Returns none where that is so, or where too many have failed."""
        failed = len(self.failed_fresh(outcomes))
        passed = [self._passes(trial, outcomes) for trial in self.fresh_trials].count(True)
        if refuses(failed, self.fresh) or confirms(passed, failed):
            return ()
        return self.fresh_trials[: CONFIRMING + 2 * failed]

    def failed_fresh(self, outcomes: Outcomes) -> list[Trial]:
        """Returns the fresh trials that failed."""
        return [trial for trial in self.fresh_trials if self._passes(trial, outcomes) is False]

    def _passes(self, trial: Trial, outcomes: Outcomes) -> bool | None:
        """Returns whether the trial meets the goal by itself. Returns None while that is open."""
        return _vote(self.goal, *self._bounds(trial, outcomes))

    def close(self, outcomes: Outcomes) -> bool:
        """Returns whether more seeds may turn the outcome. They may if the seeds that ran
        disagree, or if the interval of the evaluation error contains the goal's threshold."""
        ran = [outcomes[trial.id] for trial in self.planned if trial.id in outcomes]
        votes = {self._decide([outcome.bounds(self.goal)]) for outcome in ran}
        if {True, False} <= votes:
            return True
        scores = [outcome.score for outcome in ran if outcome.score is not None]
        totals = [outcome.total for outcome in ran if outcome.total]
        return is_near(scores, totals, self.goal, self.rule)

    def called(self, outcomes: Outcomes, abandoned: Collection[str]) -> list[Trial]:
        """Returns the trials of the seeds that count by now, whether or not they have ended."""
        extra = self.planned[self.first :]
        called = [*self.planned[: self.first], *(t for t in extra if t.id in outcomes)]
        more = [t for t in extra if t.id not in outcomes and t.id not in abandoned][:1]
        if more and self._decide([self._bounds(t, outcomes) for t in called]) is not None:
            turned = self._decide([self._bounds(t, outcomes) for t in called + more]) is None
            called += more if turned and self.close(outcomes) else []
        return called

    def needed(
        self, outcomes: Outcomes, abandoned: Collection[str] = ()
    ) -> tuple[Trial, ...] | None:
        """Returns the trials without which nothing is decided: as many as decide it if they agree,
        and none once the cell is decided. Returns None if it cannot be decided."""
        called = self.called(outcomes, abandoned)
        waiting = [t for t in called if t.id not in outcomes and t.id not in abandoned]
        others = [self._bounds(t, outcomes) for t in called if t not in waiting]
        unknown = range_of(self.goal.metric)
        for count in range(len(waiting) + 1):
            rest = [unknown] * (len(waiting) - count)
            for end in unknown:  # all of them as good, or as bad, as can be
                if self._decide([*others, *[(end, end)] * count, *rest]) is not None:
                    return tuple(waiting[:count])
        return None

    def _bounds(self, trial: Trial, outcomes: Outcomes) -> Bounds:
        outcome = outcomes.get(trial.id)
        return outcome.bounds(self.goal) if outcome else range_of(self.goal.metric)

    def _decide(self, bounds: Sequence[Bounds]) -> bool | None:
        return decide(self.goal, self.rule, bounds)


def refuses(failed: int, fresh: int) -> bool:
    """Returns whether so many of a cell's fresh seeds failed that they cannot confirm its pass."""
    return failed > 0 and CONFIRMING + 2 * failed > fresh


def confirms(passed: int, failed: int) -> bool:
    """Returns whether so many fresh seeds that passed, and that failed, confirm a cell's pass."""
    return passed >= CONFIRMING + failed


def counted(rule: PassRule, seeds: int, passed: int, decided: int) -> bool | None:
    """Returns whether a cell passes where so many of its seeds passed and so many have decided.
    Returns None while that is open. A `median` is counted as more than half of the seeds."""
    match rule:
        case "any":
            return True if passed else False if decided == seeds else None
        case "all":
            return False if passed < decided else True if passed == seeds else None
        case "median":
            failed = decided - passed
            return True if 2 * passed > seeds else False if 2 * failed >= seeds else None
        case "mean":
            raise ValueError("a mean is not counted")


def decide(goal: Goal, rule: PassRule, bounds: Sequence[Bounds]) -> bool | None:
    """Returns whether a cell passes if its seeds' scores lie within these bounds. Returns None
    while that is open. The bounds of at least one seed must be given."""
    if rule in ("all", "any"):
        votes = [_vote(goal, *each) for each in bounds]
        return counted(rule, len(votes), votes.count(True), len(votes) - votes.count(None))
    lows, highs = zip(*bounds, strict=True)
    return _vote(goal, pooled(lows, rule, goal.better), pooled(highs, rule, goal.better))


def _vote(goal: Goal, low: float, high: float) -> bool | None:
    met = goal.met(low)
    return met if met == goal.met(high) else None


def pooled(scores: Sequence[float], rule: PassRule, better: Better) -> float:
    """Returns the score of a cell from its seeds' scores by the pass rule. The rule `all` takes
    the worst score, and `any` the best. Questions pool in SQL (`query.cells_sql`)."""
    rising = sorted(scores)
    worst, best = (rising[0], rising[-1]) if better == "up" else (rising[-1], rising[0])
    match rule:
        case "mean":
            return round(_mean(scores, better), MEAN_DIGITS)
        case "median":
            count = len(rising)
            return _mean([rising[(count - 1) // 2], rising[count // 2]], better)
        case "all":
            return worst
        case "any":
            return best


def _mean(scores: Sequence[float], better: Better) -> float:
    """Returns the mean. A seed that diverged has an infinitely bad score. The mean is then that
    bad too, even if a seed that has not ended counts as infinitely good."""
    worst = -math.inf if better == "up" else math.inf
    return worst if worst in scores else fmean(scores)


def is_near(scores: Sequence[float], totals: Sequence[int], goal: Goal, rule: PassRule) -> bool:
    """Returns whether the cell's score is a share whose Wilson interval contains the goal's
    threshold. totals: the sizes of the test samples that are known."""
    if not scores or not totals or not is_share(goal.metric):
        return False
    total = sum(totals) if rule == "mean" else max(totals)
    low, high = wilson(pooled(scores, rule, goal.better), total)
    return low <= goal.threshold <= high


def cells_of(plan: Plan) -> list[CellSeeds]:
    """Returns the cells of a plan."""
    grid, fresh = plan.grid, len(plan.grid.fresh_seeds)
    return [
        CellSeeds(grid.goal, grid.pass_rule, trials, grid.first_seeds, fresh)
        for trials in plan.cells
    ]
