"""What cells have shown: whether they pass, at one budget, by several, and over nuisance values.

An outcome is PASS, FAIL or OPEN, as an integer or in an array of them. All seeds count that ran at
a combination of nuisance values, whatever they were run for. A seed that was planned from the
beginning counts before it has ended, too, and may then still do either.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from sweepd.grid.metrics import is_share
from sweepd.grid.options import CONFIRMING, OPERATORS, Goal, PassRule
from sweepd.intervals import wilson
from sweepd.judge.seeds import Ints, Scores, by_budget, ends, known, of_one

PASS, OPEN, FAIL = 1, 0, -1
RULES: tuple[PassRule, ...] = ("any", "median", "all")
"""Pass rules, from the mildest to the strictest."""


class Ending(Protocol):
    """How a trial ended, with its score by the goal's metric."""

    @property
    def status(self) -> str: ...
    @property
    def score(self) -> float | None: ...


def votes(goal: Goal, at_worst: Any, at_best: Any) -> Ints:
    """Returns, for scores of any shape that lie between these ends, whether they meet the goal."""
    meets = OPERATORS[goal.comparison]
    met, may_meet = meets(at_worst, goal.threshold), meets(at_best, goal.threshold)
    return np.where(met & may_meet, PASS, np.where(met | may_meet, OPEN, FAIL))


def counted(rule: PassRule, seeds: Ints, passed: Ints, failed: Ints) -> Ints:
    """Returns the outcomes of cells by a rule that counts seeds, `any` or `all`. seeds: how many
    seeds of each cell count. passed, failed: how many have passed and failed. The others may do
    either. All are of one shape."""
    needed = np.ones_like(seeds) if rule == "any" else seeds
    return PASS * (passed >= needed) + FAIL * (failed > seeds - needed)


def by_rules(seeds: Ints, passed: Ints, failed: Ints, median: Ints) -> dict[PassRule, Ints]:
    """Returns the outcomes of cells by each of RULES. median: what the condition says of the median
    of each score. By `median` a cell never passes where no seed does, and never fails where no seed
    does, which a condition on several scores might say. Shapes as in `counted`."""
    mildest, strictest = (counted(rule, seeds, passed, failed) for rule in ("any", "all"))
    return {"any": mildest, "median": np.clip(median, strictest, mildest), "all": strictest}


@lru_cache(maxsize=100_000)
def decide(
    goal: Goal, rule: PassRule, at_worst: tuple[float, ...], at_best: tuple[float, ...]
) -> int:
    """Returns the outcome of one cell whose seeds, at least one, have scores between these ends. It
    is decided where its score by the pass rule meets the goal at both ends, or misses it."""
    of_cell = (of_one(side, rule, goal.better) for side in (at_worst, at_best))
    return int(votes(goal, *map(np.float64, of_cell)))


def at_budgets(
    goal: Goal,
    rule: PassRule,
    endings: Sequence[Mapping[int, Ending]],
    planned: Sequence[Collection[int]],
) -> tuple[list[int], list[dict[int, int]]]:
    """Returns the outcome of a cell by each of its budgets, the least first, and by seed whether it
    meets the goal by then.

    endings: those of its trials, by seed, at each budget. planned: the seeds that count there even
    before they have ended. Every other seed counts from the budget on at which it first ended.
    """
    seeds = sorted({seed for each in (*endings, *planned) for seed in each})
    shape = len(endings), len(seeds)
    flat = [each.get(seed) for each in endings for seed in seeds]
    statuses = [ending.status if ending else None for ending in flat]
    numbers = [np.nan if e is None or e.score is None else e.score for e in flat]
    at_each = known(statuses, numbers, *ends(goal.metric, goal.better))
    reached = by_budget(Scores(*(each.reshape(shape) for each in at_each)), goal.better)
    ended = np.logical_or.accumulate(np.array([e is not None for e in flat]).reshape(shape), axis=0)
    outcomes, seed_votes = [], []
    every = votes(goal, reached.at_worst, reached.at_best).tolist()
    ends_of = list(zip(reached.at_worst.tolist(), reached.at_best.tolist(), strict=True))
    for level, expected in enumerate(planned):
        counting = [i for i, seed in enumerate(seeds) if ended[level, i] or seed in expected]
        sides = (tuple(side[i] for i in counting) for side in ends_of[level])
        outcomes.append(decide(goal, rule, *sides) if counting else OPEN)
        seed_votes.append({seeds[i]: every[level][i] for i in counting})
    return outcomes, seed_votes


def over_budgets(outcomes: Ints, cell: Ints, cells: int, decisive: int = PASS) -> Ints:
    """Returns the outcome over budgets: `decisive` where one budget has that, and the other one
    where a budget has that. A budget that is open undoes nothing. outcomes: of shape (n,), and
    `cell` says to which of the `cells` each belongs."""
    best, worst = np.full(cells, -2), np.full(cells, 2)
    np.maximum.at(best, cell, outcomes * decisive)
    np.minimum.at(worst, cell, outcomes * decisive)
    return decisive * np.where((best == PASS) | (worst != FAIL), np.minimum(best, 1), FAIL)


def over_rates(outcomes: Ints, cell: Ints, cells: int, decisive: int = PASS) -> Ints:
    """Returns the outcome over nuisance values: `decisive` where one of them has that, and the
    other one where all have that. Shapes as in `over_budgets`."""
    best = np.full(cells, FAIL)
    np.maximum.at(best, cell, outcomes * decisive)
    return decisive * best


def confirmed(passed: Any, failed: Any) -> Any:
    """Returns whether so many fresh seeds that passed, and that failed, confirm a cell's pass."""
    return passed >= CONFIRMING + failed


def is_near(scores: Sequence[float], totals: Collection[int], goal: Goal, rule: PassRule) -> bool:
    """Returns whether the cell's score is a share whose Wilson interval contains the goal's
    threshold. totals: the sizes of the test samples that are known."""
    if not scores or not totals or not is_share(goal.metric):
        return False
    total = sum(totals) if rule == "mean" else max(totals)
    low, high = wilson(of_one(scores, rule, goal.better), total)
    return low <= goal.threshold <= high


def as_bool(outcome: int) -> bool | None:
    """Returns an outcome as True, False or None."""
    return None if outcome == OPEN else outcome == PASS
