"""Nuisance axes (`tune: [train.lr]`). A question is about each cell at its best over these axes.

Cells that differ in nuisance axes alone are taken as one, and this one stands for the best of them.
Where the best value of an axis lies at the edge of those that were tried, a wider range may do
better still. Where a sweep settles its answers, the steps are such an axis. A pass with fewer steps
stays a pass. A budget with seeds that have not ended does not change what the other budgets say.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sweepd.judge.cells import FAIL, PASS, over_budgets, over_rates
from sweepd.query.cells import Cell
from sweepd.query.expressions import Node, trend
from sweepd.query.grouping import Grouping


def tuned(
    grouping: Grouping, cells: Sequence[Cell], condition: Node, merit: Callable[[Cell], Any]
) -> list[Cell]:
    """Returns the cells, where one stands for all that differ in nuisance axes alone and have the
    same first value. merit: is larger for a better cell."""
    views, axes = grouping.views, grouping.tuned
    if not axes:
        return list(cells)
    settles = views.selection.settles
    by_steps = settles and grouping.question.verb in ("min", "fit")

    def rank(cell: Cell) -> Any:
        """Where a pass stays a pass, the best of several is one with the fewest steps."""
        return (-cell.steps if cell.outcome else 0, merit(cell)) if by_steps else merit(cell)

    ordered = [axis for axis in axes if axis != "steps" or not settles]
    rest = [name for name in views.identity if name not in axes]
    budgets_join = settles and "steps" in axes
    families: dict[Any, list[Cell]] = defaultdict(list)
    family_of: dict[Any, int] = {}
    rate_of: dict[Any, int] = {}
    rates = np.zeros((2, len(cells)), np.int64)
    """The rate of each cell, and the family of each rate."""
    for number, cell in enumerate(cells):
        key = (*(cell.row[name] for name in rest), cell.values[0])
        families[key].append(cell)
        rate = tuple(cell.row[name] for name in ordered) if budgets_join else number
        rates[0, number] = rate_of.setdefault((key, rate), len(rate_of))
        rates[1, rates[0, number]] = family_of.setdefault(key, len(family_of))
    decisive = decisive_of(condition)
    together = []
    for outcomes in np.array([cell.outcomes for cell in cells], np.int64).T:
        by_rate = over_budgets(outcomes, rates[0], len(rate_of), decisive)
        together.append(over_rates(by_rate, rates[1, : len(rate_of)], len(families), decisive))
    best_of_each = []
    for rivals, of_rules in zip(families.values(), np.array(together).T.tolist(), strict=True):
        counting = _decided(rivals, ordered) if budgets_join else rivals
        passing = [rival for rival in counting if rival.outcome] if of_rules[0] == PASS else []
        best = max(passing or counting, key=rank)
        cell = replace(
            best,
            outcomes=tuple(of_rules),
            rivals=tuple(point for rival in rivals for point in rival.points),
            tuned=(*axes, *best.tuned),
            edge=",".join(axis for axis in ordered if at_edge(axis, best, rivals)),
        )
        best_of_each.append(cell)
    return best_of_each


def decisive_of(condition: Node) -> int:
    """Returns the outcome of one cell that is enough for all that are taken together. If the
    condition asks for bad scores, all have to meet it."""
    return FAIL if trend(condition) == -1 else PASS


def within_budgets(cells: Sequence[Cell], identity: Sequence[str]) -> list[Cell]:
    """Returns, for each budget of steps, the cells as they stand with at most that many steps. Each
    stands for the cells that differ from it in fewer steps alone, too, since a pass with fewer
    steps stays a pass. Cells whose budget nobody knows stay as they are.

    identity: the columns that tell cells apart.
    """
    families: dict[Any, list[Cell]] = defaultdict(list)
    rest = [name for name in identity if name != "steps"]
    for cell in cells:
        families[tuple(cell.row[name] for name in rest)].append(cell)
    within = [cell for cell in cells if not cell.steps]
    budgets = sorted({cell.steps for cell in cells} - {0})
    for family in families.values():
        for budget in budgets:
            if reached := [cell for cell in family if 0 < cell.steps <= budget]:
                one = np.zeros(len(reached), np.int64)
                by_rule = np.array([cell.outcomes for cell in reached]).T
                outcomes = tuple(int(over_budgets(each, one, 1)[0]) for each in by_rule)
                counting = _decided(reached, [])
                passing = [cell for cell in counting if cell.outcome]
                best = min(passing or counting, key=lambda c: c.steps if passing else -c.steps)
                row: dict[str, Any] = {**best.row, "steps": budget}
                cell = replace(best, row=row, outcomes=outcomes, tuned=("steps",))
                within.append(replace(cell, rivals=tuple(reached)))
    return within


def _decided(rivals: Sequence[Cell], rest: Sequence[str]) -> Sequence[Cell]:
    """The cells that may be shown, of those that differ only in their budget and in the axes
    `rest`. A budget that is open is not shown beside one that is decided. Else the first is."""
    families: dict[Any, list[Cell]] = defaultdict(list)
    for rival in rivals:
        families[tuple(rival.row[name] for name in rest)].append(rival)
    counting: list[Cell] = []
    for family in families.values():
        counting += [rival for rival in family if rival.outcome is not None] or family[:1]
    return counting


def at_edge(axis: str, best: Cell, rivals: Sequence[Cell]) -> bool:
    """Returns whether the best cell has the least or the greatest of the tried values of an axis.
    It is False where fewer than two values were tried, or where one of them has no order."""
    tried = {place(rival.row, axis) for rival in rivals if rival.measured}
    if not best.measured or None in tried or len(tried) < 2:
        return False
    places = sorted(at for at in tried if at is not None)
    return place(best.row, axis) in (places[0], places[-1])


def place(row: Mapping[str, Any], axis: str) -> float | None:
    """Returns where a cell stands on a nuisance axis, or None if the cell's value has no order.

    A learning rate, or a rule for one (as JSON), stands at the peak rate that it gives at the
    cell's d. So plain rates, and rules that differ in more than `base`, have one order.
    """
    value = row[axis]
    try:
        if isinstance(value, str):
            value = json.loads(value)
        if isinstance(value, dict):
            from sweepd.grid.settings import LrRule  # a rule is seldom swept

            value = LrRule(**value).at(row["d"])
    except (TypeError, ValueError, ArithmeticError):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
