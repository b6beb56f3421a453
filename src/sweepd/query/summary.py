"""What an answer is about, in the words of the question, and how much was run for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sweepd.query.cells import Cell
from sweepd.query.database import Views
from sweepd.query.parser import Question
from sweepd.statuses import DONE

_SPACED = re.compile(r"('(?:[^']|'')*')|\s*(<=|>=|<>|!=|==|[<>=])\s*")
"""Texts, which stay as they are, and comparisons, which get a space on either side."""


@dataclass(frozen=True)
class Summary:
    """What people read above and below an answer."""

    least: str
    """What is minimised, as it was typed."""
    condition: str
    """When a cell passes, as it was typed; else the goal."""
    seeds: str
    """How the seeds of a cell count together, such as `median of 3 seeds`."""
    group: tuple[str, ...]
    """The group's columns."""
    size_fields: Mapping[str, str]
    """By task, the field that is its size."""
    trials: int
    """How many trials have ended."""
    tried: int
    """How many cells have such a trial."""
    cells: int
    """How many cells the question is about."""
    train_flops: float
    """Training FLOPs of those trials, each counted from its first step."""


def summary(
    views: Views, question: Question, condition: str, group: Iterable[str], cells: Sequence[Cell]
) -> Summary | None:
    """Sums up an answer of `min` about these cells of the grid. condition: when one passes."""
    if question.verb != "min":
        return None
    ids = {cell.row["cell"] for cell in cells}
    trials, tried, train_flops = _ran(views, ids)
    return Summary(
        least=question.expressions[0][0],
        condition=_SPACED.sub(lambda m: m[1] or f" {m[2]} ", condition),
        seeds=_seeds(cells),
        group=tuple(group),
        size_fields=views.size_fields,
        trials=trials,
        tried=tried,
        cells=len(ids),
        train_flops=train_flops,
    )


def _ran(views: Views, cells: Collection[int]) -> tuple[int, int, float]:
    if not cells:
        return 0, 0, 0.0
    [found] = views.fetch(
        "SELECT count(*), count(DISTINCT cell), coalesce(sum(endings.train_flops), 0) "
        f"FROM raw.endings JOIN raw.members USING ({views.member}) "
        f"WHERE status IN {DONE} AND cell IN ({', '.join(map(str, cells))})"
    )
    trials, tried, train_flops = found
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
