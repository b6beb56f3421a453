"""The result of one verb of a question, and helpers that the verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweepd.query.cells import Cell
from sweepd.query.grouping import Grouping
from sweepd.query.minima import MinRow
from sweepd.statuses import RAN

Merit = Callable[[Cell], Any]
"""A function that says how good a cell is. Its result is greater for a better cell."""


@dataclass(frozen=True)
class Reply:
    """The result of one verb."""

    columns: list[str]
    rows: list[dict[str, Any]]
    deciding: list[Cell]
    """The cells on which the rows depend."""
    notes: list[str]
    tell_cells: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    """The function that makes `Answer.cells`."""


def deciding(found: Sequence[MinRow], merit: Merit) -> list[Cell]:
    """Returns the best cell at each end of what is known of each least value: among the cells that
    pass with it, and among those that fail with the largest smaller value."""
    ends = [cells for row in found for cells in (row.passing, row.failing) if cells]
    return [max(cells, key=merit) for cells in ends]


def told_of(grouping: Grouping, cell: Cell) -> dict[str, Any]:
    """Returns the columns that tell a row's reader about the one cell that the row shows."""
    return {
        **{name: cell.row[name] for name in grouping.shown},
        "seeds": sum(cell.row[status] for status in RAN),
        **cell.scores(),
        "at": grouping.at(cell),
        "edge": cell.edge,
    }


def merged_notes(grouping: Grouping, cells: Iterable[Cell]) -> list[str]:
    """Returns a list with one note, on the columns over which rows are the best though the question
    does not mention them. The list is empty if there are no such columns."""
    merged = ", ".join(grouping.merged(cell for cell in cells if cell.has_values))
    return [f"merged: rows are the best over {merged}, which `by` leaves out"] if merged else []
