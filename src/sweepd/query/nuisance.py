"""Nuisance axes (`tune: [train.lr]`). A question is about each cell at its best over these axes.

Cells that differ in nuisance axes alone are taken as one, and this one stands for the best of them
(`cells.together`). Where the best value of an axis lies at the edge of those that were tried, a
wider range may do better still.

Where a sweep settles its answers, the steps are such an axis. A pass with fewer steps stays a pass.
A budget with seeds that have not ended yet does not change what the other budgets say.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweepd.query.cells import Cell, getter, together
from sweepd.query.expressions import Node


def tuned(
    cells: Sequence[Cell],
    axes: Sequence[str],
    apart: Sequence[str],
    condition: Node,
    merit: Callable[[Cell], Any],
    budgets: str | None = None,
) -> list[Cell]:
    """Returns the cells, where one stands for all that differ in the nuisance `axes` alone.

    apart: the columns that tell cells apart. Such cells also have the same first value. merit: is
    larger for a better cell. budgets: the one of the axes along which a pass stays a pass, if there
    is one.
    """
    if not axes:
        return list(cells)
    families = defaultdict(list)
    rest = getter([name for name in apart if name not in axes])
    for cell in cells:
        families[rest(cell.row), cell.values[0]].append(cell)
    return [_as_one(rivals, axes, condition, merit, budgets) for rivals in families.values()]


def fewest_steps(merit: Callable[[Cell], Any]) -> Callable[[Cell], Any]:
    """Returns a merit by which the best of several cells that pass is one with the fewest steps."""
    return lambda cell: (-cell.steps if cell.outcome else 0, merit(cell))


def within_budgets(cells: Sequence[Cell], apart: Sequence[str]) -> list[Cell]:
    """Returns, for each budget of steps, the cells as they stand with at most that many steps. Each
    stands for the same cell with fewer steps, too, since a pass with fewer steps stays a pass.
    Cells whose budget nobody knows stay as they are.

    apart: the columns that tell cells apart. Cells are the same if they differ in no other of these
    columns than the steps.
    """
    families: dict[Any, list[Cell]] = defaultdict(list)
    rest = getter([name for name in apart if name != "steps"])
    for cell in cells:
        families[rest(cell.row)].append(cell)
    budgets = sorted({cell.steps for cell in cells} - {0})
    found = [cell for cell in cells if not cell.steps]
    for family in families.values():
        for budget in budgets:
            reached = [cell for cell in family if 0 < cell.steps <= budget]
            if reached:
                counting = _decided(reached, [])
                passing = [cell for cell in counting if cell.outcome]
                if passing:
                    best = min(passing, key=lambda cell: cell.steps)
                else:
                    best = max(counting, key=lambda cell: cell.steps)
                row = {**best.row, "steps": budget}
                found.append(replace(best, row=row, rivals=tuple(reached), tuned=("steps",)))
    return found


def _as_one(
    rivals: Sequence[Cell],
    axes: Sequence[str],
    condition: Node,
    merit: Callable[[Cell], Any],
    budgets: str | None,
) -> Cell:
    ordered = [axis for axis in axes if axis != budgets]
    along = budgets if budgets in axes else None
    counting = _decided(rivals, ordered) if along else rivals
    outcome = together(counting, condition)
    candidates = [rival for rival in counting if rival.outcome or not outcome]
    best = max(candidates, key=merit)
    return replace(
        best,
        outcome=outcome,
        rivals=tuple(point for rival in rivals for point in rival.points),
        tuned=(*axes, *best.tuned),
        edge=",".join(axis for axis in ordered if at_edge(axis, best, rivals)),
    )


def _decided(rivals: Sequence[Cell], rest: Sequence[str]) -> Sequence[Cell]:
    """Returns the cells that count, of those that differ only in their budget and in the axes
    `rest`. A budget that is open does not count where another one is decided. Where all budgets are
    open, the first of the cells counts."""
    families: dict[Any, list[Cell]] = defaultdict(list)
    of_rest = getter(rest)
    for rival in rivals:
        families[of_rest(rival.row)].append(rival)
    counting = []
    for family in families.values():
        counting += [rival for rival in family if rival.outcome is not None] or family[:1]
    return counting


def at_edge(axis: str, best: Cell, rivals: Sequence[Cell]) -> bool:
    """Returns whether the best cell has the least or the greatest of the tried values of an axis.
    It is False where fewer than two values were tried, or where one of them has no order."""
    tried = {place(rival.row, axis) for rival in rivals if rival.measured}
    if not best.measured or None in tried or len(tried) < 2:
        return False
    places = sorted(found for found in tried if found is not None)
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
