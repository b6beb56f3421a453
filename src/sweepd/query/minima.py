"""The rows of `min`: what the cells of each group say about the least value that passes, and which
of six verdicts that is."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from sweepd.listing import Row
from sweepd.query.cells import Cell, Value
from sweepd.query.grouping import Grouping
from sweepd.statuses import STATUSES

Merit = Callable[[Cell], Any]
"""A function that says how good a cell is. Its result is greater for a better cell."""
AcrossSizes = Mapping[Cell, tuple[list[Mapping[int, int]], Mapping[int, bool]]]
"""For each point of a cell, the sizes at which its settings failed, with the longest budget of
steps there. And whether the cell failed as a whole, at each size at which there is one."""
VerdictKind = Literal["not monotone", "above", "open", "exact", "bracketed", "at most"]


class Candidate(NamedTuple):
    """What is known of one value of the minimised expression, within one group.

    passed: True if one of the cells with this value passed, False if all of them ran their budget
    and failed, None otherwise. failed_smaller: whether all of its cells failed, in the same
    settings, at one smaller size. It matters only where nothing is known of the value itself.
    contradicted: whether one of its passes had at most the budget of such a fail in the same
    settings. budget: the least number of steps with which the value passed, or the largest with
    which it failed. All budgets are 0 where they are not compared.
    """

    value: Value
    passed: bool | None
    failed_smaller: bool = False
    contradicted: bool = False
    budget: int = 0

    @property
    def failed(self) -> bool:
        return self.passed is False or self.failed_smaller


class Verdict(NamedTuple):
    """What is known of a least value.

    value: the least value that passed, or None if none did. fail: the largest value that failed at
    this size or at a smaller one, among those below `value`, or None. inferred: how many values up
    to `fail` have not failed themselves. They are inferred to fail.
    """

    kind: VerdictKind
    value: Value | None
    fail: Value | None
    inferred: int


def judge(candidates: Sequence[Candidate], of_compute: bool = False) -> Verdict:
    """Returns the first of the six verdicts that holds. A fail contradicts a pass only if it had at
    least the budget of that pass.

    candidates: at least one, by rising value. of_compute: whether the values are training FLOPs.
    These can be spent on width or on steps. So a larger value of them that fails does not
    contradict a smaller one that passes, and values beyond the first pass do not count.
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
    against = [one for one in larger if one.passed is False and one.budget >= passing.budget]
    kind: VerdictKind = "bracketed" if inferred else "exact"
    if passing.contradicted or (against and not of_compute):
        kind = "not monotone"
    elif not smaller or not smaller[-1].failed:
        kind = "at most"
    return Verdict(kind, passing.value, fail, inferred)


@dataclass(frozen=True)
class MinRow:
    """The cells of one group, and what they say together about the least value that passes.

    columns: those of the group, with their values. by_value: the cells by the value of what is
    minimised, from the least value to the greatest.
    """

    columns: dict[str, Any]
    by_value: dict[Value, list[Cell]]
    verdict: Verdict

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
    sizes = _across_sizes(grouping, cells) if grouping.across_sizes else None
    rows = []
    for columns, members in grouping.rows(cells):
        by_value: dict[Value, list[Cell]] = {}
        valued = (cell for cell in members if cell.has_values)
        for cell in sorted(valued, key=lambda cell: cell.values[0]):
            by_value.setdefault(cell.values[0], []).append(cell)
        if not by_value:
            continue
        if not grouping.of_score:
            candidates = [_candidate(same, sizes) for same in by_value.values()]
            verdict = judge(candidates, grouping.of_compute)
        # A score is measured and not set by the grid. A cell that failed says nothing of cells with
        # a lower score, so nothing is known from below.
        elif passed := [value for value, same in by_value.items() if any(c.outcome for c in same)]:
            verdict = Verdict("at most", passed[0], None, 0)
        else:
            all_failed = all(cell.failed for cell in members)
            verdict = Verdict("above" if all_failed else "open", None, None, 0)
        rows.append(MinRow(columns, by_value, verdict))
    return rows


def _candidate(cells: Sequence[Cell], sizes: AcrossSizes | None) -> Candidate:
    """What is known of the value that these cells share. sizes: None if none are compared."""
    points = [point for cell in cells for point in cell.points]
    passed = True if any(cell.outcome for cell in cells) else None
    if all(cell.failed for cell in cells):
        passed = False
    steps = [point.steps for point in points if passed is not None and point.outcome is passed]
    budget = (min if passed else max)(steps, default=0)
    smaller = contradicted = False
    if sizes and passed is not False:
        size = min(point.row["size"] for point in points)
        fails = [at for cell in cells for at in sizes[cell][0]]
        smaller = any(at < size and all(at in one for one in fails) for at in fails[0])
        # A smaller size counts against a pass if none of these cells did any better there.
        whole = [sizes[cell][1] for cell in cells]
        against = {at for one in whole for at in one if at < size}
        contradicted = any(
            point.outcome and longest >= point.steps and at in against
            and all(one.get(at, True) for one in whole)
            for point, failed in zip(points, fails, strict=True)
            for at, longest in failed.items()
        )  # fmt: skip
    return Candidate(cells[0].values[0], passed, smaller, contradicted, budget)


def _across_sizes(grouping: Grouping, cells: Iterable[Cell]) -> AcrossSizes:
    """What the settings of cells, all that tells them apart but the size, say at each size."""
    views = grouping.views

    def settings(row: Row, *but: str) -> tuple[Any, ...]:
        """The settings of a cell, without some axes."""
        left_out = {"size", "L", views.selection.size_fields.get(row["task"]), *but}
        return tuple(row[name] for name in views.identity if name not in left_out)

    keys: dict[Cell, tuple[list[Any], Any]] = {}
    whole: dict[Any, dict[int, bool]] = defaultdict(dict)
    points_at: dict[Any, dict[int, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        budgets = ("steps",) if "steps" in cell.tuned else ()
        # Where a cell stands for several budgets, the one of its row, if rows have one, counts.
        within = cell.steps if budgets and "steps" in grouping.group else None
        of_points = [(within, settings(point.row, *budgets)) for point in cell.points]
        keys[cell] = of_points, (within, settings(cell.row, *cell.tuned))
        whole[keys[cell][1]][cell.row["size"]] = cell.failed
        for key, point in zip(of_points, cell.points, strict=True):
            points_at[key][point.row["size"]].append(point)
    # Where cells are taken over several budgets, they failed if they passed with none of them.
    failed: dict[Any, dict[int, int]] = defaultdict(dict)
    for key, by_size in points_at.items():
        for size, points in by_size.items():
            steps = [point.steps for point in points if point.failed]
            if steps and not any(point.outcome for point in points):
                failed[key][size] = max(steps)
    return {cell: ([failed[key] for key in of], whole[key]) for cell, (of, key) in keys.items()}


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
