"""The rows of `min`: what the cells of each group say about the least value that passes, and which
of six verdicts that is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from sweepd.listing import Row
from sweepd.query.cells import Cell, Value, getter
from sweepd.query.database import Views
from sweepd.query.grouping import Grouping
from sweepd.statuses import STATUSES

Merit = Callable[[Cell], Any]
"""A function that says how good a cell is. Its result is greater for a better cell."""
VerdictKind = Literal["not monotone", "above", "open", "exact", "bracketed", "at most"]
CellState = Literal["passed", "failed", "inferred", "ended early", "unfinished", "untried"]
"""What is known of the cells of one group that share a value. The first of these that is true
holds.

passed: one of the cells passes. failed: all of them ran their budget and failed. inferred: they
have not all failed themselves, but a larger value did, or a cell of a smaller size. ended early:
some of their seeds were solved or stopped before the condition was decided. unfinished: some of
their trials have ended. untried: none has.
"""


class Candidate(NamedTuple):
    """What is known of one value of the minimised expression, within one group."""

    value: Value
    passed: bool | None
    """True if one of the cells with this value passed. False if all of them ran their budget and
    failed. None otherwise."""
    failed_smaller: bool = False
    """Whether all of its cells failed, in the same settings, at one smaller size. It matters only
    where nothing is known of the value itself."""
    contradicted: bool = False
    """Whether one of its passes had at most the budget of such a fail in the same settings."""
    budget: int = 0
    """The least number of steps with which the value passed, or the largest with which it failed.
    All budgets are 0 where they are not compared."""

    @property
    def failed(self) -> bool:
        return self.passed is False or self.failed_smaller


class Verdict(NamedTuple):
    kind: VerdictKind
    value: Value | None
    """The least value that passed, or None if none did."""
    fail: Value | None
    """The largest value that failed at this size or at a smaller one, among those below `value`.
    None if there is no such value."""
    inferred: int
    """How many values up to `fail` have not failed themselves. That they fail is inferred from a
    larger value or from a smaller size that failed."""


def judge(candidates: Sequence[Candidate]) -> Verdict:
    """Returns the first of the six verdicts that holds. A fail contradicts a pass only if it had at
    least the budget of that pass.

    candidates: at least one, by rising value.
    """
    smaller = list(takewhile(lambda one: not one.passed, candidates))
    fail, inferred, open_so_far = None, 0, 0
    for one in smaller:
        open_so_far += one.passed is not False
        if one.failed:
            fail, inferred = one.value, open_so_far
    if len(smaller) == len(candidates):
        return Verdict("above" if smaller[-1].failed else "open", None, fail, inferred)
    passing, *larger = candidates[len(smaller) :]
    kind: VerdictKind
    if passing.contradicted or any(
        one.passed is False and one.budget >= passing.budget for one in larger
    ):
        kind = "not monotone"
    elif not smaller or not smaller[-1].failed:
        kind = "at most"
    else:
        kind = "bracketed" if inferred else "exact"
    return Verdict(kind, passing.value, fail, inferred)


def judge_measured(passed: Sequence[Value], all_failed: bool) -> Verdict:
    """Returns the verdict on a minimised score, which is measured and not set by the grid.

    A cell that failed says nothing of cells with a lower score, so nothing is known from below. The
    verdict is `at most` the least score in `passed`. Where nothing passed, it is `above` if all
    cells of the group ran their budget and failed (`all_failed`), and `open` if not.
    """
    if passed:
        return Verdict("at most", min(passed), None, 0)
    return Verdict("above" if all_failed else "open", None, None, 0)


def verdict_of(grouping: Grouping, candidates: Sequence[Candidate]) -> Verdict:
    """Returns the verdict on these values, which rise.

    Training FLOPs can be spent on width or on steps. So a larger value of them that fails does not
    contradict a smaller one that passes, and values beyond the first pass do not count.
    """
    if grouping.of_compute:
        at = next((i for i, one in enumerate(candidates) if one.passed), len(candidates))
        candidates = candidates[: at + 1]
    return judge(candidates)


@dataclass(frozen=True)
class MinRow:
    """The cells of one group, and what they say together about the least value that passes."""

    columns: dict[str, Any]
    """The columns of the group, with their values."""
    by_value: dict[Value, list[Cell]]
    """The cells by the value of what is minimised, from the least value to the greatest."""
    verdict: Verdict

    @property
    def passing(self) -> list[Cell]:
        """The cells that pass with the least value that passes."""
        if self.verdict.value is None:
            return []
        return [cell for cell in self.by_value[self.verdict.value] if cell.outcome]

    @property
    def failing(self) -> list[Cell]:
        """The cells that failed themselves at the row's `fail`, the largest smaller value that
        failed at this size or at a smaller one."""
        if self.verdict.fail is None:
            return []
        return [cell for cell in self.by_value[self.verdict.fail] if cell.failed]

    @property
    def deciding(self) -> list[Cell]:
        """The cells with the next smaller value, which decide whether the row's value is the least.
        Where nothing passes, they are the cells with the largest value."""
        least = self.verdict.value
        smaller = [value for value in self.by_value if least is None or value < least]
        return self.by_value[smaller[-1]] if smaller else []

    @property
    def passes_at_the_smallest(self) -> bool:
        return self.verdict.value == next(iter(self.by_value))

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
    rows = []
    for columns, members in grouping.rows(cells):
        by_value: dict[Value, list[Cell]] = {}
        valued = (cell for cell in members if cell.has_values)
        for cell in sorted(valued, key=lambda cell: cell.values[0]):
            by_value.setdefault(cell.values[0], []).append(cell)
        if not by_value:
            continue
        if grouping.of_score:
            passed = [value for value, cells in by_value.items() if any(c.outcome for c in cells)]
            verdict = judge_measured(passed, all(cell.failed for cell in members))
        else:
            verdict = verdict_of(grouping, [_candidate(same, sizes) for same in by_value.values()])
        rows.append(MinRow(columns, by_value, verdict))
    return rows


def _candidate(cells: Sequence[Cell], sizes: AcrossSizes | None) -> Candidate:
    """Returns what is known of the value that these cells of one group share. sizes: None where
    sizes are not compared."""
    points = [point for cell in cells for point in cell.points]
    passed = None
    if True in {cell.outcome for cell in cells}:
        passed = True
    elif all(cell.failed for cell in cells):
        passed = False
    steps = [point.steps for point in points if passed is not None and point.outcome is passed]
    budget = (min if passed else max)(steps, default=0)
    smaller = contradicted = False
    if sizes and passed is not False:
        size = min(point.row["size"] for point in points)
        fails = [at for cell in cells for at in sizes.fails(cell)]
        smaller = any(at < size and all(at in one for one in fails) for at in fails[0])
        # A smaller size counts against a pass if none of these cells did any better there.
        whole = [sizes.whole(cell) for cell in cells]
        against = {at for one in whole for at in one if at < size}
        contradicted = any(
            point.outcome and longest >= point.steps and at in against
            and all(one.get(at, True) for one in whole)
            for point, failed in zip(points, fails, strict=True)
            for at, longest in failed.items()
        )  # fmt: skip
    return Candidate(cells[0].values[0], passed, smaller, contradicted, budget)


class AcrossSizes:
    """What the settings of cells say at each size. Settings are all that tells cells apart, except
    the size and what follows from it."""

    def __init__(self, views: Views, grouping: Grouping, cells: Iterable[Cell]) -> None:
        @cache
        def settings(task: str, but: tuple[str, ...]) -> Callable[[Row], tuple[Any, ...]]:
            """Returns the function that gets the settings of a task's cells, without some axes."""
            left_out = {"size", "L", views.selection.size_fields.get(task), *but}
            return getter([name for name in views.apart if name not in left_out])

        self._keys: dict[Cell, tuple[list[Any], Any]] = {}
        self._whole: dict[Any, dict[int, bool]] = defaultdict(dict)
        points_at: dict[Any, dict[int, list[Cell]]] = defaultdict(lambda: defaultdict(list))
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
                points_at[key][point.row["size"]].append(point)
        # Where cells are taken over several budgets, they failed if they passed with none of them.
        self._failed: dict[Any, dict[int, int]] = {
            key: {
                size: max(failed)
                for size, points in by_size.items()
                if (failed := [point.steps for point in points if point.failed])
                and not any(point.outcome for point in points)
            }
            for key, by_size in points_at.items()
        }

    def fails(self, cell: Cell) -> list[Mapping[int, int]]:
        """Returns, for each point of a cell, the sizes at which its settings failed, with the
        longest budget of steps there."""
        return [self._failed[key] for key in self._keys[cell][0]]

    def whole(self, cell: Cell) -> Mapping[int, bool]:
        """Returns whether the cell failed as a whole at each size at which there is one."""
        return self._whole[self._keys[cell][1]]


def cell_rows(grouping: Grouping, rows: Sequence[MinRow], merit: Merit) -> Iterator[dict[str, Any]]:
    """Yields one row for each cell of the grid behind rows of `min`, in the order of these rows and
    of their values. Figures draw them.

    Each has the columns of its group and these of its own:

    cell: its number in `raw.cells`. value: what is minimised. state: that of all cells of the group
    that share the value. stands: whether it is the best of these. decides: whether it may lower the
    row's value. wins: whether it gave the row's value. steps: its budget. at: its other axes, as
    JSON. seeds: their count. passed: how many of them pass.

    Its scores and the counts of each status follow.
    """
    for row, value, cells in ((one, *each) for one in rows for each in one.by_value.items()):
        state = _state(row, value, cells)
        best = max([cell for cell in cells if cell.outcome] or cells, key=merit).row["cell"]
        decides, wins = cells is row.deciding, value == row.verdict.value
        for point in (point for cell in cells for point in cell.points):
            yield {
                **row.columns,
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
    points = [point for cell in cells for point in cell.points]
    if any(cell.outcome for cell in cells):
        return "passed"
    if all(cell.failed for cell in cells):
        return "failed"
    if row.verdict.fail is not None and value <= row.verdict.fail:
        return "inferred"
    if any(point.row["solved"] or point.row["stopped"] for point in points):
        return "ended early"
    return "unfinished" if any(map(_tried, points)) else "untried"


def _tried(point: Cell) -> bool:
    return any(point.row[status] for status in STATUSES)
