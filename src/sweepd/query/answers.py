"""From a question to rows: `ask` parses a question, judges the cells by it and words the answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf, isfinite
from typing import Any

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid.options import OF_ANSWERS, Goal
from sweepd.query.cells import Cell, judged, score_columns
from sweepd.query.cells_sql import COSTS, MEASURED
from sweepd.query.database import Answer, Summary, Views, connect, needed_by
from sweepd.query.expressions import (
    TRUE,
    Column,
    Compare,
    Constant,
    Node,
    conjunction,
    conjuncts,
    goal_of,
    of_goal,
    over_mixed,
)
from sweepd.query.grouping import Grouping, group
from sweepd.query.minima import Merit
from sweepd.query.nuisance import fewest_steps, tuned, within_budgets
from sweepd.query.parser import Question, parse
from sweepd.query.selection import CodeChoice, Source
from sweepd.query.verbs import VerbRows, best, frontier, greatest, least
from sweepd.statuses import DONE

MOST_VALUES = 12
"""How many values of a column a note lists at most, where a question asks for a value that no cell
has."""
_SPACED = re.compile(r"('(?:[^']|'')*')|\s*(<=|>=|<>|!=|==|[<>=])\s*")
"""Matches a text in quotes, which stays as it is, or a comparison, which gets a space on either
side."""


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
    question = _with_score(views, parse(text, views.columns, views.own, views.connection))

    # What the question says of anything but scores selects cells. What it says of scores is the
    # condition that they pass or fail.
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
    texts = {name for name, kind in views.raw_types.items() if kind == "VARCHAR"}
    every = judged(views, question, over_mixed(selection, texts), condition, own)
    selected = [cell for cell, is_selected in every if is_selected]
    if not selected:
        notes += _unmet(conjuncts(selection), [cell for cell, _ in every])
    grouping = group(views, question, [cell for cell, _ in every], selected)
    _refuse_columns_of(question, grouping.group, own)

    # Cells that differ in nuisance axes alone become one, which stands for the best of them. In a
    # sweep that settles its answers the steps are such an axis, and of cells that pass the one with
    # the fewest steps is the best.
    merit = _merit(question, condition, own)
    by_budget = views.selection.settles and question.verb == "min" and "steps" in grouping.group
    cells = within_budgets(selected, views.apart) if by_budget else selected
    budgets = "steps" if views.selection.settles else None
    rank = fewest_steps(merit) if budgets and question.verb in ("min", "fit") else merit
    cells = tuned(cells, grouping.tuned, views.apart, condition, rank, budgets)

    notes += _notes(question, cells, condition)
    result = _rows(views, question, grouping, cells, condition, merit, score_columns(own))
    if by_budget:
        from sweepd.query.growth import with_cost_of_halving  # the laws take a while

        as_they_ran = [cell for cell in selected if cell.has_values]
        result = with_cost_of_halving(result, grouping, as_they_ran)
    notes += [*result.notes, *_edge_notes(grouping, result.deciding)]
    partial = sum(not cell.complete for cell in result.deciding)
    if partial and any(node.scores for _, node in question.expressions):
        notes.append(
            f"partial: {partial} of {len(result.deciding)} cells shown are judged by fewer seeds, "
            "or values of nuisance axes, than are planned"
        )
    columns, rows = result.columns, result.rows
    if views.code_column and "code" not in columns:  # each task and model has one
        codes = {(cell.row["task"], cell.row["model"]): cell.row["code"] for cell in cells}
        columns = [*grouping.group, "code", *columns[len(grouping.group) :]]
        rows = [{**row, "code": codes[row["task"], row["model"]]} for row in rows]
    return Answer(
        columns,
        rows,
        notes,
        damaged,
        question.verb,
        grouping.group,
        about or frozenset({"acc"}),
        goal_of(condition),
        result.make_cells,
        _summary(views, question, asked, selected) if question.verb == "min" else None,
    )


def _with_score(views: Views, question: Question) -> Question:
    """Returns a question of `best` with the score by which it judges. Any other question stays as
    it is.

    The condition says which scores count, or the goals do where the condition mentions none. The
    question judges by a metric of a user's own if one counts. Else it judges by the loss if that
    alone counts, and by acc otherwise.
    """
    if question.best is None:
        return question
    goals = frozenset(info.goal.partition(" ")[0] for info in views.selection.infos.values())
    about = (question.where or TRUE).about or goals
    own = (name for name in views.own if name in about)
    score = next(own, "loss" if about == {"loss"} else "acc")
    return replace(question, expressions=((score, Column(score, views.own.get(score))),))


def _goal(views: Views) -> Goal:
    """Returns the goal that the sweeps have in common. Raises UserError if their goals differ or
    are not known, or if the goal cannot be read or names no known score."""
    goals = {info.goal for info in views.selection.infos.values()}
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


def _rows(
    views: Views,
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    condition: Node,
    merit: Merit,
    scores: Sequence[str],
) -> VerbRows:
    valued = [cell for cell in cells if cell.has_values]
    match question.verb:
        case "min":
            return least(views, grouping, cells, condition, merit, scores)
        case "frontier":
            return frontier(question, grouping, valued, merit, scores)
        case "fit":
            from sweepd.query.growth import growth  # the laws take a while

            return growth(views, question, grouping, valued, merit)
        case "best":
            return best(question, grouping, cells, merit, scores)
        case "max":
            return greatest(question, grouping, valued, scores)


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
                values: set[Any] = {cell.row.get(name) for cell in cells} - {None}
                known = [str(v).lower() if isinstance(v, bool) else str(v) for v in sorted(values)]
                word = asked.text.strip("'").replace("''", "'")
                if word not in known and asked.number not in values:
                    hint = closest(word, known) if asked.number is None else ""
                    few = ", ".join(known[:MOST_VALUES]) + ", …" * (len(known) > MOST_VALUES)
                    yield f"no cell has {name} = {asked.text}{hint}; {name} is one of: {few}"


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
    if question.best:  # there, a cell that diverged counts as the worst (`verbs.best`)
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


def _summary(views: Views, question: Question, condition: str, cells: Sequence[Cell]) -> Summary:
    """Returns the summary of a `min` over these cells of the grid. condition: when a cell passes,
    in the words of the question."""
    [(trials, tried, train_flops)] = views.fetch(
        f"""
        SELECT coalesce(sum(trials), 0)::BIGINT, count(*), coalesce(sum(train_flops), 0)
        FROM (
            SELECT cell, count(*) AS trials, sum(train_flops) AS train_flops FROM raw.own
            WHERE status IN {DONE} GROUP BY cell
        ) SEMI JOIN (SELECT unnest(?) AS cell) USING (cell)
        """,
        [cell.row["cell"] for cell in cells],
    )
    rules = {cell.row["pass"] for cell in cells}
    counts = sorted({cell.row["seeds"] for cell in cells})
    if counts[-1:] == [1]:
        seeds = "1 seed"
    elif len(rules) != 1 or not counts:
        seeds = "seeds by each grid's own rule"
    else:
        many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        seeds = f"{rules.pop()} of {many} seeds"
    return Summary(
        least=question.expressions[0][0],
        condition=_SPACED.sub(lambda m: m[1] or f" {m[2]} ", condition),
        seeds=seeds,
        size_fields=views.selection.size_fields,
        trials=trials,
        tried=tried,
        cells=len(cells),
        train_flops=train_flops,
    )
