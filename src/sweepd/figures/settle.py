"""The figure `settle`, which shows the test scores of the cells that decide each row, against their
training budget."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweepd.figures.panels import (
    Asked,
    Drawing,
    by_model,
    by_size_and_model,
    goal_rule,
    is_,
    scored,
    tooltip,
)
from sweepd.figures.style import Look, ordered
from sweepd.listing import Row

PASSES, DECIDES = "the least value that passes", "the next smaller value"
"""The names of the two roles that a cell can have for a row of the answer."""


def settle(asked: Asked, trials: Mapping[int, Sequence[Row]], look: Look) -> Drawing:
    """Returns a figure with a panel for each row of the answer. A panel has a line for each seed at
    each rate, over the budgets that the seed ran.

    The next smaller value decides whether the row is settled. It must fail, and stand still: it
    would miss the goal after more training too (`search.settle`).
    """
    import altair as alt

    cells = [row for row in asked.answer.cells if row["decides"] or row["wins"]]
    models = ordered([row["model"] for row in cells])
    steps = sorted({row["steps"] for row in cells if row["steps"]})
    colour, shape = by_model(models, look, "hollow: the next smaller value")
    dash = alt.StrokeDash(
        "role:N", scale=alt.Scale(domain=[PASSES, DECIDES], range=[[1, 0], [2, 2]]), legend=None
    )
    x = alt.X(
        "step:Q",
        title="steps",
        scale=alt.Scale(type="log", base=2, nice=False, padding=8),
        axis=alt.Axis(values=steps, format="~s", labelOverlap=True, grid=False),
    )

    base = alt.Chart().encode(scored(asked.score))
    of_seeds = base.encode(x).transform_filter(is_("part", "seed"))
    line = of_seeds.mark_line(strokeWidth=0.8, opacity=0.7).encode(
        alt.Color(**colour), dash, alt.Detail(["seed:N", "at:N", "value:N"])
    )
    point = of_seeds.mark_point(size=20, strokeWidth=1, opacity=1, filled=False).encode(
        alt.Stroke(**colour),
        alt.Fill(**colour),
        alt.Shape(**shape),
        fillOpacity=alt.condition(is_("role", PASSES), alt.value(1), alt.value(0)),
        tooltip=tooltip(
            value=asked.name, role="role", seed="seed", at="at", trial="trial", score="score"
        ),
    )

    def drawn(row: Row) -> Iterator[dict[str, Any]]:
        at = {name: value for name, value in json.loads(row["at"]).items() if name != "steps"}
        for trial in trials.get(row["cell"], ()):
            if trial[asked.score] is not None and row["steps"]:
                yield {
                    **{name: row[name] for name in ("model", "value", "cell")},
                    "part": "seed",
                    "role": PASSES if row["wins"] else DECIDES,
                    "seed": trial["seed"],
                    "at": json.dumps(at),
                    "trial": trial["id"],
                    "step": row["steps"],
                    "score": trial[asked.score],
                }

    return by_size_and_model(asked, cells, drawn, (goal_rule(base, look), line, point), look)
