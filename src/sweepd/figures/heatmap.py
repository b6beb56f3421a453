"""The figure `heatmap`, which shows the score of each cell by size and by what is minimised, and
the line between what passed and what failed."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Any

import altair as alt

from sweepd.figures.panels import SCORES, Asked, Drawing, is_, refuse_a_crowd, stacked, tooltip
from sweepd.figures.style import SMALL, Look, ordered
from sweepd.listing import Row

ROW_HEIGHT = 15.0
LEAST_FOR_NUMBERS = 19
"""The least width, in points, of a cell that has room for its score."""
MARKS = {
    "inferred": ("inferred to fail", "M-.7,-.7L.7,.7M-.7,.7L.7,-.7"),
    "ended early": ("ended early", "triangle-up"),
    "unfinished": ("not finished", "circle"),
}
"""What the mark of a cell says, and the mark's shape, by the cell's state. Cells in other states
have no mark."""
DIVERGED = "div."
"""The text of a cell with seeds that diverged and with no finite score."""
LINE = "#D55E00"
"""The colour of the line between what passed and what failed."""
FORECAST = ["forecast to hold", "no forecast"]
"""What the boundary's kinds of line mean."""


def heatmap(asked: Asked, look: Look) -> Drawing:
    """Returns a map of the cells of a `min`, with a row of panels for each problem, and a panel in
    it for each model.

    The line separates what passed from what failed. A cell that was not tried is blank.
    """
    rows = asked.problems(asked.answer.rows)
    refuse_a_crowd(len(rows) * len({row["model"] for row in asked.answer.rows}))
    # The scores between which a cell is so dark that its number is white.
    dark_from, dark_to = {"acc": (0.55, inf), "loss": (-inf, 0.2)}.get(asked.score, (inf, inf))
    charts: list[alt.FacetChart] = []
    data: dict[str, list[dict[str, Any]]] = {}
    for name, cells in asked.problems(c for c in asked.answer.cells if c["stands"]).items():
        data[name] = []
        for cell in cells:
            place = {column: cell[column] for column in ("model", "size", "value")}
            score = cell[asked.score]
            number = DIVERGED if cell["diverged"] else ""
            is_dark = score is not None and dark_from < score < dark_to
            part = {column: cell[column] for column in ("state", "at", "cell")} | {"part": "cell"}
            part["shown"] = number if score is None else f"{score:.2f}".removeprefix("0")
            part["letters"] = "white" if is_dark else "black"
            part["seeds"] = f"{cell['passed']} of {cell['seeds']}"
            data[name].append({**place, **part, "score": score})
            if cell["state"] in MARKS:
                data[name].append({**place, "part": "mark", "mark": MARKS[cell["state"]][0]})
        line = list(_line(rows.get(name, []), sorted({cell["value"] for cell in cells})))
        data[name] += line
        charts.append(_panels(asked, look, name, cells, {part["part"] for part in line}))
    scales = {"color": "shared", "shape": "shared", "strokeDash": "shared"}
    return Drawing(stacked(charts).resolve_scale(**scales), data)


def _panels(
    asked: Asked, look: Look, name: str, cells: Sequence[Row], line_parts: set[str]
) -> alt.FacetChart:
    """Returns the panels of one problem, whose data have its name. line_parts: the kinds of pieces
    that the line consists of."""
    models = ordered([cell["model"] for cell in cells])
    sizes = sorted({cell["size"] for cell in cells})
    values = sorted({cell["value"] for cell in cells})
    width = look.panel(len(models))
    # The domains are written out, since layers with fields of their own (`to`) would order the
    # values anew.
    x = alt.X("size:O", title=asked.size_fields.get(cells[0]["task"], "size")).scale(domain=sizes)
    x = x.axis(labelAngle=0, labelOverlap=True, grid=False, domain=False, ticks=False)
    y = alt.Y("value:O", title=asked.name).scale(domain=values[::-1])
    y = y.axis(grid=False, domain=False, ticks=False)
    base = alt.Chart().encode(x=x, y=y).properties(width=width, height=ROW_HEIGHT * len(values))
    best, middle, worst = ("#08306B", "#6BAED6", "#F7FBFF")
    scales = {
        "acc": alt.Scale(domain=[0, 1], scheme="blues"),
        "loss": alt.Scale(type="symlog", range=[best, worst]),
    }
    scale = scales.get(asked.score, alt.Scale(range=[worst, middle]))  # legible under black text
    score_name = SCORES.get(asked.score, asked.score)
    fields = {"size": "size", "value": asked.name, "score": score_name}
    fields |= {"seeds": "seeds that pass", "state": "state", "at": "at"}
    shown = tooltip(**fields)
    of_cells = base.transform_filter(is_("part", "cell"))
    blank = of_cells.mark_rect(stroke=look.ink, strokeOpacity=0.15, strokeWidth=0.5, fillOpacity=0)
    colour = alt.Color("score:Q", scale=scale).legend(title=score_name, gradientLength=80)
    scored = of_cells.transform_filter(alt.FieldValidPredicate(field="score", valid=True))
    layers: list[alt.Chart] = [
        blank.encode(tooltip=shown),
        scored.mark_rect().encode(color=colour, tooltip=shown),
    ]
    if width / len(sizes) >= LEAST_FOR_NUMBERS:
        letters = alt.condition(is_("letters", "white"), alt.value("white"), alt.value("black"))
        text = of_cells.mark_text(fontSize=SMALL - 1)
        layers.append(text.encode(text="shown:N", color=letters))
    states = {cell["state"] for cell in cells}
    if used := [mark for state, mark in MARKS.items() if state in states]:
        names, shapes = zip(*used, strict=True)
        shape = alt.Shape("mark:N").scale(domain=names, range=shapes).legend(title=None)
        place = base.encoding.x.bandPosition(0.87), base.encoding.y.bandPosition(0.7)
        mark = base.transform_filter(is_("part", "mark"))
        mark = mark.mark_point(size=14, stroke=look.ink, strokeWidth=0.7, opacity=0.8)
        layers.append(mark.encode(*place, shape))
    # A layer for each kind of piece of the line. The kind's name (`flat 1`, `step 1 0`) says at
    # which edges of cells its pieces begin and end: 1 for the lower edge, 0 for the upper one.
    dash = alt.StrokeDash("forecast:N").scale(domain=FORECAST, range=[[1, 0], [3, 2]])
    dash = dash.legend(title="boundary", symbolType="stroke", symbolStrokeColor=LINE)
    for part in sorted(line_parts):
        _, *edges = part.split()
        to: Any = alt.X2("size", bandPosition=1)
        if len(edges) > 1:
            to = alt.Y2("to", bandPosition=int(edges[1]))
        rule = base.transform_filter(is_("part", part)).mark_rule(strokeWidth=2, stroke=LINE)
        begins = base.encoding.y.bandPosition(int(edges[0]))
        layers.append(rule.encode(base.encoding.x.bandPosition(0), begins, to, dash))
    column = alt.Column("model:N", sort=models, title=None)
    return alt.layer(*layers).facet(column=column, data=alt.NamedData(name), title=name)


def _line(rows: Sequence[Row], values: Sequence[float]) -> Iterator[dict[str, Any]]:
    """Yields the pieces of the line below what passed: a flat one for each size, and a step where
    the line stands at different heights for one size and the next."""
    by_model: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["size"]):
        if row["value"] is not None or row["verdict"] == "above":
            by_model.setdefault(row["model"], []).append(row)

    def edge(row: Row) -> tuple[float, float]:
        """Returns the value of the cell that the line passes, and which of the cell's edges the
        line follows: 1 for the lower one, 0 for the upper one."""
        return (values[-1], 0) if row["value"] is None else (row["value"], 1)

    for model, of_model in by_model.items():
        for row in of_model:
            value, at = edge(row)
            forecast = FORECAST[row["holds_to"] is None]
            piece = {"part": f"flat {at}", "model": model, "size": row["size"]}
            yield {**piece, "value": value, "forecast": forecast}
        for one, other in pairwise(of_model):
            (low, low_at), (high, high_at) = edge(one), edge(other)
            if (low, low_at) != (high, high_at):
                piece = {"part": f"step {low_at} {high_at}", "model": model, "size": other["size"]}
                forecast = FORECAST[one["holds_to"] is None is other["holds_to"]]
                yield {**piece, "value": low, "to": high, "forecast": forecast}
