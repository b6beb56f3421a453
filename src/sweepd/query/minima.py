"""The rows of `min`: what the cells of each group say about the least value that passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sweepd.listing import Row
from sweepd.query.bounds import (
    Bound,
    Candidate,
    Value,
    judge,
    judge_measured,
    up_to_the_first_pass,
)
from sweepd.query.cells import Cell, getter
from sweepd.query.database import Views
from sweepd.query.grouping import Grouping
from sweepd.statuses import STATUSES


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
    sizes = AcrossSizes(views, grouping, cells) if grouping.across_sizes else None
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
            every = [_candidate(same, sizes) for same in by_value.values()]
            bound = bound_of(grouping, every)
        found.append(MinRow(columns, by_value, bound))
    return found


def bound_of(grouping: Grouping, candidates: Sequence[Candidate]) -> Bound:
    """Returns what is claimed of the least of these values, which rise, that passes."""
    return judge(up_to_the_first_pass(candidates) if grouping.of_compute else candidates)


def _candidate(cells: Sequence[Cell], sizes: AcrossSizes | None) -> Candidate:
    """Returns what is known of the value that these cells of one group share. sizes: None where
    sizes are not compared."""
    points = [point for cell in cells for point in cell.points]
    passed = None
    if True in {cell.outcome for cell in cells}:
        passed = True
    elif all(cell.failed for cell in cells):
        passed = False
    told = [point.steps for point in points if passed is not None and point.outcome is passed]
    budget = (min if passed else max)(told, default=0)
    smaller = contradicted = False
    if sizes and passed is not False:
        size = min(point.row["size"] for point in points)
        fails = [at for cell in cells for at in sizes.fails(cell)]
        smaller = any(at < size and all(at in one for one in fails) for at in fails[0])
        # A smaller size counts against a pass if none of these cells did any better there.
        whole = [sizes.whole(cell) for cell in cells]
        against = {at for one in whole for at in one if at < size}
        contradicted = any(
            point.outcome and steps >= point.steps and at in against
            and all(one.get(at, True) for one in whole)
            for point, failed in zip(points, fails, strict=True)
            for at, steps in failed.items()
        )  # fmt: skip
    return Candidate(cells[0].values[0], passed, smaller, contradicted, budget)


def _tried(point: Cell) -> bool:
    return any(point.row[status] for status in STATUSES)


class AcrossSizes:
    """What the settings of cells say at each size. Settings are all that tells cells apart, except
    the size and what follows from it."""

    def __init__(self, views: Views, grouping: Grouping, cells: Iterable[Cell]) -> None:
        @cache
        def settings(task: str, but: tuple[str, ...]) -> Callable[[Row], tuple[Any, ...]]:
            """Returns the function that gets the settings of a task's cells, without some axes."""
            left_out = {"size", "L", views.size_fields.get(task), *but}
            return getter([name for name in views.apart if name not in left_out])

        self._points: dict[Any, dict[int, list[Cell]]] = defaultdict(lambda: defaultdict(list))
        self._whole: dict[Any, dict[int, bool]] = defaultdict(dict)
        self._keys: dict[Cell, tuple[list[Any], Any]] = {}
        self._failed: dict[Any, dict[int, int]] = {}
        for cell in cells:
            task, budgets = cell.row["task"], ("steps",) if "steps" in cell.tuned else ()
            # Where a cell stands for several budgets, the one of its row, if rows have one, counts.
            within = cell.steps if budgets and "steps" in grouping.group else None
            of_point, of_cell = settings(task, budgets), settings(task, cell.tuned)
            points = [(within, of_point(point.row)) for point in cell.points]
            whole = (within, of_cell(cell.row))
            self._keys[cell] = points, whole
            self._whole[whole][cell.row["size"]] = cell.failed
            for key, point in zip(points, cell.points, strict=True):
                self._points[key][point.row["size"]].append(point)

    def fails(self, cell: Cell) -> list[Mapping[int, int]]:
        """Returns, for each point of a cell, the sizes at which its settings failed, with the
        longest budget of steps there. Where cells are taken over several budgets, they failed if
        they passed with none of them."""
        return [self._failed_at(key) for key in self._keys[cell][0]]

    def whole(self, cell: Cell) -> Mapping[int, bool]:
        """Returns whether the cell failed as a whole at each size at which there is one."""
        return self._whole[self._keys[cell][1]]

    def _failed_at(self, key: Any) -> Mapping[int, int]:
        if key not in self._failed:
            found = self._failed[key] = {}
            for size, points in self._points[key].items():
                failed = [point.steps for point in points if point.failed]
                if failed and not any(point.outcome for point in points):
                    found[size] = max(failed)
        return self._failed[key]
