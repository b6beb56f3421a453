"""The figures of the rows of answers. `least` shows the least value that passes against the size,
with what is known of it from below and from above, `exponents` the exponents of the laws that are
fitted to it, and `frontier` the cells that no other beats on both a cost and a score."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, floor, inf, log10, sqrt
from typing import Any

import altair as alt

from sweepd.errors import UserError
from sweepd.figures.panels import (
    Asked,
    Drawing,
    NothingToDraw,
    by_model,
    is_,
    refuse_a_crowd,
    scored,
    side_by_side,
    stacked,
    tooltip,
)
from sweepd.figures.style import Look, ordered
from sweepd.listing import Row
from sweepd.query.readable import failed_with

HEIGHT, HEIGHT_OF_FRONTIER, ROW_HEIGHT = 130, 110, 14
"""The heights, in points, of a panel of `least` and of `frontier`, and of a row of `exponents`."""
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
RIGHT = "M-1,0L1,0M.5,-.4L1,0L.5,.4"
"""The arrow at an exponent that is a lower bound."""


def least(asked: Asked, laws: Sequence[Row], along: str, look: Look) -> Drawing:
    """Returns a figure with a panel for each problem, on logarithmic axes.

    `along` is the column of the horizontal axis, L or the size. A bar reaches from the largest
    value that failed to the least that passed, where the point is. An arrow down says that nothing
    smaller was tried to its end, an arrow up that nothing passed. Points of rows without a forecast
    are hollow. `laws` are the rows of a `fit` along the same column. Each is drawn as the nearest
    line that leaves no bar of its model, and not at all if its 95% interval has none. Its band lies
    between the lines through its middle that have the ends of that interval as their slopes.
    """
    problems, laws_of = asked.problems(asked.answer.rows), asked.problems(laws)
    models = ordered([row["model"] for row in asked.answer.rows])
    refuse_a_crowd(len(problems))
    rows: list[dict[str, Any]] = []
    for name, members in problems.items():
        known = _known(asked, members, models, along)
        drawn = [*known, *_laws(members, laws_of.get(name, ()), along)]
        rows += [{"problem": name, **row} for row in drawn]
    tasks = {row["task"] for row in asked.answer.rows}
    title = ", ".join(sorted({str(asked.size_fields.get(task, "size")) for task in tasks}))
    title = "sequence length L (tokens)" if along == "L" else title
    x = alt.X("x:Q", title=title).scale(type="log", nice=False, padding=10)
    x = x.axis(values=asked.values(along), labelOverlap=True, grid=False)
    y = alt.Y("y:Q", title=f"least {asked.name}")
    y = y.scale(type="log", base=2, nice=False, padding=10)
    y = y.axis(values=asked.values("value"), labelOverlap=True, format="~s")
    base = alt.Chart().encode(x=x, y=y)
    parts = {row["part"] for row in rows}
    colour, shape = by_model(models, look, "hollow: no forecast")
    shown = tooltip(
        model="model", size="size", known="least value", tried="tried", why="why", seeds="seeds"
    )

    def of(part: str) -> alt.Chart:
        return base.transform_filter(is_("part", part))

    lines = [name for name in LINES if name in parts]
    dashes: list[Any] = [LINES[name] for name in lines]
    dash = alt.StrokeDash("part:N").scale(domain=lines, range=dashes)
    dash = dash.legend(title=None, symbolType="stroke")
    coloured, to = alt.Color(**colour), alt.Y2("to:Q")
    outlined: dict[str, Any] = {"strokeWidth": 1.2, "opacity": 1, "filled": False}
    arrows = []
    for end, (path, below) in ARROWS.items():
        arrow = of(end).mark_point(shape=path, yOffset=below, size=90, **outlined)
        arrows.append(arrow.encode(coloured, tooltip=shown))
    fill = alt.condition("datum.forecast", alt.value(1), alt.value(0))
    look_of_point = alt.Stroke(**colour), alt.Fill(**colour), alt.Shape(**shape)
    point = of("point").mark_point(size=32, **outlined)
    layers = [
        of("band").mark_area(opacity=0.12).encode(to, coloured),
        *(of(name).mark_line(strokeWidth=1).encode(coloured, dash) for name in lines),
        of("bar").mark_rule(strokeWidth=3, opacity=0.35).encode(to, coloured),
        *arrows,
        point.encode(*look_of_point, fillOpacity=fill, tooltip=shown),
        of("contradiction").mark_text(text="!", dx=7, fontWeight="bold"),
    ]
    panel, columns = side_by_side(list(problems), look)
    chart = alt.layer(*layers, width=panel, height=HEIGHT)
    facet = alt.Facet("problem:N", sort=list(problems), title=None)
    return Drawing(chart.facet(facet, data=alt.NamedData("rows"), columns=columns), {"rows": rows})


def _known(
    asked: Asked, rows: Sequence[Row], models: Sequence[str], along: str
) -> Iterator[dict[str, Any]]:
    """Yields what is drawn of the rows of one problem: points, bars, arrows and contradictions."""
    xs = asked.values(along)
    spread = xs[-1] / xs[0] if len(xs) > 1 else 2.0
    for row in rows:
        aside = models.index(row["model"]) - (len(models) - 1) / 2
        value, fail = row["value"], row["fail"]
        place = {
            "model": row["model"],
            "cell": asked.cell_of.get(tuple(row[name] for name in asked.answer.group)),
            "x": row[along] * spread ** (APART * aside),
            "size": f"{row['size']} (L = {row['L']})" if "L" in row else row.get("size"),
            "known": in_symbols(asked.expression, row),
            "forecast": row["holds_to"] is not None,
            "tried": failed_with(row),
            "why": row["why"],
            "seeds": f"{row['passed']} of {row['seeds']} pass",
        }
        if value is not None:
            yield {**place, "part": "point", "y": value}
        if value is not None and fail is not None:
            yield {**place, "part": "bar", "y": value, "to": fail}
        if value is not None and fail is None:
            yield {**place, "part": "at most", "y": value}
        if value is None and fail is not None:
            yield {**place, "part": "above", "y": fail}
        if row["verdict"] == "not monotone":
            yield {**place, "part": "contradiction", "y": value or fail}


def in_symbols(name: str, row: Row) -> str:
    """Returns what a row of `min` knows of the least value, as in `8 < d ≤ 16`."""
    value, fail = row["value"], row["fail"]
    if value is None:
        return "not known" if fail is None else f"{name} > {fail:g}"
    return f"{name} ≤ {value:g}" if fail is None else f"{fail:g} < {name} ≤ {value:g}"


def _laws(rows: Sequence[Row], laws: Sequence[Row], along: str) -> Iterator[dict[str, Any]]:
    """Yields the law of each model over its sizes, and with it the band of its interval and the
    line of theory's exponent. Three points are enough for each, since on logarithmic axes all of
    their lines are straight."""
    for law in laws:
        own = [row for row in rows if row["model"] == law["model"]]
        if law["exponent"] is None or not own:
            continue
        xs = [row[along] for row in own]
        middle = sqrt(min(xs) * max(xs))
        known = [(row[along] / middle, row["fail"] or 0, row["value"] or inf) for row in own]
        # The law that is drawn stays within what is known of each size: of all such laws in the
        # interval, the one that is nearest to the fit.
        fitted = law["factor"] * middle ** law["exponent"]
        steps = [law["low"] + (law["high"] - law["low"]) * step / 200 for step in range(201)]
        for slope in sorted([law["exponent"], *steps], key=lambda s: abs(s - law["exponent"])):
            low = max(low / x**slope for x, low, _ in known)
            high = min(high / x**slope for x, _, high in known)
            if low < high:
                break
        else:
            continue
        level = min(max(fitted, low), high)
        for x in (min(xs), middle, max(xs)):
            ends = [level * (x / middle) ** law[end] for end in ("low", "high")]
            place = {"model": law["model"], "x": x}
            yield {**place, "part": "band", "y": min(ends), "to": max(ends)}
            yield {**place, "part": "fitted law", "y": level * (x / middle) ** slope}
            if law["predicted"]:
                at = level * (x / middle) ** _number(law["predicted"])
                yield {**place, "part": "theory's exponent", "y": at}


def _number(predicted: str) -> float:
    """Returns the number in a predicted exponent such as `1/2` or `>= 1/4`."""
    return float(Fraction(predicted.removeprefix(">=").strip()))


def exponents(asked: Asked, along: str, look: Look) -> Drawing:
    """Returns a figure with a panel for each problem, and in it a row for each model, which shows
    the exponent and its 95% interval.

    A stroke is the exponent that theory gives. It has an arrow where theory gives a lower bound.
    Raises NothingToDraw if no row of the answer has an exponent.
    """
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
    law, theory, bound, none = (
        base.transform_filter(is_("part", part)) for part in ("law", "theory", "bound", "none")
    )
    shown = tooltip(model="model", told="exponent", theory="theory", points="sizes", seeds="seeds")
    layers = (
        law.mark_rule(strokeWidth=1.5).encode(alt.X("low:Q"), alt.X2("high")),
        law.mark_point(filled=True, size=34, opacity=1).encode(alt.Shape(**shape), tooltip=shown),
        theory.mark_tick(thickness=1.5, size=11),
        bound.mark_point(shape=RIGHT, size=70, xOffset=6, strokeWidth=1.2),
        none.mark_text(align="left").encode(text="told:N"),
    )
    charts, data = [], {}
    for name, members in asked.problems(rows).items():
        height = ROW_HEIGHT * len({row["model"] for row in members})
        size = {"width": look.panel(1), "height": height}
        charts.append(alt.layer(*layers, data=alt.NamedData(name), title=name, **size))
        parts: list[dict[str, Any]] = []
        for row in members:
            place = {"model": row["model"], "theory": row["predicted"] or "not known"}
            if row["exponent"] is None:
                parts.append({**place, "part": "none", "x": 0, "told": "no fit"})
            else:
                place |= {kind: row[kind] for kind in ("low", "high", "points", "seeds")}
                text = f"{row['exponent']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
                parts.append({**place, "part": "law", "x": row["exponent"], "told": text})
            if row["predicted"]:
                parts.append({**place, "part": "theory", "x": _number(row["predicted"])})
                if row["predicted"].startswith(">"):
                    parts.append({**parts[-1], "part": "bound"})
        data[name] = parts
    return Drawing(stacked(charts).resolve_scale(x="shared"), data)


def frontier(asked: Asked, look: Look) -> Drawing:
    """Returns a figure with a panel for each problem and size. The line of a model is its best
    score up to each cost. Raises UserError if a cost is not positive, since the axis of costs is
    logarithmic."""
    cost, score = asked.expression, asked.score
    cells = zip(asked.answer.rows, asked.answer.cells, strict=True)
    rows = [{**row, **cell} for row, cell in cells]
    colour, shape = by_model(ordered([row["model"] for row in rows]), look)
    costs = [row[cost] for row in rows]
    if min(costs) <= 0:
        raise UserError(
            f"{asked.name} is 0 or less somewhere, and a frontier is drawn on a logarithmic axis: "
            "choose another cost, or with --where the cells in which it is above 0"
        )
    decades = [10.0**n for n in range(floor(log10(min(costs))), ceil(log10(max(costs))) + 1)]
    x = alt.X("cost:Q", title=asked.name).scale(type="log", nice=False, padding=8)
    x = x.axis(values=decades, format="~e", labelOverlap=True, grid=False)
    base = alt.Chart().encode(x, scored(score), alt.Color(**colour))
    shown = tooltip(model="model", d="d", cost=asked.name, told="score", seeds="seeds", at="at")
    line = base.mark_line(interpolate="step-after", strokeWidth=1, opacity=0.7)
    points = base.mark_point(filled=True, size=26, opacity=1)
    points = points.encode(alt.Shape(**shape), tooltip=shown)
    charts: list[Any] = []
    data: dict[str, list[dict[str, Any]]] = {}
    refuse_a_crowd(len({(row["task"], row["size"]) for row in rows}))
    for name, members in asked.problems(rows).items():
        size_name = asked.size_fields.get(members[0]["task"], "size")
        data[name] = []
        for row in members:
            part = {field: row.get(field) for field in ("model", "d", "seeds", "at", "cell")}
            part |= {"cost": row[cost], "score": row[score], "told": f"{row[score]:.3f}"}
            data[name].append({**part, "size": f"{size_name} = {row['size']}"})
        sizes = list(dict.fromkeys(row["size"] for row in data[name]))
        panel, columns = side_by_side(sizes, look)
        facet = alt.Facet("size:N", sort=sizes, title=None)
        chart = alt.layer(line, points, width=panel, height=HEIGHT_OF_FRONTIER)
        charts.append(chart.facet(facet, data=alt.NamedData(name), columns=columns, title=name))
    return Drawing(stacked(charts), data)
