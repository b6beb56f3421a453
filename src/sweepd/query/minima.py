"""The rows of `min`: what the cells of each group say about the least value that passes, and which
of six verdicts that is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from sweepd.judge.cells import FAIL, PASS, RULES
from sweepd.judge.rows import NONE, Cells, Points, VerdictKind, values_of, verdicts
from sweepd.judge.seeds import Ints
from sweepd.listing import Row
from sweepd.query.cells import Cell, Value
from sweepd.query.grouping import Grouping
from sweepd.statuses import STATUSES

Merit = Callable[[Cell], Any]
"""A function that says how good a cell is. Its result is greater for a better cell."""


class Verdict(NamedTuple):
    """What is known of a least value, as in `judge.rows`, with the values themselves."""

    kind: VerdictKind
    value: Value | None
    fail: Value | None
    inferred: int


@dataclass(frozen=True)
class MinRow:
    """The cells of one group, and what they say together about the least value that passes.

    columns: those of the group, with their values. by_value: the cells by the value of what is
    minimised, from the least value to the greatest. by_rule: what `verdict` would be by each of
    RULES.
    """

    columns: dict[str, Any]
    by_value: dict[Value, list[Cell]]
    verdict: Verdict
    by_rule: tuple[Verdict, ...]

    @property
    def passing(self) -> list[Cell]:
        """The cells that pass with the least value that passes."""
        if self.verdict.value is None:
            return []
        return [cell for cell in self.by_value[self.verdict.value] if cell.outcome]

    @property
    def passes(self) -> list[Cell]:
        """The points of the grid that pass with that value."""
        return [point for cell in self.passing for point in cell.points if point.outcome]

    @property
    def deciding(self) -> list[Cell]:
        """The cells with the next smaller value, which decide whether the row's value is the least.
        Where nothing passes, they are the cells with the largest value."""
        least = self.verdict.value
        smaller = [value for value in self.by_value if least is None or value < least]
        return self.by_value[smaller[-1]] if smaller else []

    def shown(self, merit: Merit) -> Cell | None:
        """Returns the best cell that passes at the least value. Where none passes, it is the best
        one of the largest value that was tried."""
        tried = (
            [cell for cell in cells if cell.tried] for cells in reversed(self.by_value.values())
        )
        return max(self.passing or next(filter(None, tried), []), key=merit, default=None)


def min_rows(grouping: Grouping, cells: Sequence[Cell]) -> list[MinRow]:
    """Returns one row for each group of these cells in which the expression has a value."""
    groups = []
    for columns, members in grouping.rows(cells):
        by_value: dict[Value, list[Cell]] = {}
        valued = (cell for cell in members if cell.has_values)
        for cell in sorted(valued, key=lambda cell: cell.values[0]):
            by_value.setdefault(cell.values[0], []).append(cell)
        if by_value:
            groups.append((columns, by_value, members))
    if grouping.of_score:
        verdicts = [
            [_of_score(by_value, members, number) for number in range(1 + len(RULES))]
            for _, by_value, members in groups
        ]
    else:
        verdicts = _judged(grouping, [by_value for _, by_value, _ in groups], cells)
    return [
        MinRow(columns, by_value, of_row[0], tuple(of_row[1:]))
        for (columns, by_value, _), of_row in zip(groups, verdicts, strict=True)
    ]


def _of_score(by_value: Mapping[Value, Sequence[Cell]], members: Sequence[Cell], n: int) -> Verdict:
    """Returns the verdict on a minimised score by the outcomes with this number. A score is
    measured and not set by the grid. A cell that failed says nothing of cells with a lower score,
    so nothing is known from below."""
    for value, same in by_value.items():
        if any(cell.outcomes[n] == PASS for cell in same):
            return Verdict("at most", value, None, 0)
    all_failed = all(cell.outcomes[n] == FAIL and cell.shown for cell in members)
    return Verdict("above" if all_failed else "open", None, None, 0)


def _judged(
    grouping: Grouping, groups: Sequence[Mapping[Value, Sequence[Cell]]], cells: Sequence[Cell]
) -> list[list[Verdict]]:
    """Returns the verdicts on each row: by the pass rule of its cells, and by each of RULES.
    groups: the cells of each row, by value. cells: all cells."""
    values = [value for by_value in groups for value in by_value]
    starts = [0, *accumulate(map(len, groups))]
    number_of = {
        cell: number
        for number, same in enumerate(same for by_value in groups for same in by_value.values())
        for cell in same
    }
    # A cell without a value is in no row, but still says something of other sizes.
    every = [*number_of, *(cell for cell in cells if cell not in number_of)]
    points = [point for cell in every for point in cell.points]
    of_cells, of_points = _settings(grouping, every)
    sizes = np.unique([cell.row["size"] for cell in every], return_inverse=True)[1].ravel()
    value_of = [number_of.get(cell, len(values)) for cell in every]
    cell_of = np.repeat(np.arange(len(every)), [len(cell.points) for cell in every])
    steps = np.array([point.steps for point in points], np.int64)
    shown = np.array([cell.shown for cell in every], bool)
    trained = np.array([point.trained for point in points], bool)
    outcomes = np.array([cell.outcomes for cell in every], np.int64).reshape(-1, 1 + len(RULES))
    own = np.array([point.outcomes for point in points], np.int64).reshape(-1, 1 + len(RULES))
    by_rule = []
    for one, each in zip(outcomes.T, own.T, strict=True):
        known = values_of(
            Points(cell_of, each, (each == FAIL) & trained, steps, of_points),
            Cells(np.array(value_of, np.int64), one, (one == FAIL) & shown, sizes, of_cells),
            len(values) + 1,
            grouping.across_sizes,
        )
        by_rule.append(
            [
                Verdict(
                    kind,
                    None if value == NONE else values[value],
                    None if fail == NONE else values[fail],
                    inferred,
                )
                for kind, value, fail, inferred in verdicts(known, starts, grouping.of_compute)
            ]
        )
    return [list(of_row) for of_row in zip(*by_rule, strict=True)]


def _settings(grouping: Grouping, cells: Sequence[Cell]) -> tuple[Ints, Ints]:
    """Returns numbers for the settings of cells, and of the points that they stand for: all that
    tells them apart but the size. Of cells nuisance axes are left out, too."""
    views = grouping.views
    names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def settings(row: Row, left_out: tuple[str, ...]) -> tuple[Any, ...]:
        key = (row["task"], *left_out)
        if key not in names:
            without = {"size", "L", views.selection.size_fields.get(row["task"]), *left_out}
            names[key] = tuple(name for name in views.identity if name not in without)
        return tuple(map(row.__getitem__, names[key]))

    numbers: dict[Any, int] = {}
    of_cells, of_points = [], []
    for cell in cells:
        budgets = ("steps",) if "steps" in cell.tuned else ()
        # Where a cell stands for several budgets, the one of its row, if rows have one, counts.
        within = cell.steps if budgets and "steps" in grouping.group else None
        key = "cell", within, settings(cell.row, cell.tuned)
        of_cells.append(numbers.setdefault(key, len(numbers)))
        for point in cell.points:
            key = "point", within, settings(point.row, budgets)
            of_points.append(numbers.setdefault(key, len(numbers)))
    return np.array(of_cells, np.int64), np.array(of_points, np.int64)


def cell_rows(grouping: Grouping, rows: Sequence[MinRow], merit: Merit) -> Iterator[dict[str, Any]]:
    """Yields one row for each cell of the grid behind rows of `min`, in the order of these rows and
    of their values. Figures draw them. Each has the columns of its group, its scores, the counts of
    each status, and these of its own:

    cell: its number in `raw.cells`. value: what is minimised. state: that of all cells of the group
    that share the value. stands: whether it is the best of these. decides: whether it may lower the
    row's value. wins: whether it gave the row's value. steps: its budget. at: its other axes, as
    JSON. seeds: their count. passed: how many of them pass.

    The state is the first of these that is true. passed: one of the cells passes. failed: all of
    them ran their budget and failed. inferred: a larger value failed, or a cell of a smaller size.
    ended early: some of their seeds were solved or stopped before the condition was decided.
    unfinished: some of their trials have ended. untried: none has.
    """
    for row, value, cells in ((one, *each) for one in rows for each in one.by_value.items()):
        points = [point for cell in cells for point in cell.points]
        if any(cell.outcome for cell in cells):
            state = "passed"
        elif all(cell.failed for cell in cells):
            state = "failed"
        elif row.verdict.fail is not None and value <= row.verdict.fail:
            state = "inferred"
        elif any(point.row["solved"] or point.row["stopped"] for point in points):
            state = "ended early"
        else:
            state = "unfinished" if any(cell.tried for cell in cells) else "untried"
        best = max([cell for cell in cells if cell.outcome] or cells, key=merit).row["cell"]
        decides, wins = cells is row.deciding, value == row.verdict.value
        for point in points:
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
