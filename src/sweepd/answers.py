"""Questions → rows: `ask` parses a question, judges the cells by it and words what was found."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from sweepd.cells import NUMERIC, SCORE_COLUMNS, Cell, Score, judged, resampled
from sweepd.errors import UserError
from sweepd.fits import PREDICTED, Point, agrees, fit, refusal
from sweepd.question import Node, Question, parse, parse_predicate
from sweepd.statuses import STATUSES
from sweepd.verdicts import Candidate, Value, Verdict, judge
from sweepd.views import COSTS, Answer, CodeChoice, Source, Views, connect, quoted

LAW_COLUMNS = ("exponent", "low", "high", "factor")
TRUE = Node("true")

Sizes = Mapping[tuple[Any, ...], set[int]]
"""Sizes by all that makes a cell but its size."""


@dataclass(frozen=True)
class Grouping:
    """How the cells of a question fall into rows."""

    group: tuple[str, ...]
    shown: tuple[str, ...]
    """Axes that rows show in columns of their own."""
    others: tuple[str, ...]
    """What else varies."""
    across_sizes: bool
    """Whether a row is about one size, so that smaller sizes say something about it."""

    def rows(self, cells: Iterable[Cell]) -> list[tuple[dict[str, Any], list[Cell]]]:
        """The group's columns and its cells, in natural order."""
        groups = defaultdict(list)
        for cell in cells:
            groups[tuple(cell.row[name] for name in self.group)].append(cell)
        keys = sorted(groups, key=lambda key: [(value is not None, value) for value in key])
        return [(dict(zip(self.group, key, strict=True)), groups[key]) for key in keys]

    def at(self, cell: Cell) -> str:
        """Where else a cell stands: a JSON object of the other axes that it has."""
        axes = {name: cell.row[name] for name in self.others if cell.row[name] is not None}
        return json.dumps(axes, sort_keys=True)


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
    grouping = _grouping(views, question, [cell for cell, _ in every])
    cells = [cell for cell, selected in every if selected]
    notes += _notes(cells, condition)
    cells = [cell for cell in cells if None not in cell.values]
    match question.verb:
        case "min":
            columns, rows = _min(views, grouping, cells, condition)
        case "frontier":
            columns, rows = _frontier(question, grouping, cells)
        case "fit":
            columns, rows = _fit(views, question, grouping, cells, condition)
            if any(row["seeds"] == 1 for row in rows):
                notes.append("one seed: intervals hold the steps of the grid, no spread of seeds")
    about = condition.about.union(*(node.about for _, node in question.expressions))
    return Answer(columns, rows, notes, views.damaged, about or frozenset({"acc"}))


def _min(
    views: Views, grouping: Grouping, cells: Sequence[Cell], condition: Node
) -> tuple[list[str], list[dict[str, Any]]]:
    failed = _failed_sizes(views, cells) if grouping.across_sizes else {}
    first: Score = "loss" if condition.about == {"loss"} else "acc"
    rows = []
    for columns, members in grouping.rows(cells):
        by_value = _by_value(members)
        verdict = _verdict(views, by_value, failed)
        if verdict.value is not None:
            shown = [cell for cell in by_value[verdict.value] if cell.outcome]
        else:
            tried = [value for value, shared in by_value.items() if any(map(_tried, shared))]
            shown = [cell for value in tried[-1:] for cell in by_value[value] if _tried(cell)]
        best = max(shown, key=lambda cell: cell.merit(first), default=None)
        scores = best.scores() if best else dict.fromkeys(SCORE_COLUMNS)
        rows.append(
            {
                **columns,
                "value": verdict.value,
                "fail": verdict.fail,
                "pass": verdict.value,
                "inferred": verdict.inferred,
                "passed": best.passed if best else 0,
                "seeds": best.decided if best else 0,
                **scores,
                "close": _close(scores["acc_low"], scores["acc_high"], condition.thresholds),
                "at": grouping.at(best) if best and verdict.value is not None else None,
                "verdict": verdict.claim,
            }
        )
    own = ("value", "fail", "pass", "inferred", "passed", "seeds")
    return [*grouping.group, *own, *SCORE_COLUMNS, "close", "at", "verdict"], rows


def _frontier(
    question: Question, grouping: Grouping, cells: Sequence[Cell]
) -> tuple[list[str], list[dict[str, Any]]]:
    (cost, _), (score, node) = question.expressions
    sign = 1 if node.column == "loss" else -1
    own = [cost, score, *grouping.shown, "seeds", *SCORE_COLUMNS, "at"]
    rows = []
    for columns, members in grouping.rows(cell for cell in cells if cell.outcome):
        best = inf
        for cell in sorted(members, key=lambda c: (c.values[0], sign * c.values[1])):
            if sign * cell.values[1] < best:
                best = sign * cell.values[1]
                found = {
                    **{name: cell.row[name] for name in grouping.shown},
                    "seeds": cell.row["ended"],
                    **cell.scores(),
                    "at": grouping.at(cell),
                    cost: cell.values[0],
                    score: cell.values[1],
                }
                rows.append(columns | {name: found[name] for name in own})
    return list(dict.fromkeys([*grouping.group, *own])), rows


def _fit(
    views: Views, question: Question, grouping: Grouping, cells: Sequence[Cell], condition: Node
) -> tuple[list[str], list[dict[str, Any]]]:
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
    points = _points(views, grouping, along, cells)
    resamples = [
        _points(views, grouping, along, drawn) for drawn in resampled(views, condition, cells)
    ]
    rows = []
    for columns, members in grouping.rows(cells):
        key = tuple(columns.values())
        predicted = None
        if (node.column, along) == ("d", "L") and all(
            c.row.get("cot") is not False for c in members
        ):
            predicted = PREDICTED.get((columns["task"], columns["model"]))
        reason = refusal(points[key])
        law = fit(resample[key] for resample in resamples) if reason is None else None
        known = [point for point in points[key] if point.informative]
        rows.append(
            {
                **columns,
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
    return [*grouping.group, *LAW_COLUMNS, *own], rows


def _points(
    views: Views, grouping: Grouping, along: str, cells: Sequence[Cell]
) -> dict[tuple[Any, ...], list[Point]]:
    """What is known of the least value that passes, by group, at each value of the column."""
    failed = _failed_sizes(views, cells) if grouping.across_sizes else {}
    points = defaultdict(list)
    for columns, members in replace(grouping, group=(*grouping.group, along)).rows(cells):
        *key, x = columns.values()
        verdict = _verdict(views, _by_value(members), failed)
        least = inf if verdict.value is None else verdict.value
        points[tuple(key)].append(Point(x, verdict.fail or 0, least))
    return points


def _verdict(views: Views, by_value: Mapping[Value, Sequence[Cell]], failed: Sizes) -> Verdict:
    return judge([_candidate(views, cells, failed) for cells in by_value.values()])


def _by_value(cells: Iterable[Cell]) -> dict[Value, list[Cell]]:
    """Cells by what is minimised, by rising value."""
    by_value = defaultdict(list)
    for cell in cells:
        by_value[cell.values[0]].append(cell)
    return dict(sorted(by_value.items()))


def _candidate(views: Views, cells: Sequence[Cell], failed: Sizes) -> Candidate:
    """What is known of the value that these cells of one group share."""
    outcomes = {cell.outcome for cell in cells}
    passed = True if True in outcomes else None if None in outcomes else False
    smaller = (
        {size for size in failed.get(_but_size(views, cell), ()) if size < cell.row["size"]}
        for cell in cells
    )
    return Candidate(cells[0].values[0], passed, bool(set.intersection(*smaller)))


def _failed_sizes(views: Views, cells: Sequence[Cell]) -> Sizes:
    """The sizes at which a cell failed."""
    sizes = defaultdict(set)
    for cell in cells:
        if cell.outcome is False:
            sizes[_but_size(views, cell)].add(cell.row["size"])
    return sizes


def _but_size(views: Views, cell: Cell) -> tuple[Any, ...]:
    """All that makes a cell except its size, and L and costs, which follow from it."""
    size_field = views.size_fields.get(cell.row["task"])
    names = ["task", "model", *views.code_column, *views.axes]
    return tuple(cell.row[name] for name in names if name != size_field)


def _tried(cell: Cell) -> bool:
    return any(cell.row[status] for status in STATUSES)


def _close(low: float | None, high: float | None, thresholds: Sequence[float]) -> bool | None:
    """Whether an interval holds one of the thresholds; None if there is neither."""
    if low is None or high is None or not thresholds:
        return None
    return any(low <= threshold <= high for threshold in thresholds)


def _grouping(views: Views, question: Question, cells: Sequence[Cell]) -> Grouping:
    """The question's own group, or the default one.

    That is task, size, L, model and, for `min` and `fit`, each axis that a task and model have in
    several values, but for nuisance axes and what the question minimises: the columns it names,
    and d where it names a cost, which is there to rank widths. What `fit` fits along, and with it
    what follows from that, is no group either.
    """
    along = question.along
    varying = _varying(views, cells, along)
    size_columns = {"size", "L", *views.size_fields.values()}
    mentioned = {name for _, node in question.expressions for name in node.columns}
    if along is not None:
        if along in mentioned or along not in {"size", "L", *views.axes}:
            raise UserError(f"~ {along}: fit along the size or an axis, not what is minimised")
        [kind] = views.types([quoted(along)])
        if not kind.startswith(NUMERIC):
            raise UserError(f"~ {along}: it is of type {kind}, not a number")
        mentioned.add(along)
    names = ["task", "size", "L", "model", *views.code_column]
    if question.by is not None:
        allowed = [*names, *views.axes, *COSTS]
        for name in question.by:
            if name not in allowed:
                raise UserError(f"by {name}: group by one of {', '.join(sorted(allowed))}")
            if name == along:
                raise UserError(f"by {name}: a fit along {name} needs several values in a group")
        names = ["task", *question.by, "model", *views.code_column]
    elif question.verb != "frontier":
        left_out = mentioned | views.tune | ({"d"} if mentioned.intersection(COSTS) else set())
        if mentioned & size_columns:
            left_out |= size_columns
        names = [name for name in names + varying if name not in left_out]
    group = tuple(dict.fromkeys(names))
    across_sizes = bool(size_columns.intersection((*group, along)))
    in_columns = {*group, *(node.column for _, node in question.expressions)}
    width = [name for name in views.axes if name == "d" and name not in in_columns]
    shown = tuple(width if question.verb == "frontier" else ())
    others = varying + ([] if across_sizes else ["size"])
    others = [name for name in others if name not in in_columns and name not in shown]
    return Grouping(group, shown, tuple(others), across_sizes)


def _varying(views: Views, cells: Sequence[Cell], along: str | None) -> list[str]:
    """Axes, other than size, that one task and model have in several values (null is one), where
    there is a column to fit along at one value of that."""
    values: dict[tuple[Any, ...], set[Any]] = defaultdict(set)
    for cell in cells:
        where = cell.row["task"], cell.row["model"], cell.row[along] if along else None
        for axis in views.axes:
            values[axis, *where].add(cell.row[axis])
    size_fields = views.size_fields
    varying = {
        axis
        for (axis, task, *_), seen in values.items()
        if len(seen) > 1 and axis != size_fields.get(task)
    }
    return [axis for axis in views.axes if axis in varying]


def _goal(views: Views) -> str:
    """The goal that the sweeps have in common."""
    goals = {str(info["goal"]) for info in views.infos.values() if info.get("goal")}
    if len(goals) != 1:
        have = f"differ: {'; '.join(sorted(goals))}" if goals else "are not known"
        raise UserError(f"say when a cell passes, as in `where acc > 0.9`: the goals {have}")
    return goals.pop()


def _notes(cells: Sequence[Cell], condition: Node) -> list[str]:
    """What the rows leave out or do not decide."""
    notes = []
    if unfinished := [cell for cell in cells if cell.outcome is None]:
        stopped = sum(bool(cell.row["stopped"] or cell.row["solved"]) for cell in unfinished)
        detail = f", {stopped} of them with seeds that stopped early" if stopped else ""
        notes.append(f"unfinished: {len(unfinished)} of {len(cells)} cells{detail}")
    for score in sorted(condition.scores):
        if silent := sum(c.row["completed"] > 0 and c.row[score] is None for c in cells):
            notes.append(f"not measured: {silent} cells have completed trials without {score}")
    if unsettled := sum(None in cell.values for cell in cells):
        notes.append(f"left out: {unsettled} cells for which an expression has no value")
    return notes


def _conjunction(parts: Sequence[Node]) -> Node:
    if len(parts) < 2:
        return parts[0] if parts else TRUE
    return Node("(" + " AND ".join(["{}"] * len(parts)) + ")", tuple(parts))
