"""The figures `curves` and `settle`: what was measured of trials while they were trained, and their
test scores against the training budget. Both have a row of panels for each problem and size, and in
it a panel for each model."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from sweepd.figures.panels import (
    Asked,
    Drawing,
    NothingToDraw,
    by_model,
    is_,
    refuse_a_crowd,
    scored,
    stacked,
    tooltip,
)
from sweepd.figures.style import Look, ordered
from sweepd.listing import Row
from sweepd.query.database import Curve

HEIGHT = 62.0
"""The height of a panel, in points."""
PASSES, DECIDES = "the least value that passes", "the next smaller value"
"""The names of the two roles that a cell can have for a row of the answer."""


def curves(
    asked: Asked, trials: Mapping[int, Sequence[Row]], of: Mapping[str, Curve], look: Look
) -> Drawing:
    """Returns a figure with a line for each trial.

    The line of a trial that was not completed may end early, since the trial was solved, stopped or
    diverged. A point at the line's end is then the trial's test score. `trials` has the trials of
    the cells of a `min`, and `of` their curves by id. Raises NothingToDraw if nothing was measured.
    """
    if not of:
        raise NothingToDraw("nothing to draw: no trial has recorded a check that ended")
    colour = alt.Color("value:O").scale(domain=asked.values("value"), scheme="viridis")
    colour = colour.legend(title=asked.name, titleOrient="left", columns=8)
    x = alt.X("step:Q", title="steps").scale(zero=True)
    x = x.axis(tickCount=3, format=",d", grid=False)
    base = alt.Chart().encode(scored(asked.score))
    shown = tooltip(trial="trial", seed="seed", value=asked.name, at="at", status="status")
    of_trials = base.encode(x, colour, tooltip=shown)
    line = of_trials.transform_filter(is_("part", "curve"))
    end = of_trials.transform_filter(is_("part", "end"))
    layers = (
        line.mark_line(strokeWidth=0.8, opacity=0.8).encode(alt.Detail("trial:N")),
        end.mark_point(filled=True, size=12, opacity=1),
    )

    def parts(row: Row) -> Iterator[dict[str, Any]]:
        for trial in trials.get(row["cell"], ()):
            of_trial = {name: trial[name] for name in ("seed", "status")} | {"trial": trial["id"]}
            of_trial |= {name: row[name] for name in ("value", "at", "cell")}
            for step, score in of.get(trial["id"], ()):
                yield {**of_trial, "part": "curve", "step": step, "score": score}
            score = trial[asked.score]
            if trial["status"] != "completed" and score is not None:
                yield {**of_trial, "part": "end", "step": trial["step"], "score": score}

    return _by_size_and_model(asked, asked.answer.cells, parts, base, layers, look)


def one_cell(score: str, look: Look) -> Drawing:
    """Returns a figure for the learning curves of the seeds of one cell. A page fills in its data,
    which have the name `curve`."""
    base = alt.Chart(alt.NamedData("curve")).encode(
        alt.X("step:Q", title="steps of training", axis=alt.Axis(tickCount=4, grid=False)),
        scored(score),
        alt.Detail("trial:N"),
        tooltip=tooltip(trial="trial", seed="seed", step="step", score="score"),
    )
    line = base.mark_line(strokeWidth=1, color=look.ink, opacity=0.7)
    point = base.mark_point(filled=True, size=12, color=look.ink, opacity=0.8)
    return Drawing(alt.layer(line, point, width=260, height=130), {"curve": []})


def settle(asked: Asked, trials: Mapping[int, Sequence[Row]], look: Look) -> Drawing:
    """Returns a figure of the cells that decide each row of the answer. A panel has a line for each
    seed at each rate, over the budgets that the seed ran.

    The next smaller value decides the row: should it pass with more training, the value falls
    (`search.horizon`).
    """
    cells = [row for row in asked.answer.cells if row["decides"] or row["wins"]]
    models = ordered([row["model"] for row in cells])
    steps = sorted({row["steps"] for row in cells if row["steps"]})
    colour, shape = by_model(models, look, "hollow: the next smaller value")
    dash = alt.StrokeDash("role:N", legend=None)
    dash = dash.scale(domain=[PASSES, DECIDES], range=[[1, 0], [2, 2]])
    x = alt.X("step:Q", title="steps").scale(type="log", base=2, nice=False, padding=8)
    x = x.axis(values=steps, format="~s", labelOverlap=True, grid=False)
    base = alt.Chart().encode(scored(asked.score))
    of_seeds = base.encode(x).transform_filter(is_("part", "seed"))
    line = of_seeds.mark_line(strokeWidth=0.8, opacity=0.7).encode(
        alt.Color(**colour), dash, alt.Detail(["seed:N", "at:N", "value:N"])
    )
    fill = alt.condition(is_("role", PASSES), alt.value(1), alt.value(0))
    shown = {"role": "role", "seed": "seed", "at": "at", "trial": "trial", "score": "score"}
    point = of_seeds.mark_point(size=20, strokeWidth=1, opacity=1, filled=False).encode(
        *(alt.Stroke(**colour), alt.Fill(**colour), alt.Shape(**shape)),
        fillOpacity=fill,
        tooltip=tooltip(value=asked.name, **shown),
    )

    def parts(row: Row) -> Iterator[dict[str, Any]]:
        at = {name: value for name, value in json.loads(row["at"]).items() if name != "steps"}
        for trial in trials.get(row["cell"], ()):
            if trial[asked.score] is not None and row["steps"]:
                part = {name: row[name] for name in ("model", "value", "cell")} | {"part": "seed"}
                part |= {"role": PASSES if row["wins"] else DECIDES, "seed": trial["seed"]}
                part |= {"at": json.dumps(at), "trial": trial["id"]}
                yield {**part, "step": row["steps"], "score": trial[asked.score]}

    return _by_size_and_model(asked, cells, parts, base, (line, point), look)


def _by_size_and_model(
    asked: Asked,
    rows: Sequence[Row],
    parts: Callable[[Row], Iterable[dict[str, Any]]],
    base: Any,
    layers: Sequence[Any],
    look: Look,
) -> Drawing:
    """Returns, for each problem, a table of panels of these layers. It has a row for each size and
    a column for each model. A panel shows the `parts` of its cells, and below them a line at the
    goal if the question's condition gives it as one number."""
    refuse_a_crowd(len({(row["task"], row["size"], row["model"]) for row in rows}))
    rule = base.transform_filter(is_("part", "goal")).mark_rule(
        stroke=look.ink, strokeWidth=0.6, strokeDash=[3, 2], opacity=0.6
    )
    charts = []
    data: dict[str, list[dict[str, Any]]] = {}
    models = ordered([row["model"] for row in rows])
    goal = asked.answer.goal
    for name, members in asked.problems(rows).items():
        size_name = asked.size_fields.get(members[0]["task"], "size")
        data[name] = []
        for where in sorted({(row["size"], row["model"]) for row in members}):
            place = {"size": f"{size_name} = {where[0]}", "model": where[1]}
            if goal and goal.metric == asked.score:
                data[name].append({**place, "part": "goal", "score": goal.threshold})
            here = (row for row in members if (row["size"], row["model"]) == where)
            data[name] += [{**place, **part} for row in here for part in parts(row)]
        sizes = list(dict.fromkeys(row["size"] for row in data[name]))
        panel = alt.layer(rule, *layers, width=look.panel(len(models)), height=HEIGHT)
        row = alt.Row("size:N", sort=sizes, title=None)
        column = alt.Column("model:N", sort=models, title=None)
        charts.append(panel.facet(row=row, column=column, data=alt.NamedData(name), title=name))
    return Drawing(stacked(charts), data)
