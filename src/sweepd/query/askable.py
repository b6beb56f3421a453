"""What can be asked of a store: the columns that its questions may use, and some questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sweepd.query.cells_sql import COSTS, quoted
from sweepd.query.database import CELLS, Answer, Views, connect
from sweepd.query.selection import CodeChoice, Source

AXIS = "an axis: group by it, minimise it, ask for its best value"
MOST_VALUES = 8
"""How many values of one column are listed at most."""


def askable(
    source: Source, *, code: CodeChoice, sweeps: Sequence[str] | None = None
) -> tuple[Answer, list[str]]:
    """Returns the columns that questions may use, as an answer, and questions that they can answer.

    The answer has one row for each of task, model, size and L that has a value in the store. It has
    one for each axis with several values, and one for each score and each cost that has a value.
    """
    views = connect(source, code=code, sweeps=sweeps, needed=CELLS)
    columns = ["column", "values", "what"]
    rows = [dict(zip(columns, row, strict=True)) for row in _rows(views)] if views.axes else []
    varying = [row["column"] for row in rows if row["what"] == AXIS]
    answer = Answer(columns, rows, list(views.notes), views.damaged)
    return answer, list(_examples(views, varying))


def _rows(views: Views) -> Iterator[tuple[str, str, str]]:
    for name in ("task", "model", "size", "L"):
        if values := _values(views, name):  # loops of users' own have no L
            yield name, values, "what was learned by what"
    for name in views.axes:
        [(count,)] = views.fetch(f"SELECT count(DISTINCT {quoted(name)}) FROM cells")
        if count > 1:
            yield name, _values(views, name), AXIS
    score, cost = (
        "a test score: put a condition on it",
        "a cost: minimise it, or put it on a frontier",
    )
    for name, what in (*((n, score) for n in views.scores), *((n, cost) for n in COSTS)):
        [(low, high)] = views.fetch(f"SELECT min({quoted(name)}), max({quoted(name)}) FROM cells")
        if low is not None:
            yield name, f"{low:.4g} … {high:.4g}", what


def _values(views: Views, name: str) -> str:
    column = quoted(name)
    rows = views.fetch(f"SELECT DISTINCT {column} FROM cells WHERE {column} IS NOT NULL ORDER BY 1")
    more = f" and {len(rows) - MOST_VALUES} more" if len(rows) > MOST_VALUES else ""
    return ", ".join(str(value) for (value,) in rows[:MOST_VALUES]) + more


def _examples(views: Views, varying: Sequence[str]) -> Iterator[str]:
    goals = sorted({info.goal for info in views.selection.infos.values()})
    goal = goals[0] if goals else "acc > 0.9"
    settings = [name for name in varying if name not in views.selection.size_fields.values()]
    asked = [info.minimized for info in views.selection.infos.values()]
    least = next((name for name in (*asked, *settings) if name in settings), None)
    along = "L" if _values(views, "L") else "size"
    [(counted,)] = views.fetch("SELECT count(flops) > 0 FROM cells")
    if least:
        yield f"min {least} where {goal}"
        yield f"fit {least} ~ {along} where {goal}"
    if counted:
        yield f"min flops where {goal}"
        yield f"frontier flops, {goal.split()[0]}"
    if rest := [name for name in settings if name != least]:
        yield f"best {rest[0]} by {least}"
