"""The figure `curves`, which shows what was measured of each trial while it was trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweepd.figures.panels import (
    Asked,
    Drawing,
    NothingToDraw,
    by_size_and_model,
    goal_rule,
    is_,
    scored,
    tooltip,
)
from sweepd.figures.style import Look
from sweepd.listing import Row
from sweepd.query.trials import Curve


def curves(
    asked: Asked,
    trials: Mapping[int, Sequence[Row]],
    of: Mapping[str, Curve],
    look: Look,
) -> Drawing:
    """Returns a figure with a row of panels for each problem and size, a panel in it for each
    model, and a line for each trial.

    The line of a trial that was not completed may end early, since the trial was solved, stopped or
    diverged. A point at the line's end is then the trial's test score. `trials` has the trials of
    the cells of a `min`, and `of` their curves by id. Raises NothingToDraw if nothing was measured.
    """
    import altair as alt

    if not of:
        raise NothingToDraw("nothing to draw: no trial has recorded a check that ended")
    values = sorted({row["value"] for row in asked.answer.cells})
    colour = alt.Color(
        "value:O",
        scale=alt.Scale(domain=values, scheme="viridis"),
        legend=alt.Legend(title=asked.name, titleOrient="left", columns=8),
    )

    base = alt.Chart().encode(scored(asked.score))
    of_trials = base.encode(
        alt.X(
            "step:Q",
            title="steps",
            scale=alt.Scale(zero=True),
            axis=alt.Axis(tickCount=3, format=",d", grid=False),
        ),
        colour,
        tooltip=tooltip(trial="trial", seed="seed", value=asked.name, at="at", status="status"),
    )
    line = of_trials.transform_filter(is_("part", "curve"))
    end = of_trials.transform_filter(is_("part", "end"))
    layers = (
        goal_rule(base, look),
        line.mark_line(strokeWidth=0.8, opacity=0.8).encode(alt.Detail("trial:N")),
        end.mark_point(filled=True, size=12, opacity=1),
    )

    def drawn(row: Row) -> Iterator[dict[str, Any]]:
        for trial in trials.get(row["cell"], ()):
            yield from _told(asked, row, trial, of.get(trial["id"], ()))

    return by_size_and_model(asked, asked.answer.cells, drawn, layers, look)


def _told(asked: Asked, row: Row, trial: Row, curve: Curve) -> Iterator[dict[str, Any]]:
    told = {name: trial[name] for name in ("seed", "status")} | {"trial": trial["id"]}
    told |= {name: row[name] for name in ("value", "at", "cell")}
    for step, score in curve:
        yield {**told, "part": "curve", "step": step, "score": score}
    score = trial[asked.score]
    if trial["status"] != "completed" and score is not None:
        yield {**told, "part": "end", "step": trial["step"], "score": score}


def one_cell(score: str, look: Look) -> Drawing:
    """Returns a figure for the learning curves of the seeds of one cell. A page fills in its data,
    which have the name `curve`."""
    import altair as alt

    base = alt.Chart(alt.NamedData("curve")).encode(
        alt.X("step:Q", title="steps of training", axis=alt.Axis(tickCount=4, grid=False)),
        scored(score),
        alt.Detail("trial:N"),
        tooltip=tooltip(trial="trial", seed="seed", step="step", score="score"),
    )
    line = base.mark_line(strokeWidth=1, color=look.ink, opacity=0.7)
    point = base.mark_point(filled=True, size=12, color=look.ink, opacity=0.8)
    return Drawing(alt.layer(line, point, width=260, height=130), {"curve": []})
