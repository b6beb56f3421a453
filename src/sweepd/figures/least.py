"""The figure `min`, which shows the least value that passes against the size. Bars and arrows show
what is known of it from below and from above."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

from sweepd.figures.panels import (
    Asked,
    Drawing,
    by_model,
    is_,
    refuse_a_crowd,
    side_by_side,
    tooltip,
)
from sweepd.figures.style import Look, ordered
from sweepd.listing import Row

if TYPE_CHECKING:
    import altair as alt

HEIGHT = 130
APART = 0.025
"""How far apart neighbouring models of one size are drawn, as a share of the range of sizes on the
logarithmic axis."""
LINES = {"fitted law": [1, 0], "theory's exponent": [1.5, 1.5]}
"""The lines that are drawn through the points, each with the lengths of its dashes and gaps."""
ARROWS = {
    "at most": ("M0,-.2L0,1M-.4,.55L0,1L.4,.55", 11),
    "above": ("M-.4,1L.4,1M0,1L0,-.6M-.4,-.15L0,-.6L.4,-.15", -9),
}
"""The arrow at each kind of open end: its shape, and how far below the value it stands, in
points."""


def least(asked: Asked, laws: Sequence[Row], along: str, look: Look) -> Drawing:
    """Returns a figure with a panel for each problem, on logarithmic axes.

    `along` is the column of the horizontal axis, L or the size. A bar reaches from the largest
    value that failed to the least that passed, where the point is. An arrow down says that nothing
    smaller was tried to its end, an arrow up that nothing passed. Points of unsettled rows are
    hollow. `laws` are the rows of a `fit` along the same column. Each law is drawn with a band. The
    band lies between the lines through the law's middle that have the ends of the exponent's 95%
    interval as their slopes.
    """
    import altair as alt

    rows = asked.answer.rows
    found = asked.problems(rows)
    own_laws = asked.problems(laws)
    models = ordered([row["model"] for row in rows])
    told: list[dict[str, Any]] = []
    for name, members in found.items():
        drawn = [*_known(asked, members, models, along)]
        drawn += _laws(members, own_laws.get(name, ()), along)
        told += [{"problem": name, **row} for row in drawn]
    refuse_a_crowd(len(found))
    xs, ys = (_values(asked, name) for name in (along, "value"))
    x = alt.X(
        "x:Q",
        title=asked.size_title(along),
        scale=alt.Scale(type="log", nice=False, padding=10),
        axis=alt.Axis(values=xs, labelOverlap=True, grid=False),
    )
    y = alt.Y(
        "y:Q",
        title=f"least {asked.name}",
        scale=alt.Scale(type="log", base=2, nice=False, padding=10),
        axis=alt.Axis(values=ys, labelOverlap=True, format="~s"),
    )
    panel, columns = side_by_side(list(found), look)
    layers = _layers(alt.Chart().encode(x=x, y=y), models, {row["part"] for row in told}, look)
    chart = alt.layer(*layers, width=panel, height=HEIGHT)
    facet = alt.Facet("problem:N", sort=list(found), title=None)
    of_rows = chart.facet(facet, data=alt.NamedData("rows"), columns=columns)
    return Drawing(of_rows, {"rows": told})


def _values(asked: Asked, column: str) -> list[Any]:
    return sorted({row[column] for row in asked.answer.cells})


def _layers(
    base: alt.Chart, models: Sequence[str], parts: set[str], look: Look
) -> Iterator[alt.Chart]:
    import altair as alt

    colour, shape = by_model(models, look, "hollow: not settled")
    lines = [name for name in LINES if name in parts]
    dashes: list[Any] = [LINES[name] for name in lines]
    dash = alt.Scale(domain=lines, range=dashes)
    if "band" in parts:
        band = base.transform_filter(is_("part", "band"))
        yield band.mark_area(opacity=0.12).encode(alt.Y2("to:Q"), alt.Color(**colour))
    for name in lines:
        yield (
            base.transform_filter(is_("part", name))
            .mark_line(strokeWidth=1)
            .encode(
                alt.Color(**colour),
                alt.StrokeDash(
                    "part:N", scale=dash, legend=alt.Legend(title=None, symbolType="stroke")
                ),
            )
        )
    bars = base.transform_filter(is_("part", "bar"))
    yield bars.mark_rule(strokeWidth=3, opacity=0.35).encode(alt.Y2("to:Q"), alt.Color(**colour))
    for verdict, (path, below) in ((v, ARROWS[v]) for v in ARROWS if v in parts):
        ends = base.transform_filter(is_("part", verdict))
        yield ends.mark_point(
            shape=path, yOffset=below, size=90, strokeWidth=1.2, opacity=1, filled=False
        ).encode(alt.Color(**colour), tooltip=_tooltip())
    points = base.transform_filter(is_("part", "point"))
    filled = alt.condition(is_("settled", "yes"), alt.value(1), alt.value(0))
    yield points.mark_point(size=32, strokeWidth=1.2, opacity=1, filled=False).encode(
        alt.Stroke(**colour),
        alt.Fill(**colour),
        alt.Shape(**shape),
        fillOpacity=filled,
        tooltip=_tooltip(),
    )
    if "contradiction" in parts:
        wrong = base.transform_filter(is_("part", "contradiction"))
        yield wrong.mark_text(text="!", dx=7, fontWeight="bold")


def _tooltip() -> list[alt.Tooltip]:
    return tooltip(
        model="model", size="size", known="least value", settled="settled", why="why", seeds="seeds"
    )


def _known(
    asked: Asked, rows: Sequence[Row], models: Sequence[str], along: str
) -> Iterator[dict[str, Any]]:
    """Yields what is drawn of the rows of one problem: points, bars, arrows and contradictions."""
    xs = _values(asked, along)
    spread = xs[-1] / xs[0] if len(xs) > 1 else 2.0
    for row in rows:
        aside = models.index(row["model"]) - (len(models) - 1) / 2
        value, fail = row["value"], row["fail"]
        told = {
            "model": row["model"],
            "cell": asked.cell_of.get(tuple(row[name] for name in asked.answer.group)),
            "x": row[along] * spread ** (APART * aside),
            "size": f"{row['size']} (L = {row['L']})" if "L" in row else row.get("size"),
            "known": bound(asked.expression, row),
            "settled": row["settled"],
            "why": row["why"],
            "seeds": f"{row['passed']} of {row['seeds']} pass",
        }
        if value is not None:
            yield {**told, "part": "point", "y": value}
        if value is not None and fail is not None:
            yield {**told, "part": "bar", "y": value, "to": fail}
        if value is not None and fail is None:
            yield {**told, "part": "at most", "y": value}
        if value is None and fail is not None:
            yield {**told, "part": "above", "y": fail}
        if row["verdict"] == "not monotone":
            yield {**told, "part": "contradiction", "y": value or fail}


def bound(name: str, row: Row) -> str:
    """Returns what a row of `min` knows of the least value, in symbols."""
    value, fail = row["value"], row["fail"]
    if value is None:
        return "not known" if fail is None else f"{name} > {fail:g}"
    return f"{name} ≤ {value:g}" if fail is None else f"{fail:g} < {name} ≤ {value:g}"


def _laws(rows: Sequence[Row], laws: Sequence[Row], along: str) -> Iterator[dict[str, Any]]:
    """Yields the law of each model over its sizes, and with it the band of its interval and the
    line of theory's exponent. Three points are enough for each, since on logarithmic axes all of
    their lines are straight."""
    for law in laws:
        xs = [row[along] for row in rows if row["model"] == law["model"]]
        if law["exponent"] is None or not xs:
            continue
        middle = sqrt(min(xs) * max(xs))
        level = law["factor"] * middle ** law["exponent"]
        theory = law["predicted"] and exponent(law["predicted"])
        for x in (min(xs), middle, max(xs)):
            ends = [level * (x / middle) ** law[end] for end in ("low", "high")]
            told = {"model": law["model"], "x": x}
            yield {**told, "part": "band", "y": min(ends), "to": max(ends)}
            yield {**told, "part": "fitted law", "y": level * (x / middle) ** law["exponent"]}
            if theory is not None:
                at = level * (x / middle) ** theory
                yield {**told, "part": "theory's exponent", "y": at}


def exponent(predicted: str) -> float:
    """Returns the number in a predicted exponent such as `1/2` or `>= 1/4`."""
    from fractions import Fraction

    return float(Fraction(predicted.removeprefix(">=").strip()))
