"""A line of the grid with the trials at each of its positions. It says which positions pass, and
which trials would settle the answers that depend on them (`search.horizon`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sweepd.grid.options import CONFIRMING, Settle, Staircase
from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.judge.cells import FAIL, PASS, at_budgets, confirmed
from sweepd.limits import measured
from sweepd.search import horizon
from sweepd.search.horizon import AtRate, Final, last_doubling
from sweepd.search.seeds import CellSeeds, Outcomes, cells_of
from sweepd.search.walk import Known, Position, SearchLine


@dataclass(frozen=True, eq=False)
class Ladder:
    """A cell at one combination of nuisance values, with its budgets from the shortest up.

    A seed that met the goal is not trained for longer, since a pass stays a pass
    (`judge.seeds.by_budget`). Every seed that has run with fewer steps counts at a larger budget,
    too.

    rungs: its seeds at each budget, the least budget first. in_reserve: whether its first rung is
    run only where the best of the other rates is at the edge of those tried.
    """

    rungs: tuple[CellSeeds, ...]
    in_reserve: bool

    @property
    def base(self) -> CellSeeds:
        return self.rungs[0]

    @property
    def peak_lr(self) -> float:
        """The highest learning rate of its training, which orders the ladders of a position."""
        trial = self.base.trials[0]
        return trial.train.peak_lr(trial.values.model.get("d", 1))

    def shown(
        self, outcomes: Outcomes, abandoned: Collection[str] = ()
    ) -> tuple[list[int], list[dict[int, int]]]:
        """Returns what the cell has shown by each of its budgets, and what each seed has
        (`judge.cells.at_budgets`)."""
        endings = [
            {trial.seed: outcomes[trial.id] for trial in rung.trials if trial.id in outcomes}
            for rung in self.rungs
        ]
        expected = [{trial.seed for trial in self.base.called(outcomes, abandoned)}]
        expected += [{trial.seed for trial in r.trials[: r.first]} for r in self.rungs[1:]]
        return at_budgets(self.base.goal, self.base.rule, endings, expected)

    def passed(self, outcomes: Outcomes, abandoned: Collection[str]) -> CellSeeds | None:
        """Returns the first rung at which the cell passes, or None if there is none."""
        if not any(trial.id in outcomes for rung in self.rungs for trial in rung.trials):
            return None
        by_budget, _ = self.shown(outcomes, abandoned)
        passing = zip(self.rungs, by_budget, strict=True)
        return next((rung for rung, outcome in passing if outcome == PASS), None)

    def confirming(self, level: int, outcomes: Outcomes) -> Sequence[Trial]:
        """Returns the fresh trials that confirm the pass of a rung, of which `CONFIRMING` more must
        pass than fail. Returns none where that is so, or cannot be so any more."""
        rung, votes = self.rungs[level], self.shown(outcomes)[1][level]
        of_fresh = [votes.get(trial.seed) for trial in rung.fresh_trials]
        passed, failed = of_fresh.count(PASS), of_fresh.count(FAIL)
        enough = CONFIRMING + 2 * failed
        if confirmed(passed, failed) or (failed and enough > rung.fresh):
            return ()
        return [t for t in rung.fresh_trials[:enough] if votes.get(t.seed) != PASS]

    def next_trials(self, level: int, outcomes: Outcomes) -> list[Trial]:
        """Returns the trials of a rung that count there before they have ended: its first ones, and
        those of seeds that ran on the rungs below, but for seeds that met the goal there."""
        rung = self.rungs[level]
        count = {trial.seed for trial in rung.trials[: rung.first]}
        if level:
            votes = self.shown(outcomes)[1][level - 1]
            count = {seed for seed in count | votes.keys() if votes.get(seed) != PASS}
        return [trial for trial in rung.trials if trial.seed in count]

    def ended(self, outcomes: Outcomes) -> AtRate:
        """Returns the final scores of the trials that have ended, as `settle` takes them. One that
        diverged has the worst score."""
        finals: dict[int, dict[int, Final]] = defaultdict(dict)
        for trial in (trial for rung in self.rungs for trial in rung.trials):
            if outcome := outcomes.get(trial.id):
                score = measured(outcome.score)
                if outcome.status == "diverged":
                    score, _ = outcome.ends(self.base.goal)
                if score is not None:
                    finals[trial.seed][trial.train.steps] = Final(score, outcome.total)
        return AtRate(self.peak_lr, dict(finals))


@dataclass(frozen=True)
class LineAnswer:
    """What is known of one size of a line.

    value: the least width that passes, if any. passing: the ladder and the rung with which it
    passes at the least budget. deciding: the position with the next smaller width, or with the
    largest one where nothing passes; None where there is none. budget: the steps with which the
    value passes. Where nothing passes, the budget is that of the size that needs the most. Where no
    size has a pass, it is the first budget.
    """

    value: float | None
    passing: tuple[Ladder, CellSeeds] | None
    deciding: Position | None
    budget: int


@dataclass(frozen=True)
class Stair:
    """A line of the grid with its cells.

    cells: at each position one for each combination of nuisance values. One of them that passes
    is enough. ladders: the same cells with their longer budgets, in the order of the rate, and
    with the rates in reserve. There are none unless the grid asks for settling.
    """

    line: SearchLine
    cells: Mapping[Position, Sequence[CellSeeds]]
    ladders: Mapping[Position, Sequence[Ladder]]

    def passing(
        self, position: Position, outcomes: Outcomes, abandoned: Collection[str]
    ) -> tuple[Ladder, CellSeeds] | None:
        """Returns where a position passes at the least budget: the ladder and the rung, if any."""
        passes = [
            (ladder, rung)
            for ladder in self.ladders.get(position, ())
            if (rung := ladder.passed(outcomes, abandoned))
        ]
        return min(passes, key=lambda one: one[1].steps, default=None)

    def passes(
        self, position: Position, outcomes: Outcomes, abandoned: Collection[str]
    ) -> bool | None:
        """Returns whether one of the position's cells passes, at any budget. Returns False where
        all of them fail at their first budget, and None while that is open."""
        votes = {cell.passes(outcomes, abandoned) for cell in self.cells[position]}
        if True in votes or self.passing(position, outcomes, abandoned):
            return True
        return None if None in votes else False

    def longer(
        self, known: Known, settle: Settle, outcomes: Outcomes, abandoned: Collection[str]
    ) -> Iterator[Trial]:
        """Yields the trials that would settle the answers of this line, have not ended and can
        run next. known: which positions pass, or fail at their first budgets.

        Where nothing passes at a size, that is unlikely to change at a larger one before it has
        changed at this one. So the largest width is trained for longer at the smallest such size
        alone, until it passes there, unless `settle.give_up` is off. What is run must not depend
        on the order in which trials end, so a pass counts only once it is certain. It is confirmed
        once its size is done otherwise: should the next smaller width pass too, that need not be.
        """
        open_below = False
        for at in self.answers(known, outcomes, abandoned).values():
            fresh: Sequence[Trial] = ()
            if at.passing:
                fresh = _left(self.confirming(*at.passing, outcomes), outcomes, abandoned)
                # The budget is certain once all seeds have run at the longer budgets below it, and
                # then at it. The cell may pass there too, and a seed that met the goal there counts
                # at this budget before the others have run there.
                ladder, rung = at.passing
                level = ladder.rungs.index(rung)
                rungs = (ladder.next_trials(i, outcomes) for i in (*range(1, level), level))
                left = (_left(trials, outcomes, abandoned) for trials in rungs)
                waiting = next(filter(None, left), None)
                open_below = open_below or bool(fresh or waiting)
                if waiting:
                    yield from waiting
                    continue
            elif at.value is not None or (open_below and settle.give_up):
                continue
            else:
                open_below = True
            yield from self._deciding(at, known, settle, outcomes, abandoned) or fresh

    @property
    def first_budget(self) -> int:
        """The grid's own budget, in steps."""
        return next(iter(self.ladders.values()))[0].base.steps

    def answers(
        self, known: Known, outcomes: Outcomes, abandoned: Collection[str]
    ) -> dict[float, LineAnswer]:
        """Returns what is known of each size, by size."""
        values = {
            size: next((width for width in widths if known.get((size, width))), None)
            for size, widths in self.line.rows
        }
        passing = {
            size: self.passing((size, value), outcomes, abandoned)
            for size, value in values.items()
            if value is not None
        }
        slowest = max((passes[1].steps for passes in passing.values() if passes), default=None)
        answers = {}
        for size, widths in self.line.rows:
            value, passes = values[size], passing.get(size)
            smaller = [width for width in widths if value is None or width < value]
            deciding = (size, smaller[-1]) if smaller else None
            budget = passes[1].steps if passes else slowest or self.first_budget
            answers[size] = LineAnswer(value, passes, deciding, budget)
        return answers

    def confirming(self, ladder: Ladder, rung: CellSeeds, outcomes: Outcomes) -> Sequence[Trial]:
        """Returns the fresh seeds of a cell that passed as the best of several looks. Without
        them a cell that passes by luck at one of the looks would count. Returns none if there was
        only one look, or if the pass rule is `any`."""
        looked_once = all(len(ladders) == 1 for ladders in self.ladders.values())
        if (looked_once and rung is ladder.base) or rung.rule == "any":
            return ()
        return ladder.confirming(ladder.rungs.index(rung), outcomes)

    def _deciding(
        self,
        at: LineAnswer,
        known: Known,
        settle: Settle,
        outcomes: Outcomes,
        abandoned: Collection[str],
    ) -> Sequence[Trial]:
        """Returns the trials that the cell that decides an answer needs next."""
        if at.deciding is None:
            return ()
        if at.deciding not in known:  # it was only inferred to fail, and is judged at its own size
            needs = (cell.needed(outcomes, abandoned) for cell in self.cells[at.deciding])
            return next(filter(None, needs), ())
        # Where nothing passes, what is run must not depend on which size passes first.
        budget = at.budget if at.passing else self.first_budget
        if known[at.deciding] is not False or settle.needed(budget) > settle.most:
            return ()
        every = self.ladders[at.deciding]
        goal, rule = every[0].base.goal, every[0].base.rule
        rates = {ladder: ladder.ended(outcomes) for ladder in every}
        for ladder, at_rate in rates.items():
            # A rate in reserve that has begun may pass: questions wait for the rest of its seeds.
            begun = ladder.in_reserve and at_rate.runs
            if begun and (needed := ladder.base.needed(outcomes, abandoned)):
                return needed
        tried = list(rates.values())
        best = horizon.best_rates(tried, goal, rule)
        if not best:
            return ()
        ladders = [ladder for one in best for ladder in every if rates[ladder] is one]
        if end := horizon.edge(tried, best[0]):
            [place] = [i for i, ladder in enumerate(every) if rates[ladder] is best[0]]
            beyond = place + (1 if end == "high" else -1)
            inside = 0 <= beyond < len(every)
            return (inside and every[beyond].base.needed(outcomes, abandoned)) or ()
        if horizon.forecast(tried, goal, rule, settle, budget).holds_to:
            return ()
        for trials in self._next(ladders, settle.needed(budget), outcomes):
            if left := _left(trials, outcomes, abandoned):
                return self._affordable(left, settle)
        return ()

    def forecast(self, at: LineAnswer, settle: Settle, outcomes: Outcomes) -> horizon.Forecast:
        """Returns whether more training would change what is known of a size."""
        if at.deciding is None:
            return horizon.Forecast("untested", "the grid has no smaller value")
        ladders = self.ladders[at.deciding]
        base, tried = ladders[0].base, [ladder.ended(outcomes) for ladder in ladders]
        return horizon.forecast(tried, base.goal, base.rule, settle, at.budget)

    def _affordable(self, trials: Sequence[Trial], settle: Settle) -> Sequence[Trial]:
        """Returns these trials, or none if one of them costs more than one that settles may. A
        trial costs what it adds to one with half the steps that it continues. Where that one cannot
        be continued, it costs its whole effort."""
        most = settle.most_a_trial(self.line.costs.values())
        for trial in trials:
            half = replace(trial.train, steps=max(1, trial.train.steps // 2))
            kept = half.trunk_end if half.extensible else 0
            if trial.effort * (1 - kept / trial.train.steps) > most:
                return ()
        return trials

    def _next(
        self, best: Sequence[Ladder], needed: int, outcomes: Outcomes
    ) -> Iterator[Sequence[Trial]]:
        """Yields the trials that the best rates of a deciding cell need, in groups, one after the
        other. needed: the steps that the cell must fail at.

        First come their first budgets. Then comes, for each rate, the lead seed alone. It is
        trained until it no longer moves, or until it meets the goal. Then come the other seeds of
        the best rate, and those of the second best where its lead says too little
        (`all_seeds_at`). Most cells that move are seen to move by the lead. Where the lead meets
        the goal, the other seeds are trained too.
        """
        goal, rule = best[0].base.goal, best[0].base.rule
        yield [trial for ladder in best for trial in ladder.next_trials(0, outcomes)]
        for ladder in best:
            runs = ladder.ended(outcomes).runs
            seed = horizon.lead(runs, goal, rule)
            for rung in ladder.rungs:
                yield [trial for trial in rung.trials if trial.seed == seed]
                final = runs[seed].get(rung.steps)
                if final is None or goal.met(final.score):
                    for level in range(1, len(ladder.rungs)):
                        yield ladder.next_trials(level, outcomes)
                    return
                upto = {seed: {s: f for s, f in runs[seed].items() if s <= rung.steps}}
                doubling = last_doubling(upto, goal, rule, least=1)
                if rung.steps >= needed and doubling and not doubling.moves:
                    break
            else:
                return
        ended = (ladder.ended(outcomes).runs for ladder in best)
        leads = [horizon.lead_doubling(runs, goal, rule) for runs in ended]
        for level in range(len(best[0].rungs)):
            for ladder in best[: horizon.all_seeds_at(leads)]:
                yield ladder.next_trials(level, outcomes)


def stairs(plan: Plan, rules: Staircase) -> Iterator[Stair]:
    """Yields the lines of a plan, in the order of its trials."""
    size_fields = plan.size_fields
    nuisance = {name.rpartition(".")[2] for name in plan.grid.tune}
    lines: dict[Any, dict[Position, list[CellSeeds]]] = defaultdict(lambda: defaultdict(list))
    longer: dict[Any, dict[Position, list[CellSeeds]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells_of(plan):
        trial = cell.trials[0]
        along = size_fields[trial.task_name] if rules.along == "size" else rules.along
        at = trial.size if rules.along == "size" else trial.axes[rules.along]
        shared = {**trial.axes}
        for name in (along, rules.minimize, *nuisance, *(["steps"] if plan.grid.settle else ())):
            shared.pop(name, None)
        kind = longer if trial.on_demand else lines
        position: Any = (at, trial.axes[rules.minimize])
        kind[trial.task_name, trial.model_name, *shared.items()][position].append(cell)
    for key, cells in lines.items():
        costs, ladders = {}, {}
        for position, planned in cells.items():
            costs[position] = sum(trial.effort for cell in planned for trial in cell.planned)
            if not plan.grid.settle:
                continue
            # A ladder for each combination of nuisance values, with its budgets, the least first.
            by_rate: dict[Any, list[CellSeeds]] = defaultdict(list)
            for cell in (*planned, *longer[key][position]):
                axes = {**cell.trials[0].axes}
                del axes["steps"]
                by_rate[*axes.items()].append(cell)
            of_rates = []
            for rungs in by_rate.values():
                rungs.sort(key=lambda cell: cell.steps)
                of_rates.append(Ladder(tuple(rungs), rungs[0] not in planned))
            ladders[position] = sorted(of_rates, key=lambda ladder: ladder.peak_lr)
        yield Stair(SearchLine(costs, rules.spot_checks), dict(cells), ladders)


def _left(trials: Sequence[Trial], outcomes: Outcomes, abandoned: Collection[str]) -> list[Trial]:
    return [t for t in trials if t.id not in outcomes and t.id not in abandoned]
