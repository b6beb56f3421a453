"""From a question to rows: `ask` parses a question, judges the cells by it and words the answer.
`askable` says what can be asked of a store."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid.options import OF_ANSWERS, Goal
from sweepd.judge.cells import RULES
from sweepd.query import expressions
from sweepd.query.cells import Cell, judged
from sweepd.query.cells_sql import COSTS, GOAL_COST, MEASURED, OF_TRIALS, quoted
from sweepd.query.database import CELLS, Answer, Summary, Views, connect, needed_by
from sweepd.query.expressions import TRUE, Column, Compare, Constant, Node, conjunction, conjuncts
from sweepd.query.grouping import Grouping, group
from sweepd.query.minima import Merit
from sweepd.query.nuisance import tuned, within_budgets
from sweepd.query.parser import Question, parse
from sweepd.query.selection import CodeChoice, Source
from sweepd.query.verbs import rows_of, with_cost_of_halving
from sweepd.statuses import DONE, UNTRIED

MOST_VALUES = 12
"""How many values of a column a note lists, where a question asks for one that no cell has."""
MOST_LISTED = 8
"""How many values of one column `askable` lists at most."""


def ask(
    source: Source,
    text: str,
    *,
    code: CodeChoice,
    sweeps: Sequence[str] | None = None,
    seeds: str | None = None,
) -> Answer:
    """Returns the answer to a question over some sweeps, or over the whole store. `seeds`
    (median, mean, all or any) overrides the pass rule of the grids. Raises UserError if that rule,
    the text or a sweep's name is wrong."""
    needed = needed_by(text)
    return answer(connect(source, code=code, sweeps=sweeps, seeds=seeds, needed=needed), text)


def answer(views: Views, text: str) -> Answer:
    """Returns the answer to a question over these views. Raises UserError if it is wrong."""
    found, of_score = _answered(views, text)
    return _with_least(views, text, found) if found.verb == "min" and of_score else found


def _answered(views: Views, text: str) -> tuple[Answer, bool]:
    """Returns the answer to a question, and whether what it ranks is a score."""
    if not views.axes:
        nothing = ["nothing has been planned or run in this store"]
        return Answer([], [], nothing, views.damaged), False
    damaged = (*views.damaged, *views.prepare(text))
    question = parse(text, views.columns, views.own, views.connection)
    verb = question.verb

    # What the question says of anything but scores selects cells. What it says of scores is the
    # condition that they pass or fail.
    where = conjuncts(question.where or TRUE)
    selection = conjunction([part for part in where if not part.scores])
    condition = conjunction([part for part in where if part.scores])
    notes, asked = list(views.notes), question.condition
    if verb in ("min", "fit") and condition == TRUE:
        goal = _goal(views)
        condition = expressions.of_goal(goal, views.own)
        asked = f"{goal} where {asked}" if asked else str(goal)
        names = " or ".join(("acc", "loss", *views.own))
        notes.append(f"the question asks nothing of {names}, so the goal decides: {goal}")
    if verb == "best":
        # It judges by a metric of a user's own if one counts, else by the loss if that alone counts
        # and by acc otherwise. What counts is what the condition mentions, or else the goals.
        infos = views.selection.infos.values()
        counts = condition.about or {info.goal.partition(" ")[0] for info in infos}
        own = (name for name in views.own if name in counts)
        score = next(own, "loss" if counts == {"loss"} else "acc")
        question = replace(question, expressions=((score, Column(score, views.own.get(score))),))

    about = condition.about.union(*(node.about for _, node in question.expressions))
    own_metrics = {name: better for name, better in views.own.items() if name in about}
    texts = {name for name, kind in views.raw_types.items() if kind == "VARCHAR"}
    every = judged(
        views, question, expressions.over_mixed(selection, texts), condition, own_metrics
    )
    selected = [cell for cell in every if cell.selected]
    if not selected:
        notes += _unmet(conjuncts(selection), every)
    grouping = group(views, question, every, own_metrics)
    _refuse_columns_of(grouping, own_metrics)

    # Cells that differ in nuisance axes alone become one, which stands for the best of them. In a
    # sweep that settles its answers the steps are such an axis.
    merit = _merit(question, condition, own_metrics)
    by_budget = views.selection.settles and verb == "min" and "steps" in grouping.group
    cells = within_budgets(selected, views.identity) if by_budget else selected
    cells = tuned(grouping, cells, condition, merit)
    notes += _notes(question, cells, condition)
    result = rows_of(grouping, cells, condition, merit)
    if by_budget:
        as_they_ran = [cell for cell in selected if cell.has_values]
        result = with_cost_of_halving(result, grouping, as_they_ran)
    notes += [*result.notes, *_notes_on_rows(grouping, result.deciding)]
    columns, rows = result.columns, result.rows
    if views.code_column and "code" not in columns:  # each task and model has one
        codes = {(cell.row["task"], cell.row["model"]): cell.row["code"] for cell in cells}
        columns = [*grouping.group, "code", *columns[len(grouping.group) :]]
        rows = [{**row, "code": codes[row["task"], row["model"]]} for row in rows]
    as_goal, about = expressions.goal_of(condition), about or frozenset({"acc"})
    summary = _summary(views, question, asked, selected) if verb == "min" else None
    of_question = verb, grouping.group, about, as_goal, result.find_cells, summary
    # What `flops_to_goal` says of the other rules would take reading the metrics once for each.
    of_score = grouping.of_score and GOAL_COST not in question.expressions[0][1].columns
    return Answer(columns, rows, notes, damaged, *of_question), of_score


def _with_least(views: Views, text: str, found: Answer) -> Answer:
    """Returns the answer to a `min` of a score with its least value by each of RULES. A rule puts
    together the score that is minimised, too, so the whole question is asked by each."""
    selection = views.selection
    sweeps = None if selection.whole_store else [*selection.infos]
    rows = found.rows
    for rule in RULES:
        choices: Any = {"code": views.code, "sweeps": sweeps, "needed": needed_by(text)}
        by_rule, _ = _answered(connect(selection.source, seeds=rule, **choices), text)
        of_group = {tuple(row[name] for name in found.group): row for row in by_rule.rows}
        nothing = {"value": None, "verdict": "open"}  # by this rule no cell has a score
        in_order = [of_group.get(tuple(row[n] for n in found.group), nothing) for row in rows]
        rows = [
            {**row, f"least_{rule}": of["value"], f"least_{rule}_verdict": of["verdict"]}
            for row, of in zip(rows, in_order, strict=True)
        ]
    return replace(found, rows=rows)


def _goal(views: Views) -> Goal:
    """The goal that the sweeps have in common."""
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
    """The function that says how good a cell is. A frontier and `best` go by their own score. Other
    questions go by the first of `own`, the metrics of users' own tasks and loops that they name.
    Without one they go by the loss if the condition is about nothing else, else by the accuracy."""
    if question.verb != "frontier":
        score = next(iter(own), "loss" if condition.about == {"loss"} else "acc")
        if question.best:
            [(score, _)] = question.expressions
        return lambda cell: cell.merit(score)
    node = question.expressions[1][1]
    sign = -1 if isinstance(node, Column) and node.better == "down" else 1
    return lambda cell: sign * cell.values[1] if cell.has_values else -inf


def _refuse_columns_of(grouping: Grouping, own: Iterable[str]) -> None:
    """Raises UserError if a column of the answer would have two meanings. own: as in `_merit`."""
    question, names = grouping.question, {*grouping.group}
    if question.verb != "fit":  # its answers have no scores
        names |= {*own}
    if question.verb in ("frontier", "best", "max"):  # their expressions are columns
        names |= {question.best or "", *(text for text, _ in question.expressions)}
    if clash := sorted(names.intersection(OF_ANSWERS[question.verb])):
        raise UserError(
            f"`{question.verb}` has a column `{clash[0]}` of its own: ask `by` others, or use "
            "`sweepd sql`"
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
    open_cells = [cell for cell in cells if cell.outcome is None]
    tried = [cell for cell in open_cells if cell.tried]
    if tried:
        stopped = [any(p.row["stopped"] or p.row["solved"] for p in c.points) for c in tried]
        early = f", {sum(stopped)} of them with seeds that stopped early" if any(stopped) else ""
        yield f"unfinished: {len(tried)} of {len(cells)} cells{early}"
    untried = len(open_cells) - len(tried)
    if untried:
        yield f"{UNTRIED}: {untried} of {len(cells)} cells"
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


def _notes_on_rows(grouping: Grouping, deciding: Sequence[Cell]) -> Iterator[str]:
    """Yields a note for each nuisance axis of which a wider range may change the answer, and one on
    cells that more seeds may change. deciding: the cells on which the rows depend."""
    for axis in grouping.tuned:
        at_edge = [cell for cell in deciding if axis in cell.edge.split(",")]
        if at_edge:
            failed = sum(cell.outcome is False for cell in at_edge)
            yield (
                f"edge: the best {axis} is at the edge of its tried range in {len(at_edge)} of the "
                f"{len(deciding)} cells that decide ({failed} of them failed): try a wider range"
            )
    partial = sum(not cell.complete for cell in deciding)
    if partial and any(node.scores for _, node in grouping.question.expressions):
        yield (
            f"partial: {partial} of {len(deciding)} cells shown are judged by fewer seeds, "
            "or values of nuisance axes, than are planned"
        )


def _summary(views: Views, question: Question, condition: str, cells: Sequence[Cell]) -> Summary:
    """The summary of a `min` over these cells. condition: when one passes, in words."""
    [(trials, tried, train_flops)] = views.fetch(
        f"""
        SELECT count(*), count(DISTINCT cell), coalesce(sum(endings.train_flops), 0)
        FROM raw.members JOIN raw.endings USING ({views.member})
        WHERE status IN {DONE} AND cell IN (SELECT unnest(?))
        """,
        [cell.row["cell"] for cell in cells],
    )
    rules = {cell.row["pass"] for cell in cells}
    counts = sorted({cell.row["seeds"] for cell in cells})
    seeds = "1 seed" if counts[-1:] == [1] else "seeds by each grid's own rule"
    if len(rules) == 1 and counts[-1] > 1:
        many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
        seeds = f"{rules.pop()} of {many} seeds"
    # A text in quotes stays as it is. A comparison gets a space on either side.
    token = r"('(?:[^']|'')*')|\s*(<=|>=|<>|!=|==|[<>=])\s*"
    condition = re.sub(token, lambda m: m[1] or f" {m[2]} ", condition)
    spent = f": {train_flops:.2g} training FLOPs" if train_flops else ""
    return Summary(
        f"Least {question.expressions[0][0]} with {condition}",
        seeds,
        views.selection.size_fields,
        f"{trials} trials ran, in {tried} of {len(cells)} cells{spent}",
    )


def askable(
    source: Source, *, code: CodeChoice, sweeps: Sequence[str] | None = None
) -> tuple[Answer, list[str]]:
    """Returns the columns that questions may use, as an answer, and questions that they can answer.

    The answer has one row for each of task, model, size and L that has a value in the store. It has
    one for each axis with several values, and one for each score and each cost that has a value.
    """
    views = connect(source, code=code, sweeps=sweeps, needed=CELLS)
    rows: list[tuple[str, str, str]] = []
    axis = "an axis: group by it, minimise it, ask for its best value"
    for least, name, what in (
        *((1, name, "what was learned by what") for name in ("task", "model", "size", "L")),
        *((2, name, axis) for name in views.axes),
    ):
        column = quoted(name)
        kept = f"SELECT DISTINCT {column} FROM cells WHERE {column} IS NOT NULL ORDER BY 1"
        values = [str(value) for (value,) in views.fetch(kept)]
        if len(values) >= least:  # loops of users' own have no L
            more = f" and {len(values) - MOST_LISTED} more" if len(values) > MOST_LISTED else ""
            rows.append((name, ", ".join(values[:MOST_LISTED]) + more, what))
    score = "a test score: put a condition on it"
    cost = "a cost: minimise it, or put it on a frontier"
    scores = [name for name in {**OF_TRIALS, **views.own} if name in views.raw_types]
    for name, what in (*((n, score) for n in scores), *((n, cost) for n in COSTS)):
        [(low, high)] = views.fetch(f"SELECT min({quoted(name)}), max({quoted(name)}) FROM cells")
        if low is not None:
            rows.append((name, f"{low:.4g} … {high:.4g}", what))

    # Questions that these columns can answer. The goal is that of one of the sweeps.
    listed = [name for name, _, _ in rows]
    infos = views.selection.infos.values()
    goal = min((info.goal for info in infos), default="acc > 0.9")
    sizes = views.selection.size_fields.values()
    settings = [name for name, _, what in rows if what is axis and name not in sizes]
    asked = [info.minimized for info in infos]
    minimized = next((name for name in (*asked, *settings) if name in settings), None)
    examples = []
    if minimized:
        along = "L" if "L" in listed else "size"
        examples += [f"min {minimized} where {goal}", f"fit {minimized} ~ {along} where {goal}"]
    if "flops" in listed:
        examples += [f"min flops where {goal}", f"frontier flops, {goal.split()[0]}"]
    if rest := [name for name in settings if name != minimized]:
        examples.append(f"best {rest[0]} by {minimized}")
    columns = ["column", "values", "what"]
    by_column = [dict(zip(columns, row, strict=True)) for row in rows]
    return Answer(columns, by_column, list(views.notes), views.damaged), examples
