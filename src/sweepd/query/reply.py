"""What one verb of a question found, and what the verbs share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweepd.query.cells import Cell
from sweepd.query.grouping import Grouping
from sweepd.query.minima import MinRow

Merit = Callable[[Cell], Any]
"""How good a cell is: it rises."""


@dataclass(frozen=True)
class Reply:
    """What one verb found."""

    columns: list[str]
    rows: list[dict[str, Any]]
    deciding: list[Cell]
    """The cells on which the rows hang."""
    notes: list[str]
    tell_cells: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    """As of `Answer`."""


def deciding(found: Sequence[MinRow], merit: Merit) -> list[Cell]:
    """The best cell at each end of what is known of a least value."""
    ends = [cells for row in found for cells in (row.passing, row.failing) if cells]
    return [max(cells, key=merit) for cells in ends]


def told_of(grouping: Grouping, cell: Cell) -> dict[str, Any]:
    """What a row tells of the one cell that it shows."""
    return {
        **{name: cell.row[name] for name in grouping.shown},
        "seeds": cell.row["ended"],
        **cell.scores(),
        "at": grouping.at(cell),
        "edge": cell.edge,
    }


def merged_notes(grouping: Grouping, cells: Iterable[Cell]) -> list[str]:
    """Says over which columns a row is the best, though the question does not speak of them."""
    merged = ", ".join(grouping.merged(cell for cell in cells if cell.has_values))
    return [f"merged: rows are the best over {merged}, which `by` leaves out"] if merged else []
