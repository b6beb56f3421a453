"""The rows of `min`: what the cells of each group say about the least value that passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
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

Key = tuple[Any, ...]
"""The values of all columns that tell cells apart, except those of the size and some others."""


@dataclass(frozen=True)
class Fails:
    """What failed at which sizes, by all else. points: for each point of the grid, the sizes at
    which it failed, with the longest budget of steps there. cells: for each cell, whether it failed
    as a whole at each size at which there is one."""

    points: Mapping[Key, Mapping[int, int]]
    cells: Mapping[Key, Mapping[int, bool]]


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
    failed = _fails(views, grouping, cells) if grouping.across_sizes else Fails({}, {})
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
            every = [_candidate(views, grouping, same, failed) for same in by_value.values()]
            bound = bound_of(grouping, every)
        found.append(MinRow(columns, by_value, bound))
    return found


def bound_of(grouping: Grouping, candidates: Sequence[Candidate]) -> Bound:
    """Returns what is claimed of the least of these values, which rise, that passes."""
    return judge(up_to_the_first_pass(candidates) if grouping.of_compute else candidates)


def _candidate(views: Views, grouping: Grouping, cells: Sequence[Cell], failed: Fails) -> Candidate:
    """Returns what is known of the value that these cells of one group share."""
    points = [(cell, point) for cell in cells for point in cell.points]
    passed = None
    if any(cell.outcome for cell in cells):
        passed = True
    elif all(cell.failed for cell in cells):
        passed = False
    fails = [failed.points.get(_but_size(views, grouping, *one), {}) for one in points]
    shared = set.intersection(*map(set, fails))
    size = min(point.row["size"] for _, point in points)
    whole = [failed.cells.get(_of_cell(views, grouping, cell), {}) for cell in cells]
    # A smaller size counts against a pass if none of these cells did any better there.
    against = {at for one in whole for at in one if at < size}
    against = {at for at in against if all(one.get(at, True) for one in whole)}
    contradicted = any(
        point.outcome and budget >= point.steps and at in against
        for (_, point), budgets in zip(points, fails, strict=True)
        for at, budget in budgets.items()
    )
    told = [point.steps for _, point in points if passed is not None and point.outcome is passed]
    budget = (min if passed else max)(told, default=0)
    smaller = min(shared, default=size) < size
    return Candidate(cells[0].values[0], passed, smaller, contradicted, budget)


def _tried(point: Cell) -> bool:
    return any(point.row[status] for status in STATUSES)


def _fails(views: Views, grouping: Grouping, cells: Sequence[Cell]) -> Fails:
    """Returns what failed at which sizes. Where cells are taken over several budgets, a point
    failed if it passed with none of them."""
    points: dict[Any, list[Cell]] = defaultdict(list)
    whole: dict[Key, dict[int, bool]] = defaultdict(dict)
    for cell in cells:
        whole[_of_cell(views, grouping, cell)][cell.row["size"]] = cell.failed
        for point in cell.points:
            points[_but_size(views, grouping, cell, point), point.row["size"]].append(point)
    sizes: dict[Any, dict[int, int]] = defaultdict(dict)
    for (rest, size), found in points.items():
        failed = [point.steps for point in found if point.failed]
        if failed and not any(point.outcome for point in found):
            sizes[rest][size] = max(failed)
    return Fails(sizes, whole)


def _of_cell(views: Views, grouping: Grouping, cell: Cell) -> Key:
    """Returns all that makes a cell, except its size, what follows from that, and its nuisance
    axes."""
    return _but_size(views, grouping, cell, cell, cell.tuned)


def _but_size(
    views: Views, grouping: Grouping, cell: Cell, point: Cell, but: Sequence[str] = ()
) -> Key:
    """Returns all that makes a point of a cell, except its size, L and the task's size field, which
    follow from the size, and the columns of `but`. Where the cell stands for several budgets, its
    row's budget, if rows have one, takes the place of the point's."""
    left_out = {"size", "L", views.size_fields.get(point.row["task"]), *but}
    within = None
    if "steps" in cell.tuned:
        left_out.add("steps")
        within = cell.steps if "steps" in grouping.group else None
    return within, _getter(tuple(views.identity), frozenset(left_out))(point.row)


@cache
def _getter(columns: tuple[str, ...], left_out: frozenset[str | None]) -> Callable[[Any], Any]:
    """Returns the function that gets a row's values of these columns, without those left out."""
    return itemgetter(*(name for name in columns if name not in left_out))
