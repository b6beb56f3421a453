"""Questions → rows: `ask` parses a question, judges the cells by it and words what was found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

from sweepd.errors import UserError
from sweepd.query.cells import SCORE_COLUMNS, Cell, judged, resampled
from sweepd.query.database import Answer, CodeChoice, Source, Views, connect
from sweepd.query.grouping import Grouping, group
from sweepd.query.minima import MinRow, min_rows
from sweepd.query.nuisance import tuned
from sweepd.query.parser import Node, Question, parse, parse_predicate
from sweepd.query.power_law import PREDICTED, Point, agrees, fit, refusal

LAW_COLUMNS = ("exponent", "low", "high", "factor")
TRUE = Node("true")

Merit = Callable[[Cell], Any]
"""How good a cell is: it rises."""


@dataclass(frozen=True)
class Reply:
    """What one verb found."""

    columns: list[str]
    rows: list[dict[str, Any]]
    deciding: list[Cell]
    """The cells on which the rows hang."""
    notes: list[str]


def ask(
    source: Source,
    text: str,
    *,
    code: CodeChoice,
    sweeps: Sequence[str] | None = None,
    seeds: str | None = None,
) -> Answer:
    """Answer a question over some sweeps, or over the whole store.

    `seeds` (median, all, any or mean) overrides the pass rule of the grids. UserError if the
    question, a sweep's name or the rule is wrong.
    """
    views = connect(source, code=code, sweeps=sweeps, seeds=seeds)
    if not views.axes:
        return Answer([], [], ["nothing has been planned or run in this store"], views.damaged)
    damaged = (*views.damaged, *views.prepare(text))
    question = parse(text, views.columns)
    where = question.where.conjuncts if question.where else ()
    selection = _conjunction([part for part in where if not part.scores])
    condition = _conjunction([part for part in where if part.scores])
    notes = list(views.notes)
    if question.verb != "frontier" and condition == TRUE:
        goal = _goal(views)
        condition = parse_predicate(goal, views.columns)
        notes.append(f"the question asks nothing of acc or loss, so the goal decides: {goal}")

    every = judged(views, question, selection, condition)
    cells = [cell for cell, selected in every if selected]
    grouping = group(views, question, [cell for cell, _ in every], cells)
    merit = _merit(question, condition)
    cells = tuned(cells, grouping.tuned, grouping.rest, condition, merit)
    notes += _notes(cells, condition)
    cells = [cell for cell in cells if cell.has_values]
    match question.verb:
        case "min":
            reply = _min(views, grouping, cells, condition, merit)
        case "frontier":
            reply = _frontier(question, grouping, cells, merit)
        case "fit":
            reply = _fit(views, question, grouping, cells, condition, merit)
    notes += [*reply.notes, *_edge_notes(grouping, reply.deciding)]
    partial = sum(not cell.complete for cell in reply.deciding)
    if partial and any(node.scores for _, node in question.expressions):
        notes.append(
            f"partial: {partial} of {len(reply.deciding)} cells shown are judged by fewer seeds, "
            "or values of nuisance axes, than are planned"
        )
    about = condition.about.union(*(node.about for _, node in question.expressions))
    return Answer(reply.columns, reply.rows, notes, damaged, about or frozenset({"acc"}))


def _merit(question: Question, condition: Node) -> Merit:
    """By the score of a frontier, else by what the condition is about."""
    if question.verb != "frontier":
        return lambda cell: cell.merit("loss" if condition.about == {"loss"} else "acc")
    sign = -1 if question.expressions[1][1].column == "loss" else 1

    def merit(cell: Cell) -> float:
        score = cell.values[1]
        return sign * score if score is not None and isfinite(score) else -inf

    return merit


def _min(
    views: Views, grouping: Grouping, cells: Sequence[Cell], condition: Node, merit: Merit
) -> Reply:
    rows = []
    found = min_rows(views, grouping, cells)
    for line in found:
        bound = line.bound
        best = max(line.passing or line.largest_tried, key=merit, default=None)
        scores = best.scores() if best else dict.fromkeys(SCORE_COLUMNS)
        told = best if best and (best.outcome or best.measured) else None
        rows.append(
            {
                **line.columns,
                "value": bound.value,
                "fail": bound.fail,
                "pass": bound.value,
                "inferred": bound.inferred,
                "passed": best.passed if best else 0,
                "seeds": best.decided if best else 0,
                **scores,
                "close": _close(scores["acc_low"], scores["acc_high"], condition.thresholds),
                "at": told and grouping.at(told),
                "edge": told and told.edge,
                "verdict": bound.kind,
            }
        )
    own = ("value", "fail", "pass", "inferred", "passed", "seeds")
    columns = [*grouping.group, *own, *SCORE_COLUMNS, "close", "at", "edge", "verdict"]
    notes = _merged_notes(grouping, cells)
    if vacuous := sum(line.at_the_smallest for line in found):
        notes.append(f"smallest: in {vacuous} of {len(rows)} rows no value below was tried")
    return Reply(columns, rows, _deciding(found, merit), notes)


def _frontier(question: Question, grouping: Grouping, cells: Sequence[Cell], merit: Merit) -> Reply:
    (cost, _), (score, _) = question.expressions
    own = [cost, score, *grouping.shown, "seeds", *SCORE_COLUMNS, "at", "edge"]
    rows, unbeaten = [], []
    for where, members in grouping.rows(cell for cell in cells if cell.outcome):
        best = -inf
        for cell in sorted(members, key=lambda cell: (cell.values[0], -merit(cell))):
            if merit(cell) > best:
                best = merit(cell)
                found = {
                    **{name: cell.row[name] for name in grouping.shown},
                    "seeds": cell.row["ended"],
                    **cell.scores(),
                    "at": grouping.at(cell),
                    "edge": cell.edge,
                    cost: cell.values[0],
                    score: cell.values[1],
                }
                rows.append(where | {name: found[name] for name in own})
                unbeaten.append(cell)
    columns = list(dict.fromkeys([*grouping.group, *own]))
    notes = []
    if merged := grouping.merged(cells):
        notes.append(f"pooled: cells that differ in {', '.join(merged)}, other problems, compete")
    return Reply(columns, rows, unbeaten, notes)


def _fit(
    views: Views,
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    condition: Node,
    merit: Merit,
) -> Reply:
    [(text, node)] = question.expressions
    along = question.along
    assert along is not None
    cells = [cell for cell in cells if cell.row[along] is not None]
    for name, values in {
        text: [cell.values[0] for cell in cells],
        along: [cell.row[along] for cell in cells],
    }.items():
        if least := [value for value in values if value <= 0]:
            raise UserError(f"`{name}` is {least[0]} somewhere: power laws are of positive numbers")
    finer = replace(grouping, group=(*grouping.group, along))
    found = min_rows(views, finer, cells)
    points = _points(found)
    resamples = [
        _points(min_rows(views, finer, drawn)) for drawn in resampled(views, condition, cells)
    ]
    rows = []
    for where, members in grouping.rows(cells):
        key = tuple(where.values())
        predicted = None
        if (node.column, along) == ("d", "L") and all(
            c.row.get("cot") is not False for c in members
        ):
            predicted = PREDICTED.get((where["task"], where["model"]))
        reason = refusal(points[key])
        law = fit(resample[key] for resample in resamples) if reason is None else None
        known = [point for point in points[key] if point.informative]
        rows.append(
            {
                **where,
                **{name: getattr(law, name, None) for name in LAW_COLUMNS},
                "points": len(known),
                "censored": sum(not point.bracketed for point in known),
                "seeds": min((c.decided for c in members if c.outcome is not None), default=0),
                "predicted": predicted,
                "agrees": agrees(predicted, law.low, law.high) if predicted and law else None,
                "reason": reason,
            }
        )
    own = ("points", "censored", "seeds", "predicted", "agrees", "reason")
    columns = [*grouping.group, *LAW_COLUMNS, *own]
    notes = _merged_notes(finer, cells)
    if any(row["seeds"] == 1 for row in rows):
        notes.append("one seed: intervals hold the steps of the grid, no spread of seeds")
    return Reply(columns, rows, _deciding(found, merit), notes)


def _points(found: Sequence[MinRow]) -> dict[tuple[Any, ...], list[Point]]:
    """What is known of the least value that passes, by group, at each value of the last column."""
    points = defaultdict(list)
    for line in found:
        *key, x = line.columns.values()
        least = inf if line.bound.value is None else line.bound.value
        points[tuple(key)].append(Point(x, line.bound.fail or 0, least))
    return points


def _deciding(found: Sequence[MinRow], merit: Merit) -> list[Cell]:
    """The best cell at each end of what is known of a least value."""
    ends = [cells for line in found for cells in (line.passing, line.failing) if cells]
    return [max(cells, key=merit) for cells in ends]


def _close(low: float | None, high: float | None, thresholds: Sequence[float]) -> bool | None:
    """Whether an interval holds one of the thresholds; None if there is neither."""
    if low is None or high is None or not thresholds:
        return None
    return any(low <= threshold <= high for threshold in thresholds)


def _goal(views: Views) -> str:
    """The goal that the sweeps have in common."""
    goals = {info.goal for info in views.infos.values()}
    if len(goals) != 1:
        have = f"differ: {'; '.join(sorted(goals))}" if goals else "are not known"
        raise UserError(f"say when a cell passes, as in `where acc > 0.9`: the goals {have}")
    return goals.pop()


def _notes(cells: Sequence[Cell], condition: Node) -> list[str]:
    """What the rows leave out or do not decide."""
    notes = []
    if unfinished := [cell for cell in cells if cell.outcome is None]:
        early = [
            any(point.row["stopped"] or point.row["solved"] for point in cell.points)
            for cell in unfinished
        ]
        detail = f", {sum(early)} of them with seeds that stopped early" if any(early) else ""
        notes.append(f"unfinished: {len(unfinished)} of {len(cells)} cells{detail}")
    for score in sorted(condition.scores):
        if silent := sum(c.row["completed"] > 0 and c.row[score] is None for c in cells):
            notes.append(f"not measured: {silent} cells have completed trials without {score}")
    if unsettled := sum(not cell.has_values for cell in cells):
        notes.append(f"left out: {unsettled} cells for which an expression has no value yet")
    return notes


def _merged_notes(grouping: Grouping, cells: Sequence[Cell]) -> list[str]:
    merged = ", ".join(grouping.merged(cells))
    return [f"merged: rows are the best over {merged}, which `by` leaves out"] if merged else []


def _edge_notes(grouping: Grouping, deciding: Sequence[Cell]) -> Iterator[str]:
    """Where a wider range of a nuisance axis may change the answer."""
    for axis in grouping.tuned:
        at_edge = [cell for cell in deciding if axis in cell.edge.split(",")]
        if at_edge:
            failed = sum(cell.outcome is False for cell in at_edge)
            yield (
                f"edge: the best {axis} is at the edge of its tried range in {len(at_edge)} of the "
                f"{len(deciding)} cells that decide ({failed} of them failed): try a wider range"
            )


def _conjunction(parts: Sequence[Node]) -> Node:
    if len(parts) < 2:
        return parts[0] if parts else TRUE
    return Node("(" + " AND ".join(["{}"] * len(parts)) + ")", tuple(parts))
