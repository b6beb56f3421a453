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
from sweepd.query.database import Views
from sweepd.query.expressions import Column, Node
from sweepd.query.grouping import Grouping
from sweepd.query.laws import LAW_NAMES, Point, Slope, Tried, difference, fit, refusal, weights
from sweepd.query.minima import Merit, min_rows
from sweepd.query.parser import Question
from sweepd.query.settled import settled_marks
from sweepd.query.verbs import VerbRows, deciding_of, merged_notes

OVER_STANDARD = ("over_standard", "over_standard_low", "over_standard_high")
COLUMNS = (
    *("exponent", "low", "high", "growth", "factor", *(f"weight_{name}" for name in LAW_NAMES)),
    *("points", "censored", "seeds", *OVER_STANDARD, "predicted", "at_hand", "agrees", "reason"),
)
"""The columns of a row of `fit` besides those of its group."""
PER_HALVING = ("per_halving", "per_halving_low", "per_halving_high")
"""The columns of `min … by steps` that say how many times as many steps one halving of the
minimised value costs, with the ends of the 95% interval."""


def growth(
    views: Views,
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    condition: Node,
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

    # A point for each group and each value of the column to fit along. Where a sweep settles its
    # answers and more training may change a row of `min`, the fails there may be due to the
    # training budget, so only passes count.
    finer = replace(grouping, group=(*grouping.group, along))
    rows = min_rows(views, finer, cells)
    passes_only = [False for _ in rows]
    if views.selection.settles:
        passes_only = [mark.settled != "yes" for mark in settled_marks(views, rows, condition)]
    points: dict[tuple[Any, ...], list[Point]] = defaultdict(list)
    for row, only in zip(rows, passes_only, strict=True):
        *key, x = row.columns.values()
        tried = []
        for value, same in row.by_value.items():
            best = max(
                same, key=lambda cell: (cell.outcome is True, cell.passed / (cell.decided or 1))
            )
            tried.append(Tried(value, best.passed, 0 if only else best.decided - best.passed))
        points[tuple(key)].append(Point(x, tuple(tried)))

    laws = []
    for where, members in grouping.rows(cells):
        own = points[tuple(where.values())]
        of_width = (node, along) == (Column("d"), "L")
        chained = all(cell.row.get("cot") is not False for cell in members)
        predicted = PREDICTED.get((where["task"], where["model"])) if of_width and chained else None
        known = [point for point in own if point.informative]
        law: dict[str, Any] = {
            "points": len(known),
            "censored": sum(not point.bracketed for point in known),
            "seeds": min((c.decided for c in members if c.outcome is not None), default=0),
            "predicted": predicted,
            "reason": refusal(own),
        }
        if not law["reason"]:
            fitted = fit(own)
            law |= {name: getattr(fitted, name) for name in ("exponent", "low", "high", "factor")}
            law |= {f"weight_{name}": weight for name, weight in weights(own).items()}
            law["growth"] = fitted.direction
            if predicted:
                law["at_hand"] = at_hand(predicted, [point.x for point in known])
                law["agrees"] = agrees(predicted, law["at_hand"], fitted)
        if where["model"] != "standard":
            standard = points.get(tuple((where | {"model": "standard"}).values()), [])
            if over := difference(own, standard):
                law |= zip(OVER_STANDARD, (over.exponent, over.low, over.high), strict=True)
        laws.append(where | {name: law.get(name) for name in COLUMNS})

    notes = merged_notes(finer, cells)
    if any(law["seeds"] == 1 for law in laws):
        notes.append("one seed: how far seeds lie apart is guessed from what widths and sizes show")
    if any(passes_only):
        notes.append(
            f"not settled: in {sum(passes_only)} of {len(rows)} points only passes count, as "
            "bounds from above; their fails may be due to the training budget"
        )
    return VerbRows([*grouping.group, *COLUMNS], laws, deciding_of(rows, merit), notes)


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


# What theory predicts

PREDICTED = {
    **{(task, "standard"): "0" for task in ("lis", "edit_distance", "ed_local", "arithmetic")},
    ("lis", "sparse"): "1/2",
    ("lis", "linear"): "1/2",
    ("edit_distance", "sparse"): "0",
    ("edit_distance", "linear"): ">= 1/4",
    ("ed_local", "sparse"): "0",
    ("ed_local", "linear"): ">= 1/4",
    ("arithmetic", "sparse"): "0",
    ("arithmetic", "linear"): ">= 1/4",
}
"""The exponents of min d in L that theory predicts, by task and model. They follow from the bounds
of Yang et al. 2024 (Table 1).

`0` is an upper bound, `>= 1/4` is a lower bound, and `1/2` is both. They hold up to logarithms,
with chains of thought. Both kinds of edit distance have a locality of the order of n, and their L
is of the order of n². Their bound for the sparse model takes B of the order of n.
"""


def at_hand(predicted: str, xs: Sequence[float]) -> float:
    """Returns the least exponent that a prediction allows over these xs.

    The bounds hold up to logarithms, and at small L those matter: √(L / ln L) rises more slowly
    than √L. For `1/2` the exponent is the mean slope of √(L / ln L) from the least x to the
    largest, and for `>= 1/4` it is half of that. It is 0 for `0`, and where an x is e or less.
    """
    first, last = min(xs), max(xs)
    if predicted == "0" or first <= e:
        return 0.0
    of_half = 0.5 * (1 - log2(log(last) / log(first)) / log2(last / first))
    return of_half if predicted == "1/2" else of_half / 2


def agrees(predicted: str, least: float, slope: Slope) -> bool | None:
    """Returns whether a measured exponent agrees with a prediction. `least` is what `at_hand`
    returns for the prediction.

    The result is False only where the whole interval lies below a lower bound. It is None where the
    whole interval lies above an upper bound. That contradicts nothing, since a trained model may
    need more width than the best possible weights do.
    """
    if predicted == "0":
        return True if slope.low <= 0 else None
    if slope.high < least:
        return False
    return None if predicted == "1/2" and slope.low > 0.5 else True
