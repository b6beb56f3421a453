"""The staircase search: of the whole grid, only the cells that the boundary depends on.

`walk` says which cells those are. Here they become trials. The grid's pass rule says which
seeds run. Of the nuisance values, one combination that passes is enough. The cheapest trial runs
first. Trials run ahead of their turn where slots would be idle.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sweepd.grid.options import Staircase
from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.search.base import GridSearch, Search
from sweepd.search.seeds import CellSeeds
from sweepd.search.stairs import Stair, stairs
from sweepd.search.walk import Position
from sweepd.store.schema import Numbers

WORTH_A_GUESS = 1.0
"""The time that a guess must save on average for each unit of time that it wastes (`worth_it`)."""
LEAST_CHANCE = 0.5
"""The least chance at which the trials of a position are worth a guess. They cost as much as the
step or more, so at a smaller chance they would waste more than they save (`worth_it`)."""


class StaircaseSearch(Search):
    """Runs the cells that the boundary of each line depends on (`walk`), the cheapest first. With
    slots to spare it runs trials ahead of their turn, where that saves more than it risks."""

    def __init__(self, plan: Plan, rules: Staircase) -> None:
        super().__init__(plan)
        self.rules = rules
        self.stairs = list(stairs(plan, rules))
        self.place: dict[str, tuple[int, Position]] = {}
        """For each trial's id, the number of its stair and its position there."""
        for i, stair in enumerate(self.stairs):
            for position, cells in stair.cells.items():
                rungs = (rung for one in stair.ladders.get(position, ()) for rung in one.rungs)
                for seeds in (*cells, *rungs):
                    self.place |= {trial.id: (i, position) for trial in seeds.trials}
        self.passed: dict[CellSeeds, bool | None] = {}
        self.known: list[dict[Position, bool | None]] = [{} for _ in self.stairs]
        """The decided positions of each stair."""
        self.needs: list[list[Trial]] = [[] for _ in self.stairs]
        self.longer: list[list[Trial]] = [[] for _ in self.stairs]
        """For each stair that needs nothing else, the trials that would settle its answers."""
        self.guesses: list[list[tuple[Trial, float]] | None] = [None for _ in self.stairs]
        """For each stair, the trials that may be needed after those in `needs`, each with its
        chance; None if they have to be found again."""
        self.chosen: list[Trial | None] = []
        """What was chosen, until something changes, since Tune asks again and again."""

    def wanted(self) -> list[Trial]:
        return [*itertools.chain(*self.needs), *self.affordable()]

    def settling(self) -> Sequence[Trial]:
        return list(itertools.chain(*self.longer))

    def choose(self) -> Trial | None:
        if self.chosen:
            return self.chosen[0]
        # All answers at the first budget come before any is settled.
        best = self.cheapest(itertools.chain(*self.needs)) or self.cheapest(self.affordable())
        if best is None and self.rules.speculate:
            for i, guesses in enumerate(self.guesses):
                if guesses is None:
                    self.guesses[i] = list(self.guess(i))
            every = (guess for guesses in self.guesses for guess in guesses or ())
            free = [guess for guess in every if self.free(guess[0])]
            best, _ = min(free, key=lambda guess: guess[0].effort / guess[1], default=(None, 0.0))
        self.chosen = [best]
        return best

    def cheapest(self, trials: Iterable[Trial]) -> Trial | None:
        """Returns the cheapest of the trials that can be handed out."""
        return min(filter(self.free, trials), key=lambda trial: trial.effort, default=None)

    def update(self, trial: Trial) -> None:
        self.chosen = []
        if trial.id not in self.in_flight:  # a trial that was handed out has told nothing yet
            i, position = self.place[trial.id]
            self.judge(i, position)
            self.refresh_needs(i)

    def rebuild(self) -> None:
        self.chosen = []
        for i, stair in enumerate(self.stairs):
            for position in stair.cells:
                self.judge(i, position)
            self.refresh_needs(i)

    def refresh_needs(self, i: int) -> None:
        """Finds out which trials a stair needs, from what is known of it."""
        stair = self.stairs[i]
        wanted = stair.line.wanted(self.known[i])
        self.needs[i] = [trial for at in wanted for trial in self.needed(stair, at)]
        self.longer[i] = []
        if (settle := self.plan.grid.settle) and not wanted:
            self.longer[i] += stair.longer(self.known[i], settle, self.outcomes, self.abandoned)
        self.guesses[i] = None

    def judge(self, i: int, position: Position) -> None:
        """Finds out whether a position is decided."""
        cells, known = self.stairs[i].cells[position], self.known[i]
        for seeds in cells:
            self.passed[seeds] = seeds.passes(self.outcomes, self.abandoned)
        votes = {self.passed[seeds] for seeds in cells}
        known.pop(position, None)
        if True in votes or self.stairs[i].passing(position, self.outcomes, self.abandoned):
            known[position] = True
        elif None not in votes:
            known[position] = False
        elif not self.open_cells(cells):
            known[position] = None

    def open_cells(self, cells: Sequence[CellSeeds]) -> list[CellSeeds]:
        """Returns those of the cells that trials yet to end will decide."""
        return [seeds for seeds in cells if seeds.needed(self.outcomes, self.abandoned)]

    def needed(self, stair: Stair, position: Position) -> Sequence[Trial]:
        """Returns the trials that a position wants next. They are those of its most promising
        nuisance values, or of all nuisance values where these compete with each other."""
        cells = [self.candidate(stair, position)]
        if any(seeds.trials[0].values.stop.asha for seeds in cells):
            cells = self.open_cells(stair.cells[position])
        return [t for seeds in cells for t in seeds.needed(self.outcomes, self.abandoned) or ()]

    def candidate(self, stair: Stair, position: Position) -> CellSeeds:
        """Returns the open cell of a position whose nuisance values passed most often."""
        wins = Counter(
            i
            for cells in stair.cells.values()
            for i, seeds in enumerate(cells)
            if self.passed[seeds]
        )
        cells = sorted(enumerate(stair.cells[position]), key=lambda cell: -wins[cell[0]])
        return self.open_cells([seeds for _, seeds in cells])[0]

    def guess(self, i: int) -> Iterator[tuple[Trial, float]]:
        """Yields trials that a stair may need after those that it needs now, with their chance."""
        stair, known = self.stairs[i], self.known[i]
        _, step = stair.line.walk(known) if self.needs[i] else ([], None)
        if step is None:
            return

        def worth_it(position: Position, chance: float) -> bool:
            """Whether to run a position's trials beside the step that says if they are needed: the
            time of that step is saved, or their own is wasted. Time is taken to grow with FLOPs."""
            costs = stair.line.costs
            return chance * costs[step] >= WORTH_A_GUESS * (1 - chance) * costs[position]

        passes = stair.line.chance(step)
        agree = {"all": passes, "any": 1 - passes}.get(self.plan.grid.pass_rule, 0.0)
        if worth_it(step, agree):  # one seed that differs would spare the others
            seeds = self.candidate(stair, step).called(self.outcomes, self.abandoned)
            yield from ((trial, agree) for trial in seeds)
        for position, chance in stair.line.forecast(known, LEAST_CHANCE):
            if worth_it(position, chance):
                yield from ((trial, chance) for trial in self.needed(stair, position))

    def ranges(self, cost: Callable[[Trial], Numbers]) -> Numbers:
        """Returns the least, mean and greatest sum of the costs of the trials still to be run, of
        shape (3, 4) for costs of shape (4,). The least and the greatest are over every monotone
        boundary and every vote of seeds. The mean is over boundaries, halfway between few and many
        seeds."""
        total, nothing = np.zeros((3, 4)), np.zeros(4)
        for stair, known in zip(self.stairs, self.known, strict=True):
            few: dict[tuple[Position, bool], Numbers] = {}
            many: dict[Position, Numbers] = {}
            for at, cells in stair.cells.items():
                # Where a position passes, its first open nuisance values are taken to pass.
                for passed, among in ((True, self.open_cells(cells)[:1]), (False, cells)):
                    needs = (seeds.needed(self.outcomes, self.abandoned) for seeds in among)
                    few[at, passed] = sum((cost(t) for need in needs for t in need or ()), nothing)
                # Fresh seeds are left out, since only settling runs them.
                planned = (t for seeds in cells for t in seeds.planned if t.id not in self.outcomes)
                many[at] = sum((cost(t) for t in planned if t.id not in self.abandoned), nothing)
            tried = [stair.line.complete(known, passes) for passes in stair.line.boundaries()]
            low = np.array([sum((few[it] for it in one.items()), nothing) for one in tried])
            high = np.array([sum((many[at] for at in one), nothing) for one in tried])
            total += [low.min(0), (low.mean(0) + high.mean(0)) / 2, high.max(0)]
        return total

    def tally(self) -> Mapping[str, int]:
        """Returns how many cells were tried for each reason, judged by what is known now."""
        tally: Counter[str] = Counter()
        over = self.outcomes.keys() | self.abandoned
        for stair, known in zip(self.stairs, self.known, strict=True):
            trials = {
                at: [t.id for c in cells for t in c.trials] for at, cells in stair.cells.items()
            }
            tried = [position for position, ids in trials.items() if not over.isdisjoint(ids)]
            tally.update(stair.line.roles(tried, known).values())
        return tally


def search_of(plan: Plan) -> Search:
    """Returns the search that the grid asks for."""
    rules = plan.grid.search
    return GridSearch(plan) if rules == "grid" else StaircaseSearch(plan, rules)


def promotion_of(plan: Plan) -> Search:
    """Returns a search that runs in full the stopped trials on which the answer depends."""
    rules = Staircase() if plan.grid.search == "grid" else plan.grid.search
    search = StaircaseSearch(plan, replace(rules, spot_checks=0, speculate=False))
    search.in_full = frozenset(trial.id for trial in plan.trials)
    return search
