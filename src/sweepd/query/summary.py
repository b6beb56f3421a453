"""What an answer is about, in the words of the question, and how much was run for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sweepd.query.cells import Cell
from sweepd.query.database import Views
from sweepd.query.parser import Question
from sweepd.statuses import DONE

_SPACED = re.compile(r"('(?:[^']|'')*')|\s*(<=|>=|<>|!=|==|[<>=])\s*")
"""Matches a text in quotes, which stays as it is, or a comparison, which gets a space on either
side."""


@dataclass(frozen=True)
class Summary:
    """What people read above and below the answer to a `min`."""

    least: str
    """What is minimised, as it was typed."""
    condition: str
    """When a cell passes, in the words of the question. The goal comes first if the question says
    nothing about scores."""
    seeds: str
    """How the outcomes of a cell's seeds are combined, such as `median of 3 seeds`."""
    size_fields: Mapping[str, str]
    """The field that is the size of each task, by task."""
    trials: int
    """How many trials have ended."""
    tried: int
    """How many cells have a trial that has ended."""
    cells: int
    """How many cells the question is about."""
    train_flops: float
    """The training FLOPs of the trials that have ended, each counted from its first step."""


def summary(
    views: Views, question: Question, condition: str, cells: Sequence[Cell]
) -> Summary | None:
    """Returns the summary of an answer about these cells of the grid, or None if the verb is not
    `min`. condition: when a cell passes."""
    if question.verb != "min":
        return None
    ids = {cell.row["cell"] for cell in cells}
    trials, tried, train_flops = _ran(views, ids)
    return Summary(
        least=question.expressions[0][0],
        condition=_SPACED.sub(lambda m: m[1] or f" {m[2]} ", condition),
        seeds=_seeds(cells),
        size_fields=views.size_fields,
        trials=trials,
        tried=tried,
        cells=len(ids),
        train_flops=train_flops,
    )


def _ran(views: Views, cells: Collection[int]) -> tuple[int, int, float]:
    """Returns how many trials have ended in these cells, in how many of them any has, and the
    training FLOPs of those trials."""
    [(trials, tried, train_flops)] = views.fetch(
        f"""
        SELECT coalesce(sum(trials), 0)::BIGINT, count(*), coalesce(sum(train_flops), 0)
        FROM (
            SELECT cell, count(*) AS trials, sum(train_flops) AS train_flops FROM raw.own
            WHERE status IN {DONE} GROUP BY cell
        ) SEMI JOIN (SELECT unnest(?) AS cell) USING (cell)
        """,
        list(cells),
    )
    return trials, tried, train_flops


def _seeds(cells: Sequence[Cell]) -> str:
    rules = {cell.row["pass"] for cell in cells}
    counts = sorted({cell.row["seeds"] for cell in cells})
    if counts[-1:] == [1]:
        return "1 seed"
    if len(rules) != 1 or not counts:
        return "seeds by each grid's own rule"
    many = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"{rules.pop()} of {many} seeds"
