"""The rows of each verb: `min`, `frontier`, `best`, `max`, and `fit`, which says how the least
value that passes grows along a column. Also what a smaller width costs in training."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import e, inf, log, log2
from typing import Any

from sweepd.errors import UserError
from sweepd.judge.cells import FAIL, OPEN, PASS
from sweepd.query.cells import Cell, Value
from sweepd.query.deciding import LEAST_COLUMNS, TRIED_COLUMNS, Ends, least_columns, tried_columns
from sweepd.query.expressions import Column, Node, goal_of, thresholds
from sweepd.query.grouping import Grouping
from sweepd.query.laws import LAW_NAMES, Point, Tried, difference, fit, refusal, weights
from sweepd.query.minima import Merit, MinRow, cell_rows, min_rows
from sweepd.query.nuisance import at_edge
from sweepd.statuses import RAN

OVER_STANDARD = ("over_standard", "over_standard_low", "over_standard_high")
OF_FIRST = ("first_exponent", "first_low", "first_high")
LAW_COLUMNS = (
    *("exponent", "low", "high", "growth", "factor", *(f"weight_{name}" for name in LAW_NAMES)),
    *("points", "censored", "seeds", "least_steps", "most_steps"),
    *(*OF_FIRST, *OVER_STANDARD, "slope_log", "slope_sqrt", "predicted", "reason"),
)
"""The columns of a row of `fit` besides those of its group. A law is about what was tried, with
least_steps to most_steps; first_exponent is that of what ran with least_steps alone."""
PER_HALVING = ("per_halving", "per_halving_low", "per_halving_high")
"""The columns of `min … by steps` that say how many times as many steps one halving of the
minimised value costs, with the ends of the 95% interval."""


@dataclass(frozen=True)
class VerbRows:
    """What one verb finds. deciding: the cells on which its rows depend. find_cells: as in
    `Answer`."""

    columns: list[str]
    rows: list[dict[str, Any]]
    deciding: list[Cell]
    notes: list[str]
    find_cells: Callable[[], Iterable[Mapping[str, Any]]] = tuple


def rows_of(grouping: Grouping, cells: Sequence[Cell], condition: Node, merit: Merit) -> VerbRows:
    """Returns the rows of the question's verb."""
    valued = [cell for cell in cells if cell.has_values]
    match grouping.question.verb:
        case "min":
            return least(grouping, cells, condition, merit)
        case "frontier":
            return frontier(grouping, valued, merit)
        case "fit":
            return growth(grouping, valued, merit)
        case "best":
            return best(grouping, cells, merit)
        case "max":
            return greatest(grouping, valued)


def least(grouping: Grouping, cells: Sequence[Cell], condition: Node, merit: Merit) -> VerbRows:
    """Returns the rows of `min`."""
    rows, goal = min_rows(grouping, cells), goal_of(condition)
    ends = Ends.of(grouping.views, goal, rows) if goal and not grouping.of_score else None
    own = ["value", "fail", "pass", "inferred", "passed", "seeds", *grouping.scores]
    every = [*grouping.group, *own, "close", "at", "edge", "verdict"]
    columns = list(dict.fromkeys([*every, *TRIED_COLUMNS, *LEAST_COLUMNS]))
    tried = tried_columns(grouping.views, rows, goal, ends)
    answered = []
    for row, of_row in zip(rows, tried, strict=True):
        best = row.shown(merit)
        known_best = best if best and (best.outcome or best.measured) else None
        of_best = best.scores() if best else {}
        low, high, close = of_best.get("acc_low"), of_best.get("acc_high"), None
        if low is not None and high is not None and (asked := thresholds(condition)):
            close = any(low <= threshold <= high for threshold in asked)
        by_column = {
            **of_row,
            **least_columns(row),
            **row.columns,
            **dict.fromkeys(grouping.scores),
            "value": row.verdict.value,
            "fail": row.verdict.fail,
            "pass": row.verdict.value,
            "inferred": row.verdict.inferred,
            "passed": best.passed if best else 0,
            "seeds": best.decided if best else 0,
            **of_best,
            "close": close,
            "at": known_best and grouping.at(known_best),
            "edge": known_best and known_best.edge,
            "verdict": row.verdict.kind,
        }
        answered.append({name: by_column[name] for name in columns})
    notes = merged_notes(grouping, cells)
    at_the_smallest = sum(row.verdict.value == next(iter(row.by_value)) for row in rows)
    if at_the_smallest and not grouping.of_score:
        notes.append(f"smallest: in {at_the_smallest} of {len(rows)} rows no value below was tried")
    find_cells = partial(cell_rows, grouping, rows, merit)
    return VerbRows(columns, answered, deciding_of(rows, merit), notes, find_cells)


def rows_of_picked(
    grouping: Grouping,
    first: Sequence[str],
    picked: Sequence[tuple[dict[str, Any], Cell, dict[str, Any]]],
    notes: list[str],
    *more: str,
) -> VerbRows:
    """Returns a row for each cell that a verb has picked. picked: the columns of its group, the
    cell, and what the verb says of it. first, more: the columns before and after the scores."""
    after = ("seeds", *grouping.scores, *more, "at", "edge")
    columns = list(dict.fromkeys([*grouping.group, *first, *after]))
    rows = []
    for where, cell, of_verb in picked:
        by_column = {
            **where,
            **{name: cell.row[name] for name in grouping.shown},
            "seeds": sum(cell.row[status] for status in RAN),
            **cell.scores(),
            "at": grouping.at(cell),
            "edge": cell.edge,
            **of_verb,
        }
        rows.append({name: by_column[name] for name in columns})
    return VerbRows(columns, rows, [cell for _, cell, _ in picked], notes)


def frontier(grouping: Grouping, cells: Sequence[Cell], merit: Merit) -> VerbRows:
    """Returns the rows of `frontier`: the cells that no other beats on both cost and score."""
    (cost, _), (score, _) = grouping.question.expressions
    unbeaten: list[tuple[dict[str, Any], Cell, dict[str, Any]]] = []
    tied = 0
    for where, members in grouping.rows(cell for cell in cells if cell.outcome):
        best = -inf
        for cell in sorted(members, key=lambda cell: (cell.values[0], -merit(cell))):
            tied += merit(cell) == best > -inf and cell.values[0] == unbeaten[-1][1].values[0]
            if merit(cell) > best:
                best = merit(cell)
                at = {"solved": cell.row["solved"], cost: cell.values[0], score: cell.values[1]}
                unbeaten.append((where, cell, at))
    notes = []
    if solved := sum(cell.row["solved"] > 0 for cell in cells):
        notes.append(
            f"censored: {solved} of {len(cells)} cells have seeds that stopped as solved; their "
            "score is at least that, so one that is not shown may belong here"
        )
    if tied:
        notes.append(f"tied: {tied} more cells have the cost and the score of a row that is shown")
    if merged := grouping.merged(cells):
        notes.append(f"pooled: cells that differ in {merged}, other problems, compete")
    numbers = [{"cell": cell.row["cell"]} for _, cell, _ in unbeaten]
    first = (cost, score, *grouping.shown)
    result = rows_of_picked(grouping, first, unbeaten, notes, "solved")
    return replace(result, find_cells=lambda: numbers)


def best(grouping: Grouping, cells: Sequence[Cell], merit: Merit) -> VerbRows:
    """Returns the rows of `best`: the value of an axis with the best score in each group, and how
    many were tried (`values`). `edge` names the axis too where its best value is the least or the
    greatest of these. A value whose cells fail the question's condition, or with which training
    diverged, was tried and cannot be the best."""
    axis, [(score, _)] = grouping.question.best, grouping.question.expressions
    assert axis is not None
    winners, without = [], 0
    for where, members in grouping.rows(cell for cell in cells if cell.values[0] is not None):
        rivals = [cell for cell in members if cell.outcome and cell.has_values]
        if not rivals:
            without += 1
            continue
        winner = max(rivals, key=merit)
        edges = [winner.edge, axis if at_edge(axis, winner, members) else ""]
        tried = {"values": len({cell.row[axis] for cell in members})}  # unless an axis is so named
        best_value = {axis: winner.row[axis], "edge": ",".join(filter(None, edges))}
        winners.append((where, winner, tried | where | best_value))
    notes = merged_notes(grouping, cells)
    if without:
        notes.append(
            f"no best: in {without} groups no {axis} whose score is known meets the condition"
        )
    return rows_of_picked(grouping, (axis, score, "values"), winners, notes)


def greatest(grouping: Grouping, cells: Sequence[Cell]) -> VerbRows:
    """Returns the rows of `max`: the greatest value of an expression in each group."""
    [(text, _)] = grouping.question.expressions
    winners = []
    for where, members in grouping.rows(cell for cell in cells if cell.outcome):
        winner = max(members, key=lambda cell: cell.values[0])
        winners.append((where, winner, {text: winner.values[0]}))
    notes = merged_notes(grouping, cells)
    return rows_of_picked(grouping, (text, *grouping.shown), winners, notes)


def growth(grouping: Grouping, cells: Sequence[Cell], merit: Merit) -> VerbRows:
    """Returns the rows of `fit`: the law of each group of the cells. All of these have a value of
    the question's expression. Raises UserError if such a value, or one of the column to fit along,
    is not positive."""
    [(text, node)] = grouping.question.expressions
    along = grouping.question.along
    assert along is not None
    cells = [cell for cell in cells if cell.row[along] is not None]
    values = {text: [cell.values[0] for cell in cells], along: [cell.row[along] for cell in cells]}
    for name, numbers in values.items():
        if least := [number for number in numbers if number <= 0]:
            raise UserError(f"`{name}` is {least[0]} somewhere: power laws are of positive numbers")

    # A point for each group and each value of the column to fit along. A pass is proof, and a fail
    # is only as good as its training budget. So the law is about the budgets that were tried, and
    # the law of the least of them stands beside it: the two show what more training has changed.
    finer = replace(grouping, group=(*grouping.group, along))
    rows = min_rows(finer, cells)
    by_group: dict[tuple[Any, ...], list[MinRow]] = defaultdict(list)
    for row in rows:
        by_group[tuple(row.columns.values())[:-1]].append(row)

    def point(row: MinRow, steps: int | None = None) -> Point:
        """What was tried at one value of the column to fit along: with all seeds, and with all
        budgets, or with this one if it is given."""
        tried = []
        for value, same in row.by_value.items():
            of_value = [p for cell in same for p in cell.points if steps in (None, p.steps)]
            if of_value:
                tried.append(_tried(value, of_value, grouping.views.identity))
        return Point(row.columns[along], tuple(tried))

    points = {key: [point(row) for row in same] for key, same in by_group.items()}

    laws = []
    predicted: Mapping[tuple[str, str], str] = {}
    if cells and (node, along) == (Column("d"), "L"):
        from sweepd.query.claim_files import predictions  # takes a while

        predicted = predictions()
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
            "predicted": predicted.get((where["task"], where["model"])) if chained else None,
            "reason": refusal(own),
        }
        if not law["reason"]:
            fitted = fit(own)
            law |= zip(("exponent", "low", "high"), fitted[:3], strict=True)
            law |= {"growth": fitted.direction, "factor": fitted.factor}
            law |= {f"weight_{name}": weight for name, weight in weights(own).items()}
        if first != last:
            of_first = [point(row, first) for row in by_group[key]]
            if not refusal(of_first):
                law |= zip(OF_FIRST, fit(of_first)[:3], strict=True)
        if where["model"] != "standard":
            standard = points.get(tuple((where | {"model": "standard"}).values()), [])
            if over := difference(own, standard):
                law |= zip(OVER_STANDARD, over[:3], strict=True)
        laws.append(where | {name: law.get(name) for name in LAW_COLUMNS})

    notes = merged_notes(finer, cells)
    if any(law["seeds"] == 1 for law in laws):
        notes.append("one seed: how far seeds lie apart is guessed from what widths and sizes show")
    return VerbRows([*grouping.group, *LAW_COLUMNS], laws, deciding_of(rows, merit), notes)


def _tried(value: Value, points: Sequence[Cell], identity: Sequence[str]) -> Tried:
    """Returns how many trials passed and failed at points that share a value. One trial with
    several budgets counts once: it failed if it passed with none of them.

    One combination of nuisance values that passes is enough (`judge.cells.over_rates`). So where
    some pass, their trials count, since fails at others say nothing of the value. Where none does,
    the trials at all of them count.
    """
    names = [name for name in identity if name != "steps"]
    rates: dict[tuple[Any, ...], list[Cell]] = defaultdict(list)
    for point in points:
        rates[tuple(map(point.row.__getitem__, names))].append(point)
    passing = [same for same in rates.values() if any(point.outcome for point in same)]
    counts: Counter[int] = Counter()
    for same in passing or rates.values():
        shown: dict[int, int] = {}
        for point in same:
            for seed, vote in zip(point.seeds.tolist(), point.votes.tolist(), strict=True):
                before = shown.get(seed, OPEN)
                shown[seed] = PASS if PASS in (vote, before) else min(vote, before)
        counts.update(shown.values())
    return Tried(value, counts[PASS], counts[FAIL])


def slopes(xs: Sequence[float]) -> tuple[float | None, float | None]:
    """Returns the exponents that ln x and √(x / ln x), laws of theory, have on average from the
    least x to the largest. Each is None where its law does not rise over all of these xs."""
    first, last = min(xs, default=1), max(xs, default=1)
    if first <= 1 or first == last:
        return None, None
    of_log = log2(log(last) / log(first)) / log2(last / first)
    return of_log, 0.5 * (1 - of_log) if first > e else None


def with_cost_of_halving(result: VerbRows, grouping: Grouping, cells: Sequence[Cell]) -> VerbRows:
    """Returns the rows of `min … by steps` with PER_HALVING in each of them.

    Rows that differ in their steps alone have the same. A law says how the steps that half of the
    seeds need depend on the minimised value. One halving costs 2 to the power of minus its
    exponent. The columns are None where a value is not positive, or where the cells cannot carry a
    fit (`refusal`), as when too few values have both passes and fails.

    cells: as they ran, each at its own budget.
    """
    group = tuple(name for name in grouping.group if name != "steps")
    costs: dict[tuple[Any, ...], dict[str, float]] = {}
    for columns, members in replace(grouping, group=group).rows(cells):
        by_value: dict[float, dict[int, list[Cell]]] = defaultdict(lambda: defaultdict(list))
        for cell in members:
            budgets = by_value[cell.values[0]]
            if cell.steps and cell.decided:  # one whose budget nobody knows says nothing
                budgets[cell.steps].append(cell)
        # Of each value the budgets on either side of what its seeds need: the least that passed,
        # and the largest below it that failed. Longer runs continue shorter ones, so a seed that
        # failed with several budgets says only once that it needs more.
        points = []
        for value, budgets in sorted(by_value.items()):
            rising = sorted(budgets.items())
            passing = [one for one in rising if any(cell.outcome for cell in one[1])][:1]
            least = passing[0][0] if passing else inf
            failing = [one for one in rising if one[0] < least and all(c.failed for c in one[1])]
            tried = [
                _tried(steps, same, grouping.views.identity)
                for steps, same in (*failing[-1:], *passing)
            ]
            points.append(Point(value, tuple(tried)))
        if min(by_value) > 0 and not refusal(points):
            law = fit(points)
            ends = (2**-end for end in (law.exponent, law.high, law.low))
            costs[tuple(columns.values())] = dict(zip(PER_HALVING, ends, strict=True))
    empty = dict.fromkeys(PER_HALVING)
    rows = [row | empty | costs.get(tuple(row[n] for n in group), {}) for row in result.rows]
    return replace(result, columns=[*result.columns, *PER_HALVING], rows=rows)


def deciding_of(rows: Sequence[MinRow], merit: Merit) -> list[Cell]:
    """Returns the best cell at each end of what is known of each least value: among the cells that
    pass with it, and among those that failed themselves with the largest smaller value."""
    deciding = []
    for row in rows:
        fail = row.verdict.fail
        failing = [] if fail is None else [cell for cell in row.by_value[fail] if cell.failed]
        deciding += [max(cells, key=merit) for cells in (row.passing, failing) if cells]
    return deciding


def merged_notes(grouping: Grouping, cells: Iterable[Cell]) -> list[str]:
    """Returns a note on the columns over which rows are the best though the question does not
    mention them. The list is empty if there are no such columns."""
    merged = grouping.merged(cell for cell in cells if cell.has_values)
    return [f"merged: rows are the best over {merged}, which `by` leaves out"] if merged else []
