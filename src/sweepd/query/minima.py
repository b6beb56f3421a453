"""The rows of `min`: what the cells of each group say about the least value that passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweepd.query.bounds import (
    Bound,
    Candidate,
    Value,
    judge,
    judge_measured,
    up_to_the_first_pass,
)
from sweepd.query.cells import Cell
from sweepd.query.database import Views
from sweepd.query.grouping import Grouping
from sweepd.statuses import STATUSES

Sizes = Mapping[tuple[Any, ...], set[int]]
"""Sets of sizes, by the values of all columns that tell cells apart except those of the size."""


@dataclass(frozen=True)
class MinRow:
    """The cells of one group, and what they say together about the least value that passes."""

    columns: dict[str, Any]
    """The columns of the group, with their values."""
    by_value: dict[Value, list[Cell]]
    """The cells by the value of what is minimised, from the least value to the greatest."""
    bound: Bound

    @property
    def passing(self) -> list[Cell]:
        """The cells that pass with the least value that passes."""
        if self.bound.value is None:
            return []
        return [cell for cell in self.by_value[self.bound.value] if cell.outcome]

    @property
    def failing(self) -> list[Cell]:
        """The cells that failed themselves at the row's `fail`, the largest smaller value that
        failed at this size or at a smaller one."""
        if self.bound.fail is None:
            return []
        return [cell for cell in self.by_value[self.bound.fail] if cell.failed]

    @property
    def deciding(self) -> list[Cell]:
        """The cells with the next smaller value, which decide whether the row's value is the least.
        Where nothing passes, they are the cells with the largest value."""
        smaller = [v for v in self.by_value if self.bound.value is None or v < self.bound.value]
        return self.by_value[smaller[-1]] if smaller else []

    @property
    def passes_at_the_smallest(self) -> bool:
        """Whether the least value that passes is the least value of the group."""
        return self.bound.value == next(iter(self.by_value))

    @property
    def largest_tried(self) -> list[Cell]:
        """The cells that were tried, at the largest value at which there are any."""
        for cells in reversed(list(self.by_value.values())):
            if tried := [cell for cell in cells if any(map(_tried, cell.points))]:
                return tried
        return []


def min_rows(views: Views, grouping: Grouping, cells: Sequence[Cell]) -> list[MinRow]:
    """Returns one row for each group of these cells. A group in which the expression has no value
    anywhere has no row."""
    failed = _failed_sizes(views, cells) if grouping.across_sizes else {}
    found = []
    for columns, members in grouping.rows(cells):
        by_value: dict[Value, list[Cell]] = {}
        valued = (cell for cell in members if cell.has_values)
        for cell in sorted(valued, key=lambda cell: cell.values[0]):
            by_value.setdefault(cell.values[0], []).append(cell)
        if not by_value:
            continue
        if grouping.of_score:
            passed = [value for value, cells in by_value.items() if any(c.outcome for c in cells)]
            bound = judge_measured(passed, all(cell.failed for cell in members))
        else:
            every = [_candidate(views, shared, failed) for shared in by_value.values()]
            bound = judge(up_to_the_first_pass(every) if grouping.of_compute else every)
        found.append(MinRow(columns, by_value, bound))
    return found


def _candidate(views: Views, cells: Sequence[Cell], failed: Sizes) -> Candidate:
    """Returns what is known of the value that these cells of one group share. failed: the sizes at
    which a point of the grid failed (`_failed_sizes`)."""
    passed = None
    if any(cell.outcome for cell in cells):
        passed = True
    elif all(cell.failed for cell in cells):
        passed = False
    smaller = (
        {size for size in failed.get(key, ()) if size < point.row["size"]}
        for cell in cells
        for point in cell.points
        for key in (_but_size(views, cell, point),)
    )
    points = [point for cell in cells for point in cell.points]
    budget = None
    if passed is not None:
        budgets = [point.row.get("steps") or 0 for point in points if point.outcome is passed]
        budget = (min if passed else max)(budgets)
    return Candidate(cells[0].values[0], passed, bool(set.intersection(*smaller)), budget)


def _tried(point: Cell) -> bool:
    return any(point.row[status] for status in STATUSES)


def _failed_sizes(views: Views, cells: Sequence[Cell]) -> Sizes:
    """Returns the sizes at which points of the grid failed, by all else that makes a cell. Where
    cells are taken over all budgets of steps, a size failed if it failed at each of them."""
    points: dict[Any, list[Cell]] = defaultdict(list)
    for cell in cells:
        for point in cell.points:
            points[_but_size(views, cell, point), point.row["size"]].append(point)
    sizes = defaultdict(set)
    for (rest, size), found in points.items():
        if any(point.failed for point in found) and not any(point.outcome for point in found):
            sizes[rest].add(size)
    return sizes


def _but_size(views: Views, cell: Cell, point: Cell) -> tuple[Any, ...]:
    """Returns all that makes a point except its size. L and the task's size field are left out too,
    since they follow from the size, and so are the steps where `cell` stands for all budgets."""
    row = point.row
    left_out = {"size", "L", views.size_fields.get(row["task"])}
    left_out |= {"steps"} & set(cell.tuned)
    return tuple([row[name] for name in views.identity if name not in left_out])
