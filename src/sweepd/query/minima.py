"""Lines of cells: what each row of an answer knows of the least value that passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweepd.query.bounds import Bound, Candidate, Value, judge
from sweepd.query.cells import Cell
from sweepd.query.database import Views
from sweepd.query.grouping import Grouping
from sweepd.statuses import STATUSES

Sizes = Mapping[tuple[Any, ...], set[int]]
"""Sizes by all that makes a cell but its size."""


@dataclass(frozen=True)
class MinRow:
    """The cells of one row."""

    columns: dict[str, Any]
    """Those of the group."""
    by_value: dict[Value, list[Cell]]
    """By what is minimised, rising."""
    bound: Bound

    @property
    def passing(self) -> list[Cell]:
        """Cells with the least value that pass."""
        if self.bound.value is None:
            return []
        return [cell for cell in self.by_value[self.bound.value] if cell.outcome]

    @property
    def at_the_smallest(self) -> bool:
        """Whether no smaller value was there to fail."""
        return self.bound.value == next(iter(self.by_value))

    @property
    def failing(self) -> list[Cell]:
        """Cells with the largest smaller value that failed, if they failed themselves."""
        if self.bound.fail is None:
            return []
        return [cell for cell in self.by_value[self.bound.fail] if cell.outcome is False]

    @property
    def largest_tried(self) -> list[Cell]:
        """Cells that were tried, with the largest value at which there are any."""
        for cells in reversed(list(self.by_value.values())):
            if tried := [cell for cell in cells if any(map(_tried, cell.points))]:
                return tried
        return []


def min_rows(views: Views, grouping: Grouping, cells: Sequence[Cell]) -> list[MinRow]:
    """The cells, row by row, with what they say together."""
    failed = _failed_sizes(views, cells) if grouping.across_sizes else {}
    found = []
    for columns, members in grouping.rows(cells):
        by_value: dict[Value, list[Cell]] = {}
        for cell in sorted(members, key=lambda cell: cell.values[0]):
            by_value.setdefault(cell.values[0], []).append(cell)
        candidates = [_candidate(views, shared, failed) for shared in by_value.values()]
        found.append(MinRow(columns, by_value, judge(candidates)))
    return found


def _candidate(views: Views, cells: Sequence[Cell], failed: Sizes) -> Candidate:
    """What is known of the value that these cells of one group share."""
    outcomes = {cell.outcome for cell in cells}
    passed = True if True in outcomes else None if None in outcomes else False
    smaller = (
        {size for size in failed.get(_but_size(views, point), ()) if size < point.row["size"]}
        for cell in cells
        for point in cell.points
    )
    return Candidate(cells[0].values[0], passed, bool(set.intersection(*smaller)))


def _tried(point: Cell) -> bool:
    return any(point.row[status] for status in STATUSES)


def _failed_sizes(views: Views, cells: Sequence[Cell]) -> Sizes:
    """The sizes at which a point of the grid failed."""
    sizes = defaultdict(set)
    for point in (point for cell in cells for point in cell.points):
        if point.outcome is False:
            sizes[_but_size(views, point)].add(point.row["size"])
    return sizes


def _but_size(views: Views, cell: Cell) -> tuple[Any, ...]:
    """All that makes a cell except its size, and L and costs, which follow from it."""
    size_field = views.size_fields.get(cell.row["task"])
    return tuple(cell.row[name] for name in views.identity if name not in ("size", "L", size_field))
