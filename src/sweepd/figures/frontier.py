"""The figure `frontier`, which shows the cells that no other beats on both a cost and a score."""

from __future__ import annotations

from math import ceil, floor, log10

from sweepd.errors import UserError
from sweepd.figures.panels import (
    Asked,
    Drawing,
    by_model,
    refuse_a_crowd,
    scored,
    side_by_side,
    stacked,
    tooltip,
)
from sweepd.figures.style import Look, ordered

HEIGHT = 110


def frontier(asked: Asked, look: Look) -> Drawing:
    """Returns a figure with a panel for each problem and size. The line of a model is its best
    score up to each cost. Raises UserError if a cost is not positive, since the axis of costs is
    logarithmic."""
    import altair as alt

    cost, score = asked.expression, asked.score
    cells = zip(asked.answer.rows, asked.answer.cells, strict=True)
    rows = [{**row, **cell} for row, cell in cells]
    models = ordered([row["model"] for row in rows])
    colour, shape = by_model(models, look)
    costs = [row[cost] for row in rows]
    if min(costs) <= 0:
        raise UserError(
            f"{asked.name} is 0 or less somewhere, and a frontier is drawn on a logarithmic axis: "
            "choose another cost, or with --where the cells in which it is above 0"
        )
    decades = [10.0**n for n in range(floor(log10(min(costs))), ceil(log10(max(costs))) + 1)]
    base = alt.Chart().encode(
        alt.X(
            "cost:Q",
            title=asked.name,
            scale=alt.Scale(type="log", nice=False, padding=8),
            axis=alt.Axis(values=decades, format="~e", labelOverlap=True, grid=False),
        ),
        scored(score),
        alt.Color(**colour),
    )
    shown = tooltip(model="model", d="d", cost=asked.name, told="score", seeds="seeds", at="at")
    line = base.mark_line(interpolate="step-after", strokeWidth=1, opacity=0.7)
    points = base.mark_point(filled=True, size=26, opacity=1).encode(
        alt.Shape(**shape), tooltip=shown
    )
    charts, data = [], {}
    refuse_a_crowd(len({(row["task"], row["size"]) for row in rows}))
    for name, members in asked.problems(rows).items():
        size_name = asked.size_fields.get(members[0]["task"], "size")
        data[name] = [
            {
                **{name: row.get(name) for name in ("model", "d", "seeds", "at", "cell")},
                "cost": row[cost],
                "score": row[score],
                "told": f"{row[score]:.3f}",
                "size": f"{size_name} = {row['size']}",
            }
            for row in members
        ]
        sizes = list(dict.fromkeys(row["size"] for row in data[name]))
        panel, columns = side_by_side(sizes, look)
        facet = alt.Facet("size:N", sort=sizes, title=None)
        chart = alt.layer(line, points, width=panel, height=HEIGHT)
        charts.append(chart.facet(facet, data=alt.NamedData(name), columns=columns, title=name))
    return Drawing(stacked(charts), data)
