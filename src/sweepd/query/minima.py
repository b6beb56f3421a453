"""The rows of `min`: what the cells of each group say about the least value that passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

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


class AcrossSizes(NamedTuple):
    """What a cell's settings say at each size. points: for each point of the cell, the sizes at
    which it failed, with the longest budget of steps there. whole: whether the cell failed as a
    whole at each size at which there is one."""

    points: Sequence[Mapping[int, int]]
    whole: Mapping[int, bool]


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
    failed = _fails(views, grouping, cells) if grouping.across_sizes else {}
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
            every = [_candidate(same, failed) for same in by_value.values()]
            bound = bound_of(grouping, every)
        found.append(MinRow(columns, by_value, bound))
    return found


def bound_of(grouping: Grouping, candidates: Sequence[Candidate]) -> Bound:
    """Returns what is claimed of the least of these values, which rise, that passes."""
    return judge(up_to_the_first_pass(candidates) if grouping.of_compute else candidates)


def _candidate(cells: Sequence[Cell], failed: Mapping[Cell, AcrossSizes]) -> Candidate:
    """Returns what is known of the value that these cells of one group share. failed: what failed
    at which sizes, by cell; empty where sizes are not compared."""
    points = [point for cell in cells for point in cell.points]
    passed = None
    if any(cell.outcome for cell in cells):
        passed = True
    elif all(cell.failed for cell in cells):
        passed = False
    told = [point.steps for point in points if passed is not None and point.outcome is passed]
    budget = (min if passed else max)(told, default=0)
    value = cells[0].values[0]
    if not failed:
        return Candidate(value, passed, budget=budget)
    size = min(point.row["size"] for point in points)
    fails = [sizes for cell in cells for sizes in failed[cell].points]
    smaller = any(at < size and all(at in one for one in fails) for at in fails[0])
    # A smaller size counts against a pass if none of these cells did any better there.
    whole = [failed[cell].whole for cell in cells]
    against = {at for one in whole for at in one if at < size}
    contradicted = any(
        point.outcome and steps >= point.steps and at in against
        and all(one.get(at, True) for one in whole)
        for point, sizes in zip(points, fails, strict=True)
        for at, steps in sizes.items()
    )  # fmt: skip
    return Candidate(value, passed, smaller, contradicted, budget)


def _tried(point: Cell) -> bool:
    return any(point.row[status] for status in STATUSES)


def _fails(views: Views, grouping: Grouping, cells: Sequence[Cell]) -> dict[Cell, AcrossSizes]:
    """Returns what each cell's settings say at each size. Where cells are taken over several
    budgets, a point failed if it passed with none of them."""
    points: dict[Any, dict[int, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    whole: dict[Any, dict[int, bool]] = defaultdict(dict)
    found = {}
    for cell in cells:
        keys = [_but_size(views, grouping, cell, point) for point in cell.points]
        of_points = [points[key] for key in keys]
        for same, point in zip(of_points, cell.points, strict=True):
            same[point.row["size"]].append(point)
        tuned = cell.tuned and _but_size(views, grouping, cell, cell, cell.tuned)
        of_cell = whole[tuned or keys[0]]
        of_cell[cell.row["size"]] = cell.failed
        found[cell] = of_points, of_cell
    failed = {id(same): _budgets(same) for same in points.values()}
    return {
        cell: AcrossSizes([failed[id(same)] for same in of_points], of_cell)
        for cell, (of_points, of_cell) in found.items()
    }


def _budgets(same: Mapping[int, Sequence[Cell]]) -> dict[int, int]:
    """Returns the sizes at which none of these points passed and one failed, with the longest
    budget at which it did."""
    found = {}
    for size, points in same.items():
        failed = [point.steps for point in points if point.failed]
        if failed and not any(point.outcome for point in points):
            found[size] = max(failed)
    return found


def _but_size(
    views: Views, grouping: Grouping, cell: Cell, point: Cell, but: Sequence[str] = ()
) -> tuple[Any, ...]:
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
