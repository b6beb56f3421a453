"""What can be asked of a store: the columns that its questions may use, and some questions."""

from __future__ import annotations

from collections.abc import Sequence

from sweepd.query.cells_sql import COSTS, OF_TRIALS, quoted
from sweepd.query.database import CELLS, Answer, connect
from sweepd.query.selection import CodeChoice, Source

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
            more = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
            rows.append((name, ", ".join(values[:MOST_VALUES]) + more, what))
    score, cost = (
        "a test score: put a condition on it",
        "a cost: minimise it, or put it on a frontier",
    )
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
