"""From a question to rows: `ask` parses a question, judges the cells by it and words the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, isfinite
from typing import Any

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid.options import OF_ANSWERS, Goal
from sweepd.query.cells import Cell, judged, score_columns
from sweepd.query.cells_sql import COSTS, MEASURED
from sweepd.query.database import Answer, CodeChoice, Views, connect, needed_by
from sweepd.query.expressions import (
    TRUE,
    Column,
    Compare,
    Constant,
    Node,
    conjunction,
    conjuncts,
    falls,
    goal_of,
    of_goal,
    thresholds,
)
from sweepd.query.grouping import Grouping, group
from sweepd.query.minima import MinRow, min_rows
from sweepd.query.nuisance import fewest_steps, tuned, within_budgets
from sweepd.query.parser import Question, parse
from sweepd.query.reply import Merit, Reply, deciding, merged_notes, told_of
from sweepd.query.settled import (
    LEAST_COLUMNS,
    SETTLED_COLUMNS,
    Ends,
    least_columns,
    settled_columns,
)
from sweepd.query.source import Source
from sweepd.query.summary import summary
from sweepd.query.winners import best, greatest, with_score

MOST_VALUES = 12
"""How many values of a column a note lists at most, where a question asks for a value that no cell
has."""


def ask(
    source: Source,
    text: str,
    *,
    code: CodeChoice,
    sweeps: Sequence[str] | None = None,
    seeds: str | None = None,
) -> Answer:
    """Returns the answer to a question over some sweeps, or over the whole store.

    `seeds` (median, all, any or mean) overrides the pass rule of the grids. Raises UserError if the
    question, a sweep's name or the rule is wrong.
    """
    needed = needed_by(text)
    return answer(connect(source, code=code, sweeps=sweeps, seeds=seeds, needed=needed), text)


def answer(views: Views, text: str) -> Answer:
    """Returns the answer to a question over views that exist already. Raises UserError if the
    question is wrong."""
    if not views.axes:
        return Answer([], [], ["nothing has been planned or run in this store"], views.damaged)
    damaged = (*views.damaged, *views.prepare(text))
    question = with_score(views, parse(text, views.columns, views.own, views.connection))
    where = conjuncts(question.where or TRUE)
    selection = conjunction([part for part in where if not part.scores])
    condition = conjunction([part for part in where if part.scores])
    notes, asked = list(views.notes), question.condition
    if question.verb in ("min", "fit") and condition == TRUE:
        goal = _goal(views)
        condition = of_goal(goal, views.own)
        asked = f"{goal} where {asked}" if asked else str(goal)
        names = " or ".join(("acc", "loss", *views.own))
        notes.append(f"the question asks nothing of {names}, so the goal decides: {goal}")

    about = condition.about.union(*(node.about for _, node in question.expressions))
    own = {name: better for name, better in views.own.items() if name in about}
    every = judged(views, question, selection, condition, own)
    cells = [cell for cell, selected in every if selected]
    if not cells:
        notes += _unmet(conjuncts(selection), [cell for cell, _ in every])
    grouping = group(views, question, [cell for cell, _ in every], cells)
    _refuse_columns_of(question, grouping.group, own)
    merit = _merit(question, condition, own)
    of_budgets = views.settles and question.verb == "min" and "steps" in grouping.group
    tried = [cell for cell in cells if cell.has_values]
    if of_budgets:
        cells = within_budgets(cells, views.apart)
    budgets = "steps" if views.settles else None
    rank = fewest_steps(merit) if budgets and question.verb in ("min", "fit") else merit
    cells = tuned(cells, grouping.tuned, views.apart, condition, rank, budgets)
    notes += _notes(question, cells, condition)
    reply = _reply(views, question, grouping, cells, condition, merit, score_columns(own))
    if of_budgets:
        from sweepd.query.exchange import with_exchange  # the laws take a while

        reply = with_exchange(reply, grouping, tried)
    notes += [*reply.notes, *_edge_notes(grouping, reply.deciding)]
    partial = sum(not cell.complete for cell in reply.deciding)
    if partial and any(node.scores for _, node in question.expressions):
        notes.append(
            f"partial: {partial} of {len(reply.deciding)} cells shown are judged by fewer seeds, "
            "or values of nuisance axes, than are planned"
        )
    summed = summary(views, question, asked, [cell for cell, selected in every if selected])
    return Answer(
        reply.columns,
        reply.rows,
        notes,
        damaged,
        question.verb,
        grouping.group,
        about or frozenset({"acc"}),
        goal_of(condition),
        reply.tell_cells,
        summed,
    )


def _reply(
    views: Views,
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    condition: Node,
    merit: Merit,
    scores: Sequence[str],
) -> Reply:
    """Returns what the question's verb finds in the cells."""
    if question.verb == "min":
        return _min(views, grouping, cells, condition, merit, scores)
    valued = [cell for cell in cells if cell.has_values]
    match question.verb:
        case "frontier":
            return _frontier(question, grouping, valued, merit, scores)
        case "fit":
            from sweepd.query.growth import growth  # the laws take a while

            return growth(views, question, grouping, valued, condition, merit)
        case "best":
            return best(question, grouping, cells, merit, scores)
        case "max":
            return greatest(question, grouping, valued, scores)


def _merit(question: Question, condition: Node, own: Iterable[str]) -> Merit:
    """Returns the function that says how good a cell is.

    A frontier and `best` go by their own score. Other questions go by the first of `own`, the
    metrics of users' own tasks and loops that they name. Without one they go by the loss if the
    condition is about nothing else, and by the accuracy otherwise.
    """
    if question.verb != "frontier":
        score = next(iter(own), "loss" if condition.about == {"loss"} else "acc")
        if question.best:
            [(score, _)] = question.expressions
        return lambda cell: cell.merit(score)
    node = question.expressions[1][1]
    falls = isinstance(node, Column) and (node.name == "loss" or node.own == "down")
    sign = -1 if falls else 1

    def merit(cell: Cell) -> float:
        score = cell.values[1]
        return sign * score if score is not None and isfinite(score) else -inf

    return merit


def _min(
    views: Views,
    grouping: Grouping,
    cells: Sequence[Cell],
    condition: Node,
    merit: Merit,
    scores: Sequence[str],
) -> Reply:
    found = min_rows(views, grouping, cells)
    goal = goal_of(condition)
    ends = Ends.of(views, goal, found) if goal and not grouping.of_score else None
    own = ["value", "fail", "pass", "inferred", "passed", "seeds", *scores, "close", "at", "edge"]
    every = [*grouping.group, *own, "verdict", *SETTLED_COLUMNS, *LEAST_COLUMNS]
    columns = list(dict.fromkeys(every))
    rows = []
    settled, decisive = settled_columns(views, found, condition, ends), not falls(condition)
    for row, of_row in zip(found, settled, strict=True):
        told = of_row | least_columns(grouping, row, decisive) | row.columns
        told |= dict.fromkeys(scores) | _told(grouping, row, condition, merit)
        rows.append({name: told[name] for name in columns})
    notes = merged_notes(grouping, cells)
    at_the_smallest = sum(row.passes_at_the_smallest for row in found)
    if at_the_smallest and not grouping.of_score:
        notes.append(f"smallest: in {at_the_smallest} of {len(rows)} rows no value below was tried")

    def tell_cells() -> Sequence[Mapping[str, Any]]:
        from sweepd.query.cell_rows import cell_rows  # for figures alone

        return cell_rows(grouping, found, merit)

    return Reply(columns, rows, deciding(found, merit), notes, tell_cells)


def _told(grouping: Grouping, row: MinRow, condition: Node, merit: Merit) -> dict[str, Any]:
    """Returns what a row of `min` tells of its bound and of its best cell.

    That cell is the best one that passes at the least value. Where none passes, it is the best of
    the largest value that was tried.
    """
    bound = row.bound
    best = max(row.passing or row.largest_tried, key=merit, default=None)
    scores = best.scores() if best else {}
    shown = best if best and (best.outcome or best.measured) else None
    return {
        "value": bound.value,
        "fail": bound.fail,
        "pass": bound.value,
        "inferred": bound.inferred,
        "passed": best.passed if best else 0,
        "seeds": best.decided if best else 0,
        **scores,
        "close": _close(scores.get("acc_low"), scores.get("acc_high"), thresholds(condition)),
        "at": shown and grouping.at(shown),
        "edge": shown and shown.edge,
        "verdict": bound.kind,
    }


def _frontier(
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    merit: Merit,
    scores: Sequence[str],
) -> Reply:
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
                found = {
                    **told_of(grouping, cell),
                    "solved": cell.row["solved"],
                    cost: cell.values[0],
                    score: cell.values[1],
                }
                rows.append(where | {name: found[name] for name in own})
                unbeaten.append(cell)
    columns = list(dict.fromkeys([*grouping.group, *own]))
    notes = []
    if solved := sum(cell.row["solved"] > 0 for cell in cells):
        notes.append(
            f"censored: {solved} of {len(cells)} cells have seeds that stopped as solved; their "
            "score is a bound from below, so one that is not shown may belong here"
        )
    if tied:
        notes.append(f"tied: {tied} more cells have the cost and the score of a row that is shown")
    if merged := grouping.merged(cells):
        notes.append(f"pooled: cells that differ in {', '.join(merged)}, other problems, compete")
    return Reply(
        columns, rows, unbeaten, notes, lambda: [{"cell": c.row["cell"]} for c in unbeaten]
    )


def _close(low: float | None, high: float | None, thresholds: Sequence[float]) -> bool | None:
    """Returns whether an interval holds one of the thresholds. None if there is no interval or no
    threshold."""
    if low is None or high is None or not thresholds:
        return None
    return any(low <= threshold <= high for threshold in thresholds)


def _goal(views: Views) -> Goal:
    """Returns the goal that the sweeps have in common. Raises UserError if their goals differ or
    are not known, or if the goal cannot be read or names no known score."""
    goals = {info.goal for info in views.infos.values()}
    if len(goals) != 1:
        have = f"differ: {'; '.join(sorted(goals))}" if goals else "are not known"
        raise UserError(f"say when a cell passes, as in `where acc > 0.9`: the goals {have}")
    text = goals.pop()
    try:
        goal = Goal.parse(text)
    except ValueError as error:
        raise UserError(f"the goal of the sweeps, {text!r}, cannot be read: {error}") from None
    if goal.metric not in (known := (*MEASURED, *views.own)):
        raise UserError(f"the goal of the sweeps, {text}, is about none of {', '.join(known)}")
    return goal


def _notes(question: Question, cells: Sequence[Cell], condition: Node) -> Iterator[str]:
    """Yields notes on what the rows leave out or do not decide."""
    if unfinished := [cell for cell in cells if cell.outcome is None]:
        early = [
            any(point.row["stopped"] or point.row["solved"] for point in cell.points)
            for cell in unfinished
        ]
        detail = f", {sum(early)} of them with seeds that stopped early" if any(early) else ""
        yield f"unfinished: {len(unfinished)} of {len(cells)} cells{detail}"
    for score in sorted(condition.scores):
        if silent := sum(c.row["completed"] > 0 and c.row[score] is None for c in cells):
            yield f"not measured: {silent} cells have completed trials without {score}"
    empty = [cell for cell in cells if not cell.has_values]
    if question.best:  # there, a cell that diverged counts as the worst (`winners`)
        empty = [cell for cell in empty if cell.values[0] is None]
    if empty:
        asked = {name for _, node in question.expressions for name in node.columns}
        why = " yet"
        of_loops = [cell for cell in empty if cell.row["L"] is None]
        if any(cell.row[cost] is None for cell in of_loops for cost in asked.intersection(COSTS)):
            why = ": their loop may state costs in `cost()`"
        elif diverged := sum(cell.complete and cell.row["diverged"] > 0 for cell in empty):
            why = f" yet; {diverged} of them diverged"
        yield f"left out: {len(empty)} cells for which an expression has no value{why}"


def _refuse_columns_of(question: Question, group: Iterable[str], own: Iterable[str]) -> None:
    """Raises UserError if a column of the answer would have two meanings. own: metrics that the
    question is about."""
    verb, names = question.verb, {*group}
    if verb != "fit":  # its answers have no scores
        names |= {*own}
    if verb in ("frontier", "best", "max"):  # their expressions are columns
        names |= {question.best or "", *(text for text, _ in question.expressions)}
    if clash := sorted(names.intersection(OF_ANSWERS[verb])):
        raise UserError(
            f"`{verb}` has a column `{clash[0]}` of its own: ask `by` others, or use `sweepd sql`"
        )


def _unmet(where: Iterable[Node], cells: Sequence[Cell]) -> Iterator[str]:
    """Yields a note for each part `column = constant` of a condition that no cell meets. The note
    says which values the column has instead."""
    for part in where:
        match part:
            case Compare(Column(name), "=", Constant() as asked):
                found: set[Any] = {cell.row.get(name) for cell in cells} - {None}
                known = [str(v).lower() if isinstance(v, bool) else str(v) for v in sorted(found)]
                word = asked.text.strip("'").replace("''", "'")
                if word not in known and asked.number not in found:
                    hint = closest(word, known) if asked.number is None else ""
                    few = ", ".join(known[:MOST_VALUES]) + ", …" * (len(known) > MOST_VALUES)
                    yield f"no cell has {name} = {asked.text}{hint}; {name} is one of: {few}"


def _edge_notes(grouping: Grouping, deciding: Sequence[Cell]) -> Iterator[str]:
    """Yields a note for each nuisance axis of which a wider range may change the answer."""
    for axis in grouping.tuned:
        at_edge = [cell for cell in deciding if axis in cell.edge.split(",")]
        if at_edge:
            failed = sum(cell.outcome is False for cell in at_edge)
            yield (
                f"edge: the best {axis} is at the edge of its tried range in {len(at_edge)} of the "
                f"{len(deciding)} cells that decide ({failed} of them failed): try a wider range"
            )
