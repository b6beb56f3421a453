"""The rows of `fit`, which say how the least value that passes grows along a column. Also what a
smaller width costs in training, which a law says too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from math import e, inf, log, log2
from typing import Any

from sweepd.errors import UserError
from sweepd.query.cells import Cell
from sweepd.query.claim_files import predictions
from sweepd.query.database import Views
from sweepd.query.expressions import Column
from sweepd.query.grouping import Grouping
from sweepd.query.laws import LAW_NAMES, Point, Tried, difference, fit, refusal, weights
from sweepd.query.minima import Merit, MinRow, min_rows
from sweepd.query.parser import Question
from sweepd.query.verbs import VerbRows, deciding_of, merged_notes

OVER_STANDARD = ("over_standard", "over_standard_low", "over_standard_high")
COLUMNS = (
    *("exponent", "low", "high", "growth", "factor", *(f"weight_{name}" for name in LAW_NAMES)),
    *("points", "censored", "seeds", "least_steps", "most_steps"),
    *("first_exponent", "first_low", "first_high"),
    *(*OVER_STANDARD, "slope_log", "slope_sqrt", "predicted", "reason"),
)
"""The columns of a row of `fit` besides those of its group. A law is about what was tried, with
least_steps to most_steps; first_exponent is that of what ran with least_steps alone."""
PER_HALVING = ("per_halving", "per_halving_low", "per_halving_high")
"""The columns of `min … by steps` that say how many times as many steps one halving of the
minimised value costs, with the ends of the 95% interval."""


def growth(
    views: Views,
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    merit: Merit,
) -> VerbRows:
    """Returns the rows of `fit`: the law of each group of the cells.

    Each of the cells must have a value of the question's expression. Raises UserError if such a
    value, or one of the column to fit along, is not positive.
    """
    [(text, node)] = question.expressions
    along = question.along
    assert along is not None
    cells = [cell for cell in cells if cell.row[along] is not None]
    for name, values in (
        (text, [cell.values[0] for cell in cells]),
        (along, [cell.row[along] for cell in cells]),
    ):
        if least := [value for value in values if value <= 0]:
            raise UserError(f"`{name}` is {least[0]} somewhere: power laws are of positive numbers")

    # A point for each group and each value of the column to fit along. A pass is proof, and a fail
    # is only as good as its training budget. So the law is about the budgets that were tried, and
    # the law of the least of them stands beside it: the two show what more training has changed.
    finer = replace(grouping, group=(*grouping.group, along))
    rows = min_rows(views, finer, cells)
    by_group: dict[tuple[Any, ...], list[MinRow]] = defaultdict(list)
    for row in rows:
        by_group[tuple(row.columns.values())[:-1]].append(row)
    points = {key: [_point(row, along) for row in same] for key, same in by_group.items()}

    laws = []
    known_exponents = predictions() if cells and (node, along) == (Column("d"), "L") else {}
    for where, members in grouping.rows(cells):
        key = tuple(where.values())
        own = points.get(key, [])
        budgets = {p.steps for cell in members for p in cell.points if p.decided and p.steps}
        first, last = min(budgets, default=None), max(budgets, default=None)
        chained = all(cell.row.get("cot") is not False for cell in members)
        known = [point for point in own if point.informative]
        slope_log, slope_sqrt = slopes([point.x for point in known])
        law: dict[str, Any] = {
            "points": len(known),
            "censored": sum(not point.bracketed for point in known),
            "seeds": min((c.decided for c in members if c.outcome is not None), default=0),
            "least_steps": first,
            "most_steps": last,
            "slope_log": slope_log,
            "slope_sqrt": slope_sqrt,
            "predicted": known_exponents.get((where["task"], where["model"])) if chained else None,
            "reason": refusal(own),
        }
        if not law["reason"]:
            fitted = fit(own)
            law |= {name: getattr(fitted, name) for name in ("exponent", "low", "high", "factor")}
            law |= {f"weight_{name}": weight for name, weight in weights(own).items()}
            law["growth"] = fitted.direction
        if first != last:
            of_first = [_point(row, along, first) for row in by_group[key]]
            if not refusal(of_first):
                at = fit(of_first)
                law |= {"first_exponent": at.exponent, "first_low": at.low, "first_high": at.high}
        if where["model"] != "standard":
            standard = points.get(tuple((where | {"model": "standard"}).values()), [])
            if over := difference(own, standard):
                law |= zip(OVER_STANDARD, (over.exponent, over.low, over.high), strict=True)
        laws.append(where | {name: law.get(name) for name in COLUMNS})

    notes = merged_notes(finer, cells)
    if any(law["seeds"] == 1 for law in laws):
        notes.append("one seed: how far seeds lie apart is guessed from what widths and sizes show")
    return VerbRows([*grouping.group, *COLUMNS], laws, deciding_of(rows, merit), notes)


def _point(row: MinRow, along: str, steps: int | None = None) -> Point:
    """Returns what was tried at one value of the column to fit along: at each value the best cell,
    of those with this budget of steps if one is given."""
    tried = []
    for value, same in row.by_value.items():
        if steps is not None:
            same = [point for cell in same for point in cell.points if point.steps == steps]
        if same:
            best = max(same, key=lambda c: (c.outcome is True, c.passed / (c.decided or 1)))
            tried.append(Tried(value, best.passed, best.decided - best.passed))
    return Point(row.columns[along], tuple(tried))


def slopes(xs: Sequence[float]) -> tuple[float | None, float | None]:
    """Returns the exponents that ln x and √(x / ln x), laws of theory, have on average from the
    least x to the largest. Each is None where its law does not rise over all of these xs."""
    first, last = min(xs, default=1), max(xs, default=1)
    if first <= 1 or first == last:
        return None, None
    of_log = log2(log(last) / log(first)) / log2(last / first)
    return of_log, 0.5 * (1 - of_log) if first > e else None


# What a smaller width costs


def with_cost_of_halving(result: VerbRows, grouping: Grouping, cells: Sequence[Cell]) -> VerbRows:
    """Returns the rows of `min … by steps` with PER_HALVING in each of them.

    Rows that differ in their steps alone have the same PER_HALVING. cells: as they ran, each at its
    own budget.
    """
    group = tuple(name for name in grouping.group if name != "steps")
    costs = {
        tuple(columns.values()): cost_of_halving(members)
        for columns, members in replace(grouping, group=group).rows(cells)
    }
    empty = dict.fromkeys(PER_HALVING)
    rows = [row | empty | costs.get(tuple(row[n] for n in group), {}) for row in result.rows]
    return replace(result, columns=[*result.columns, *PER_HALVING], rows=rows)


def cost_of_halving(cells: Sequence[Cell]) -> dict[str, float]:
    """Returns PER_HALVING for cells that differ in the minimised value, in their steps and in the
    axes over which a row is the best.

    A law says how the steps that half of the seeds need depend on the value. One halving costs 2 to
    the power of minus its exponent. The result is empty where a value is not positive, or where the
    cells cannot carry a fit (`refusal`), as when too few values have both passes and fails.
    """

    def share(cell: Cell) -> float:
        return cell.passed / cell.decided

    # The best cell at each value and budget. A cell whose budget nobody knows says nothing.
    by_value: dict[float, dict[int, Cell]] = defaultdict(dict)
    for cell in cells:
        best = by_value[cell.values[0]]
        if cell.steps and cell.decided:
            rival = best.get(cell.steps)
            best[cell.steps] = cell if rival is None or share(cell) > share(rival) else rival
    # Of each value the budgets on either side of what its seeds need: the least that passed, and
    # the largest below it that failed. Longer runs continue shorter ones, so a seed that failed
    # with several budgets says only once that it needs more.
    points = []
    for value, best in sorted(by_value.items()):
        passing = [steps for steps, cell in best.items() if cell.outcome]
        least = min(passing, default=inf)
        failing = [steps for steps, cell in best.items() if cell.failed and steps < least]
        beside = {*([min(passing)] if passing else []), *([max(failing)] if failing else [])}
        tried = ((steps, best[steps]) for steps in sorted(beside))
        points.append(
            Point(value, tuple(Tried(n, c.passed, c.decided - c.passed) for n, c in tried))
        )
    if min(by_value, default=0) <= 0 or refusal(points):
        return {}
    law = fit(points)
    ends = (law.exponent, law.high, law.low)
    return dict(zip(PER_HALVING, (2**-end for end in ends), strict=True))
