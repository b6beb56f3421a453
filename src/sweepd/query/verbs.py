"""The rows of `min`, `frontier`, `best` and `max`. `sweepd.query.growth` has those of `fit`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from sweepd.query.cells import Cell
from sweepd.query.database import Views
from sweepd.query.deciding import (
    LEAST_COLUMNS,
    TRIED_COLUMNS,
    Ends,
    least_columns,
    tried_columns,
)
from sweepd.query.expressions import Node, falls, goal_of, thresholds
from sweepd.query.grouping import Grouping
from sweepd.query.minima import Merit, MinRow, cell_rows, min_rows
from sweepd.query.nuisance import at_edge
from sweepd.query.parser import Question
from sweepd.statuses import RAN


@dataclass(frozen=True)
class VerbRows:
    """What one verb finds in the cells of a question."""

    columns: list[str]
    rows: list[dict[str, Any]]
    deciding: list[Cell]
    """The cells on which the rows depend."""
    notes: list[str]
    make_cells: Callable[[], Sequence[Mapping[str, Any]]] = tuple
    """The function that makes `Answer.cells`."""


def least(
    views: Views,
    grouping: Grouping,
    cells: Sequence[Cell],
    condition: Node,
    merit: Merit,
    scores: Sequence[str],
) -> VerbRows:
    """Returns the rows of `min`. scores: the columns that tell the scores of a cell."""
    rows, goal = min_rows(views, grouping, cells), goal_of(condition)
    ends = Ends.of(views, goal, rows) if goal and not grouping.of_score else None
    own = ["value", "fail", "pass", "inferred", "passed", "seeds", *scores, "close", "at", "edge"]
    every = [*grouping.group, *own, "verdict", *TRIED_COLUMNS, *LEAST_COLUMNS]
    columns = list(dict.fromkeys(every))
    tried, decisive = tried_columns(views, rows, condition, ends), not falls(condition)
    answered = []
    for row, of_row in zip(rows, tried, strict=True):
        # The row shows the best cell that passes at the least value. Where none passes, it shows
        # the best one of the largest value that was tried.
        best = max(row.passing or row.largest_tried, key=merit, default=None)
        shown = best if best and (best.outcome or best.measured) else None
        of_best = best.scores() if best else {}
        low, high, close = of_best.get("acc_low"), of_best.get("acc_high"), None
        if low is not None and high is not None and (asked := thresholds(condition)):
            close = any(low <= threshold <= high for threshold in asked)
        by_column = {
            **of_row,
            **least_columns(grouping, row, decisive),
            **row.columns,
            **dict.fromkeys(scores),
            "value": row.verdict.value,
            "fail": row.verdict.fail,
            "pass": row.verdict.value,
            "inferred": row.verdict.inferred,
            "passed": best.passed if best else 0,
            "seeds": best.decided if best else 0,
            **of_best,
            "close": close,
            "at": shown and grouping.at(shown),
            "edge": shown and shown.edge,
            "verdict": row.verdict.kind,
        }
        answered.append({name: by_column[name] for name in columns})
    notes = merged_notes(grouping, cells)
    at_the_smallest = sum(row.passes_at_the_smallest for row in rows)
    if at_the_smallest and not grouping.of_score:
        notes.append(f"smallest: in {at_the_smallest} of {len(rows)} rows no value below was tried")
    return VerbRows(
        columns,
        answered,
        deciding_of(rows, merit),
        notes,
        lambda: tuple(cell_rows(grouping, rows, merit)),
    )


def frontier(
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    merit: Merit,
    scores: Sequence[str],
) -> VerbRows:
    """Returns the rows of `frontier`: the cells that no other one of their group beats on both the
    cost and the score."""
    (cost, _), (score, _) = question.expressions
    own = [cost, score, *grouping.shown, "seeds", *scores, "solved", "at", "edge"]
    rows: list[dict[str, Any]] = []
    unbeaten: list[Cell] = []
    tied = 0
    for where, members in grouping.rows(cell for cell in cells if cell.outcome):
        best = -inf
        for cell in sorted(members, key=lambda cell: (cell.values[0], -merit(cell))):
            tied += merit(cell) == best > -inf and cell.values[0] == unbeaten[-1].values[0]
            if merit(cell) > best:
                best = merit(cell)
                by_column = {
                    **columns_of(grouping, cell),
                    "solved": cell.row["solved"],
                    cost: cell.values[0],
                    score: cell.values[1],
                }
                rows.append(where | {name: by_column[name] for name in own})
                unbeaten.append(cell)
    notes = []
    if solved := sum(cell.row["solved"] > 0 for cell in cells):
        notes.append(
            f"censored: {solved} of {len(cells)} cells have seeds that stopped as solved; their "
            "score is at least that, so one that is not shown may belong here"
        )
    if tied:
        notes.append(f"tied: {tied} more cells have the cost and the score of a row that is shown")
    if merged := grouping.merged(cells):
        notes.append(f"pooled: cells that differ in {', '.join(merged)}, other problems, compete")
    return VerbRows(
        list(dict.fromkeys([*grouping.group, *own])),
        rows,
        unbeaten,
        notes,
        lambda: [{"cell": cell.row["cell"]} for cell in unbeaten],
    )


def best(
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    merit: Merit,
    scores: Sequence[str],
) -> VerbRows:
    """Returns the rows of `best`: the value of an axis with the best score in each group.

    The column `values` says how many values of the axis were tried. The column `edge` names the
    axis too where its best value is the least or the greatest of them. A value whose cells fail the
    question's condition, or with which training diverged, was tried and cannot be the best.
    """
    axis, [(score, _)] = question.best, question.expressions
    assert axis is not None
    columns = [*grouping.group, axis, score, "values", "seeds", *scores, "at", "edge"]
    columns = list(dict.fromkeys(columns))
    rows, winners, without = [], [], 0
    tried = [cell for cell in cells if cell.values[0] is not None]
    for where, members in grouping.rows(tried):
        rivals = [cell for cell in members if cell.outcome and cell.has_values]
        if not rivals:
            without += 1
            continue
        winner = max(rivals, key=merit)
        edges = [winner.edge, axis if at_edge(axis, winner, members) else ""]
        by_column = {
            "values": len({cell.row[axis] for cell in members}),  # unless an axis has that name
            **where,
            **columns_of(grouping, winner),
            axis: winner.row[axis],
            "edge": ",".join(filter(None, edges)),
        }
        rows.append({name: by_column[name] for name in columns})
        winners.append(winner)
    notes = merged_notes(grouping, cells)
    if without:
        notes.append(
            f"no best: in {without} groups each {axis} that was tried fails the condition "
            "or diverged"
        )
    return VerbRows(columns, rows, winners, notes)


def greatest(
    question: Question, grouping: Grouping, cells: Sequence[Cell], scores: Sequence[str]
) -> VerbRows:
    """Returns the rows of `max`: the greatest value of an expression in each group."""
    [(text, _)] = question.expressions
    columns = [*grouping.group, text, *grouping.shown, "seeds", *scores, "at", "edge"]
    columns = list(dict.fromkeys(columns))
    rows, winners = [], []
    for where, members in grouping.rows(cell for cell in cells if cell.outcome):
        winner = max(members, key=lambda cell: cell.values[0])
        by_column = {**where, **columns_of(grouping, winner), text: winner.values[0]}
        rows.append({name: by_column[name] for name in columns})
        winners.append(winner)
    return VerbRows(columns, rows, winners, merged_notes(grouping, cells))


def deciding_of(rows: Sequence[MinRow], merit: Merit) -> list[Cell]:
    """Returns the best cell at each end of what is known of each least value: among the cells that
    pass with it, and among those that fail with the largest smaller value."""
    ends = [cells for row in rows for cells in (row.passing, row.failing) if cells]
    return [max(cells, key=merit) for cells in ends]


def columns_of(grouping: Grouping, cell: Cell) -> dict[str, Any]:
    """Returns the columns that tell a row's reader about the one cell that the row shows."""
    return {
        **{name: cell.row[name] for name in grouping.shown},
        "seeds": sum(cell.row[status] for status in RAN),
        **cell.scores(),
        "at": grouping.at(cell),
        "edge": cell.edge,
    }


def merged_notes(grouping: Grouping, cells: Iterable[Cell]) -> list[str]:
    """Returns a note on the columns over which rows are the best though the question does not
    mention them. The list is empty if there are no such columns."""
    merged = ", ".join(grouping.merged(cell for cell in cells if cell.has_values))
    return [f"merged: rows are the best over {merged}, which `by` leaves out"] if merged else []
