"""The cells behind the rows of `min`, one by one. Figures draw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from sweepd.query.bounds import Value
from sweepd.query.cells import Cell
from sweepd.statuses import STATUSES

if TYPE_CHECKING:
    from sweepd.query.grouping import Grouping
    from sweepd.query.minima import MinRow
    from sweepd.query.reply import Merit

CellState = Literal["passed", "failed", "inferred", "ended early", "unfinished", "untried"]
"""What is known of the cells of one group that share a value. The first of these that is true
holds.

passed: one of the cells passes. failed: all of them ran their budget and failed. inferred: they
have not all failed themselves, but a larger value did, or a cell of a smaller size. ended early:
some of their seeds were solved or stopped before the condition was decided. unfinished: some of
their trials have ended. untried: none has.
"""


def cell_rows(
    grouping: Grouping, found: Sequence[MinRow], merit: Merit
) -> tuple[dict[str, Any], ...]:
    """Returns one row for each cell of the grid, in the order of the rows and of their values.

    Each has the columns of its group and these of its own:

    cell: its number in `raw.cells`. value: what is minimised. state: that of all cells of the group
    that share the value. stands: whether it is the best of these. decides: whether it may lower the
    row's value. wins: whether it gave the row's value. steps: its budget. at: its other axes, as
    JSON. seeds: their count. passed: how many of them pass.

    Its scores and the counts of each status follow.
    """
    return tuple(
        {**row.columns, **told}
        for row in found
        for value, cells in row.by_value.items()
        for told in _rows(grouping, row, value, cells, merit)
    )


def _rows(
    grouping: Grouping, row: MinRow, value: Value, cells: Sequence[Cell], merit: Merit
) -> Iterator[dict[str, Any]]:
    state = _state(row, value, cells)
    best = max([cell for cell in cells if cell.outcome] or cells, key=merit).row["cell"]
    decides, wins = cells is row.deciding, value == row.bound.value
    for point in (point for cell in cells for point in cell.points):
        yield {
            "cell": point.row["cell"],
            "value": value,
            "state": state,
            "stands": point.row["cell"] == best,
            "decides": decides,
            "wins": wins,
            "steps": point.row.get("steps"),
            "at": grouping.at(point),
            **point.scores(),
            "seeds": point.row["seeds"],
            "passed": point.passed,
            **{status: point.row[status] for status in STATUSES},
        }


def _state(row: MinRow, value: Value, cells: Sequence[Cell]) -> CellState:
    points = [point.row for cell in cells for point in cell.points]
    if any(cell.outcome for cell in cells):
        return "passed"
    if all(cell.failed for cell in cells):
        return "failed"
    if row.bound.fail is not None and value <= row.bound.fail:
        return "inferred"
    if any(point["solved"] or point["stopped"] for point in points):
        return "ended early"
    tried = any(point[status] for point in points for status in STATUSES)
    return "unfinished" if tried else "untried"
