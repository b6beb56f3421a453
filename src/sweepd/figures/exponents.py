"""`fit`: the exponents of the fitted laws with their intervals, beside those that theory gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sweepd.figures.least import exponent
from sweepd.figures.panels import Asked, Drawing, NothingToDraw, Row, by_model, is_, tooltip
from sweepd.figures.style import SMALL, Look, ordered

ROW_HEIGHT = 14
ARROW = "M-1,0L1,0M.5,-.4L1,0L.5,.4"


def exponents(asked: Asked, along: str, look: Look) -> Drawing:
    """A row of the figure for each problem and model: the exponent and its 95% interval.

    A stroke is the exponent that theory gives, with an arrow where theory gives a lower bound.
    NothingToDraw if no row of the answer has an exponent.
    """
    import altair as alt

    rows = asked.answer.rows
    if all(row["exponent"] is None for row in rows):
        reasons = "; ".join(f"{row['task']}, {row['model']}: {row['reason']}" for row in rows)
        raise NothingToDraw(f"nothing to draw: no law could be fitted ({reasons})")
    models = ordered([row["model"] for row in rows])
    found = asked.problems(rows)
    told = [{"problem": name, **row} for name, members in found.items() for row in _told(members)]
    colour, shape = by_model(models, look)
    base = alt.Chart().encode(
        alt.Y("model:N", sort=models, title=None, axis=alt.Axis(grid=False, domain=False)),
        alt.X("x:Q", title=f"exponent of least {asked.name} in {along}"),
    )
    plain = {name: option for name, option in colour.items() if name != "legend"}
    of_part = {
        part: base.transform_filter(is_("part", part)).encode(alt.Color(**plain, legend=None))
        for part in ("law", "theory", "bound", "none")
    }
    shown = tooltip(model="model", told="exponent", theory="theory", points="sizes", seeds="seeds")
    layers = [
        of_part["law"].mark_rule(strokeWidth=1.5).encode(alt.X("low:Q"), alt.X2("high")),
        of_part["law"]
        .mark_point(filled=True, size=34, opacity=1)
        .encode(alt.Shape(**{**shape, "legend": None}), tooltip=shown),
        of_part["theory"].mark_tick(thickness=1.5, color=look.ink, size=11),
        of_part["bound"].mark_point(shape=ARROW, size=70, xOffset=6, strokeWidth=1.2),
        of_part["none"].mark_text(align="left", fontSize=SMALL).encode(text="told:N"),
    ]
    chart = alt.layer(*layers, data=alt.NamedData("laws")).properties(
        width=look.panel(1), height=alt.Step(ROW_HEIGHT)
    )
    chart = chart.facet(row=alt.Row("problem:N", sort=list(found), title=None))
    return Drawing(chart.resolve_scale(y="independent"), {"laws": told})


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
