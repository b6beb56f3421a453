"""The figure `fit`, which shows the exponents of the fitted laws with their intervals, beside those
that theory gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sweepd.figures.least import exponent
from sweepd.figures.panels import (
    Asked,
    Drawing,
    NothingToDraw,
    by_model,
    is_,
    stacked,
    tooltip,
)
from sweepd.figures.style import Look, ordered
from sweepd.listing import Row

ROW_HEIGHT = 14
PARTS = ("law", "theory", "bound", "none")
ARROW = "M-1,0L1,0M.5,-.4L1,0L.5,.4"


def exponents(asked: Asked, along: str, look: Look) -> Drawing:
    """Returns a figure with a panel for each problem, and in it a row for each model, which shows
    the exponent and its 95% interval.

    A stroke is the exponent that theory gives. It has an arrow where theory gives a lower bound.
    Raises NothingToDraw if no row of the answer has an exponent.
    """
    import altair as alt

    rows = asked.answer.rows
    if all(row["exponent"] is None for row in rows):
        reasons = "; ".join(f"{row['task']}, {row['model']}: {row['reason']}" for row in rows)
        raise NothingToDraw(f"nothing to draw: no law could be fitted ({reasons})")
    models = ordered([row["model"] for row in rows])
    colour, shape = ({**option, "legend": None} for option in by_model(models, look))
    base = alt.Chart().encode(
        alt.Y("model:N", sort=models, title=None, axis=alt.Axis(grid=False, domain=False)),
        alt.X("x:Q", title=f"exponent of least {asked.name} in {along}"),
        alt.Color(**colour),
    )
    of_part = {part: base.transform_filter(is_("part", part)) for part in PARTS}
    shown = tooltip(model="model", told="exponent", theory="theory", points="sizes", seeds="seeds")
    layers = (
        of_part["law"].mark_rule(strokeWidth=1.5).encode(alt.X("low:Q"), alt.X2("high")),
        of_part["law"]
        .mark_point(filled=True, size=34, opacity=1)
        .encode(alt.Shape(**shape), tooltip=shown),
        of_part["theory"].mark_tick(thickness=1.5, size=11),
        of_part["bound"].mark_point(shape=ARROW, size=70, xOffset=6, strokeWidth=1.2),
        of_part["none"].mark_text(align="left").encode(text="told:N"),
    )
    charts, found = [], {}
    for name, members in asked.problems(rows).items():
        height = ROW_HEIGHT * len({row["model"] for row in members})
        size = {"width": look.panel(1), "height": height}
        charts.append(alt.layer(*layers, data=alt.NamedData(name), title=name, **size))
        found[name] = list(_told(members))
    return Drawing(stacked(charts).resolve_scale(x="shared"), found)


def _told(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    for row in rows:
        told = {"model": row["model"], "theory": row["predicted"] or "not known"}
        if row["exponent"] is None:
            yield {**told, "part": "none", "x": 0, "told": "no fit"}
        else:
            of_law = {"x": row["exponent"], "low": row["low"], "high": row["high"]}
            text = f"{row['exponent']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
            counts = {"points": row["points"], "seeds": row["seeds"]}
            yield {**told, **of_law, **counts, "part": "law", "told": text}
        if row["predicted"]:
            yield {**told, "part": "theory", "x": exponent(row["predicted"])}
            if row["predicted"].startswith(">"):
                yield {**told, "part": "bound", "x": exponent(row["predicted"])}
