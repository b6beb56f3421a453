"""The rows of `best` and `max`, which show the best cell of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sweepd.query.cells import Cell
from sweepd.query.database import Views
from sweepd.query.expressions import TRUE, Column
from sweepd.query.grouping import Grouping
from sweepd.query.nuisance import at_edge
from sweepd.query.parser import Question
from sweepd.query.reply import Merit, Reply, merged_notes, told_of


def with_score(views: Views, question: Question) -> Question:
    """Returns a question of `best` with the score by which it judges. Any other question stays as
    it is.

    The condition says which scores count, or the goals do where the condition mentions none. The
    question judges by a metric of a user's own if one counts. Else it judges by the loss if that
    alone counts, and by acc otherwise.
    """
    if question.best is None:
        return question
    goals = frozenset(info.goal.partition(" ")[0] for info in views.infos.values())
    about = (question.where or TRUE).about or goals
    own = (name for name in views.own if name in about)
    score = next(own, "loss" if about == {"loss"} else "acc")
    return replace(question, expressions=((score, Column(score, views.own.get(score))),))


def best(
    question: Question,
    grouping: Grouping,
    cells: Sequence[Cell],
    merit: Merit,
    scores: Sequence[str],
) -> Reply:
    """Returns the answer to `best`: the value of an axis with the best score in each group.

    The column `values` says how many values of the axis were tried. The column `edge` names the
    axis too where its best value is the least or the greatest of them. A value whose cells fail the
    question's condition, or with which training diverged, was tried and cannot be the best.
    """
    axis, [(score, _)] = question.best, question.expressions
    assert axis is not None
    columns = [*grouping.group, axis, score, "values", "seeds", *scores, "at", "edge"]
    rows, winners, without = [], [], 0
    tried = [cell for cell in cells if cell.values[0] is not None]
    for where, members in grouping.rows(tried):
        rivals = [cell for cell in members if cell.outcome and cell.has_values]
        if not rivals:
            without += 1
            continue
        winner = max(rivals, key=merit)
        edges = [winner.edge, axis if at_edge(axis, winner, members) else ""]
        found = {
            "values": len({cell.row[axis] for cell in members}),  # unless an axis has that name
            **where,
            **told_of(grouping, winner),
            axis: winner.row[axis],
            "edge": ",".join(filter(None, edges)),
        }
        rows.append({name: found[name] for name in dict.fromkeys(columns)})
        winners.append(winner)
    notes = merged_notes(grouping, cells)
    if without:
        notes.append(
            f"no best: in {without} groups each {axis} that was tried fails the condition "
            "or diverged"
        )
    return Reply(list(dict.fromkeys(columns)), rows, winners, notes)


def greatest(
    question: Question, grouping: Grouping, cells: Sequence[Cell], scores: Sequence[str]
) -> Reply:
    """Returns the answer to `max`: the greatest value of an expression in each group."""
    [(text, _)] = question.expressions
    columns = [*grouping.group, text, *grouping.shown, "seeds", *scores, "at", "edge"]
    rows, winners = [], []
    for where, members in grouping.rows(cell for cell in cells if cell.outcome):
        winner = max(members, key=lambda cell: cell.values[0])
        found = {**where, **told_of(grouping, winner), text: winner.values[0]}
        rows.append({name: found[name] for name in dict.fromkeys(columns)})
        winners.append(winner)
    return Reply(list(dict.fromkeys(columns)), rows, winners, merged_notes(grouping, cells))
