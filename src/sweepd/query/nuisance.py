"""Nuisance axes (`tune: [train.lr]`): a question is about each cell at its best over them.

Cells that differ in nuisance axes alone are taken as one, which stands for the best of them: see
`cells.together`. Where the best value of an axis lies at the edge of those that were tried, a wider
range may do better still.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sweepd.grid.settings import LrRule
from sweepd.query.cells import Cell, together
from sweepd.query.expressions import Node


def tuned(
    cells: Sequence[Cell],
    axes: Sequence[str],
    rest: Sequence[str],
    condition: Node,
    merit: Callable[[Cell], Any],
) -> list[Cell]:
    """The cells, where one stands for all that differ in the nuisance `axes` alone.

    Such cells have the same first value and the same columns `rest`. `merit` rises with how good a
    cell is.
    """
    if not axes:
        return list(cells)
    families = defaultdict(list)
    for cell in cells:
        families[*(cell.row[name] for name in rest), cell.values[0]].append(cell)
    return [_as_one(rivals, axes, condition, merit) for rivals in families.values()]


def _as_one(
    rivals: Sequence[Cell], axes: Sequence[str], condition: Node, merit: Callable[[Cell], Any]
) -> Cell:
    outcome = together(rivals, condition)
    best = max((rival for rival in rivals if rival.outcome or not outcome), key=merit)
    return replace(
        best,
        outcome=outcome,
        rivals=tuple(rivals),
        edge=",".join(axis for axis in axes if _at_edge(axis, best, rivals)),
    )


def _at_edge(axis: str, best: Cell, rivals: Sequence[Cell]) -> bool:
    """Whether no tried value lies on one side of the best one, where there are others at all."""
    tried = {_place(rival, axis) for rival in rivals if rival.measured}
    if not best.measured or None in tried or len(tried) < 2:
        return False
    places = sorted(place for place in tried if place is not None)
    return _place(best, axis) in (places[0], places[-1])


def _place(cell: Cell, axis: str) -> float | None:
    """Where a cell stands on a nuisance axis; None if the axis has no order.

    A learning rate, or a rule for it (JSON), stands at the peak rate that it gives at the cell's d.
    So plain rates and rules that differ in more than `base` have one order.
    """
    value = cell.row[axis]
    try:
        if isinstance(value, str):
            value = json.loads(value)
        if isinstance(value, dict):
            value = LrRule(**value).at(cell.row["d"])
    except (TypeError, ValueError, ArithmeticError):
        return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
