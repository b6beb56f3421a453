"""The budgets of one cell, from the shortest up, and what its seeds say together at each of them.

A seed that met the goal is not trained for longer, and a pass stays a pass. So at a larger budget
a seed that has not run there counts with its latest score. Its true score there counts as at
least as good, as with a trial that stopped as solved. Questions apply the same rule in SQL
(`query.cells_sql`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sweepd.grid.options import Goal
from sweepd.grid.trials import Trial
from sweepd.search.seeds import CellSeeds, Outcome, Outcomes, refuses
from sweepd.search.settle import AtRate, Final, Runs, last_doubling


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
            if i and not _ran(rung.trials, outcomes):
                continue  # it passes only if the one below does
            if rung.passes(self._carried(i, outcomes), abandoned if i == 0 else ()):
                return rung
        return None

    def confirming(self, level: int, outcomes: Outcomes) -> Sequence[Trial]:
        """Returns the fresh trials that confirm the pass of a rung. Those that failed with fewer
        steps come first."""
        rung, carried = self.rungs[level], self._carried(level, outcomes)
        failed = [trial for trial in rung.failed_fresh(carried) if trial.id not in outcomes]
        return failed or rung.confirming(carried)

    def confirming_again(self, outcomes: Outcomes, to_the_end: bool) -> Sequence[Trial]:
        """Returns the fresh trials that refused the cell's pass, at the largest budget that some of
        them ran, or else at the next larger one. Returns none where none refused it.

        to_the_end: whether they are wanted too where they stand still, and so would refuse it
        again.
        """
        tried = [i for i, rung in enumerate(self.rungs) if _ran(rung.fresh_trials, outcomes)]
        if not tried:
            return ()
        last, carried = self.rungs[tried[-1]], self._carried(tried[-1], outcomes)
        if not last.is_refused(carried):
            return ()
        failed = last.failed_fresh(carried)
        if waiting := [trial for trial in failed if trial.id not in outcomes]:
            return waiting
        if last is self.rungs[-1]:
            return ()
        still = [self._stands_still(trial.seed, outcomes) for trial in failed]
        if refuses(sum(still), last.fresh) and not to_the_end:
            return ()
        again = {trial.seed for trial in failed}
        return [t for t in self.rungs[tried[-1] + 1].fresh_trials if t.seed in again]

    def _stands_still(self, seed: int, outcomes: Outcomes) -> bool:
        """Returns whether a seed fails that more training is not going to make pass."""
        runs = {seed: _finals((r.trials for r in self.rungs), self.base.goal, outcomes)[seed]}
        told = last_doubling(runs, self.base.goal, self.base.rule, least=1)
        return told is not None and told.stands_still

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
        planned = (rung.planned for rung in self.rungs)
        return AtRate(self.peak_lr, _finals(planned, self.base.goal, outcomes))

    def _carried(self, i: int, outcomes: Outcomes) -> Outcomes:
        """Returns the outcomes at rung i. A seed that has not run there has its outcome on the
        last rung below where it has run, as if it had stopped as solved. A fresh seed that failed
        there has failed here too, until it has run here."""
        if i == 0:
            return outcomes
        latest: dict[int, Outcome] = {}
        for rung in self.rungs[:i]:
            for trial in rung.planned:
                if outcome := outcomes.get(trial.id):
                    latest[trial.seed] = Outcome("solved", outcome.score, outcome.total)
            for trial in rung.fresh_trials:
                if trial.id in outcomes:
                    latest.pop(trial.seed, None)
            latest |= {trial.seed: outcomes[trial.id] for trial in rung.failed_fresh(outcomes)}
        for trial in self.rungs[i].trials:
            if trial.id in outcomes:
                latest[trial.seed] = outcomes[trial.id]
        return {t.id: latest[t.seed] for t in self.rungs[i].trials if t.seed in latest}


def _ran(trials: Iterable[Trial], outcomes: Outcomes) -> bool:
    return any(trial.id in outcomes for trial in trials)


def _finals(rungs: Iterable[Iterable[Trial]], goal: Goal, outcomes: Outcomes) -> Runs:
    """Returns the final scores of trials that have ended. One that diverged has the worst score."""
    found: dict[int, dict[int, Final]] = defaultdict(dict)
    for trial in (trial for trials in rungs for trial in trials):
        if outcome := outcomes.get(trial.id):
            worst, _ = Outcome("diverged").bounds(goal)
            score = worst if outcome.status == "diverged" else outcome.score
            if score is not None:
                found[trial.seed][trial.train.steps] = Final(score, outcome.total)
    return dict(found)
