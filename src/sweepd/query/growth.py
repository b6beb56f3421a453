"""The rows of `fit`, which say how the least value that passes grows along a column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sweepd.errors import UserError
from sweepd.query.cells import Cell
from sweepd.query.database import Views
from sweepd.query.expressions import Column, Node
from sweepd.query.grouping import Grouping
from sweepd.query.laws import LAW_NAMES, difference, fit, refusal, weights
from sweepd.query.levels import Point, Tried
from sweepd.query.minima import MinRow, min_rows
from sweepd.query.parser import Question
from sweepd.query.reply import Merit, Reply, deciding, merged_notes
from sweepd.query.settled import settled_marks
from sweepd.query.theory import PREDICTED, agrees, at_hand

WEIGHTS = tuple(f"weight_{name}" for name in LAW_NAMES)
OVER_STANDARD = ("over_standard", "over_standard_low", "over_standard_high")
COLUMNS = (
    *("exponent", "low", "high", "growth", "factor", *WEIGHTS),
    *("points", "censored", "seeds", *OVER_STANDARD, "predicted", "at_hand", "agrees", "reason"),
)
"""The columns of a row besides those of its group."""

Key = tuple[Any, ...]
Points = Mapping[Key, Sequence[Point]]
"""What was tried at each value of the column to fit along, by group."""


def growth(
    views: Views,
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    condition: Node,
    merit: Merit,
) -> Reply:
    """Returns the answer to `fit`: the law of each group of the cells.

    Each of the cells must have a value of the question's expression. Raises UserError if such a
    value, or one of the column to fit along, is not positive.
    """
    [(text, node)] = question.expressions
    along = question.along
    assert along is not None
    cells = [cell for cell in cells if cell.row[along] is not None]
    _refuse_below_zero(text, [cell.values[0] for cell in cells])
    _refuse_below_zero(along, [cell.row[along] for cell in cells])
    finer = replace(grouping, group=(*grouping.group, along))
    found = min_rows(views, finer, cells)
    bounds = _bounds_only(views, found, condition)
    points = _points(found, bounds)
    rows = []
    for where, members in grouping.rows(cells):
        of_width = (node, along) == (Column("d"), "L")
        chained = all(cell.row.get("cot") is not False for cell in members)
        predicted = PREDICTED.get((where["task"], where["model"])) if of_width and chained else None
        known = points[tuple(where.values())]
        seeds = min((cell.decided for cell in members if cell.outcome is not None), default=0)
        told = _told(known, predicted) | {"seeds": seeds, "predicted": predicted}
        if where["model"] != "standard":
            told |= _over(known, points.get(tuple((where | {"model": "standard"}).values()), ()))
        rows.append(where | {name: told.get(name) for name in COLUMNS})
    notes = merged_notes(finer, cells)
    if any(row["seeds"] == 1 for row in rows):
        notes.append("one seed: how far seeds lie apart is guessed from what widths and sizes show")
    if bounds:
        notes.append(
            f"not settled: in {len(bounds)} of {len(found)} points only passes count, as bounds "
            "from above; their fails may be due to the training budget"
        )
    return Reply([*grouping.group, *COLUMNS], rows, deciding(found, merit), notes)


def _told(points: Sequence[Point], predicted: str | None) -> dict[str, Any]:
    """Returns the columns with the law through the points of one group, or with the reason why
    there is none."""
    known = [point for point in points if point.informative]
    told: dict[str, Any] = {
        "points": len(known),
        "censored": sum(not point.bracketed for point in known),
        "reason": refusal(points),
    }
    if not told["reason"]:
        law = fit(points)
        told |= {name: getattr(law, name) for name in ("exponent", "low", "high", "factor")}
        told |= {f"weight_{name}": weight for name, weight in weights(points).items()}
        told["growth"] = law.direction
        if predicted:
            told["at_hand"] = at_hand(predicted, [point.x for point in known])
            told["agrees"] = agrees(predicted, told["at_hand"], law)
    return told


def _over(points: Sequence[Point], standard: Sequence[Point]) -> dict[str, float]:
    """Returns OVER_STANDARD: how much larger the exponent is than that of the standard model, at
    the sizes that both have. The result is empty where these sizes cannot carry a fit."""
    found = difference(points, standard)
    if found is None:
        return {}
    return dict(zip(OVER_STANDARD, (found.exponent, found.low, found.high), strict=True))


def _refuse_below_zero(name: str, values: Sequence[float]) -> None:
    if least := [value for value in values if value <= 0]:
        raise UserError(f"`{name}` is {least[0]} somewhere: power laws are of positive numbers")


def _bounds_only(views: Views, found: Sequence[MinRow], condition: Node) -> set[Key]:
    """Returns the groups of the rows that more training may change. The set is empty if no
    selected sweep settles its answers."""
    if not views.settles:
        return set()
    return {
        tuple(row.columns.values())
        for row, mark in zip(found, settled_marks(views, found, condition), strict=True)
        if mark.settled != "yes"
    }


def _points(found: Sequence[MinRow], bounds: set[Key]) -> Points:
    points: dict[Key, list[Point]] = defaultdict(list)
    for row in found:
        *key, x = row.columns.values()
        tried = tuple(map(_tried, row.by_value.items()))
        if (*key, x) in bounds:
            tried = tuple(replace(one, failed=0) for one in tried)
        points[tuple(key)].append(Point(x, tried))
    return points


def _tried(found: tuple[float, Sequence[Cell]]) -> Tried:
    """Returns how many seeds passed and failed in the best of the cells that share a value."""
    value, cells = found
    best = max(cells, key=lambda cell: (cell.outcome is True, cell.passed / (cell.decided or 1)))
    return Tried(value, best.passed, best.decided - best.passed)
