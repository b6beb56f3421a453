"""The rows of `fit`: how the least value that passes grows along a column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from sweepd.errors import UserError
from sweepd.query.cells import Cell, resampled
from sweepd.query.database import Views
from sweepd.query.expressions import Column, Node
from sweepd.query.grouping import Grouping
from sweepd.query.minima import MinRow, min_rows
from sweepd.query.parser import Question
from sweepd.query.power_law import PREDICTED, Point, agrees, fit, refusal
from sweepd.query.reply import Merit, Reply, deciding, merged_notes

COLUMNS = (
    *("exponent", "low", "high", "factor"),
    *("points", "censored", "seeds", "predicted", "agrees", "reason"),
)
"""Those of a row besides its group's."""

Points = Mapping[tuple[Any, ...], Sequence[Point]]
"""What is known of the least value, by group, at each value of the column to fit along."""


def growth(
    views: Views,
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    condition: Node,
    merit: Merit,
) -> Reply:
    """The law of each group of the cells, which all have a value of the question's expression.

    UserError where that value, or the column to fit along, is not positive.
    """
    [(text, node)] = question.expressions
    along = question.along
    assert along is not None
    cells = [cell for cell in cells if cell.row[along] is not None]
    _refuse_below_zero(text, [cell.values[0] for cell in cells])
    _refuse_below_zero(along, [cell.row[along] for cell in cells])
    finer = replace(grouping, group=(*grouping.group, along))
    found = min_rows(views, finer, cells)
    points = _points(found)
    resamples = [
        _points(min_rows(views, finer, drawn)) for drawn in resampled(views, condition, cells)
    ]
    rows = []
    for where, members in grouping.rows(cells):
        of_width = (node, along) == (Column("d"), "L")
        chained = all(cell.row.get("cot") is not False for cell in members)
        predicted = PREDICTED.get((where["task"], where["model"])) if of_width and chained else None
        key = tuple(where.values())
        law = _law(points[key], [resample[key] for resample in resamples], predicted)
        seeds = min((cell.decided for cell in members if cell.outcome is not None), default=0)
        law |= {"seeds": seeds, "predicted": predicted}
        rows.append(where | {name: law[name] for name in COLUMNS})
    notes = merged_notes(finer, cells)
    if any(row["seeds"] == 1 for row in rows):
        notes.append("one seed: intervals hold the steps of the grid, no spread of seeds")
    return Reply([*grouping.group, *COLUMNS], rows, deciding(found, merit), notes)


def _law(
    points: Sequence[Point], resamples: Sequence[Sequence[Point]], predicted: str | None
) -> dict[str, Any]:
    """The law through the points of one group, or the reason why there is none."""
    reason = refusal(points)
    law = fit(resamples) if reason is None else None
    known = [point for point in points if point.informative]
    return {
        **{name: getattr(law, name, None) for name in ("exponent", "low", "high", "factor")},
        "points": len(known),
        "censored": sum(not point.bracketed for point in known),
        "agrees": agrees(predicted, law.low, law.high) if predicted and law else None,
        "reason": reason,
    }


def _refuse_below_zero(name: str, values: Sequence[float]) -> None:
    if least := [value for value in values if value <= 0]:
        raise UserError(f"`{name}` is {least[0]} somewhere: power laws are of positive numbers")


def _points(found: Sequence[MinRow]) -> Points:
    points: dict[tuple[Any, ...], list[Point]] = defaultdict(list)
    for row in found:
        *key, x = row.columns.values()
        least = inf if row.bound.value is None else row.bound.value
        points[tuple(key)].append(Point(x, row.bound.fail or 0, least))
    return points
