"""What all figures share: an answer with the meaning of its question, and the panels that rows fall
into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

import altair as alt

from sweepd.errors import SweepdError, UserError
from sweepd.figures.style import NORMAL, SMALL, Look, marks
from sweepd.listing import Row

if TYPE_CHECKING:
    from sweepd.query.database import Answer

MOST_PANELS = 60
"""The most panels that a figure may have. Nobody can read more."""
MOST_BESIDE = 4
LEAST_PANEL = 105.0
"""The most panels that stand side by side, and the least room that each gets there, in points."""
LEGEND_SYMBOL = 26
"""The width, in points, of a legend's entry without its text."""
SCORES = {"acc": "accuracy"}
"""The names of scores on axes, where they differ from the scores' own names."""
COSTS = {
    "train_flops": "training FLOPs",
    "flops": "FLOPs of a forward pass",
    "flops_weights": "FLOPs of weight products",
    "flops_to_goal": "training FLOPs to the goal",
    "params": "parameters",
    "state_bytes": "decoding state (bytes)",
    "train_bytes": "training memory (bytes)",
}
"""The names of costs on axes."""


class NothingToDraw(SweepdError):
    """There is nothing to draw, as when an answer has no row."""

    exit_code = 1


@dataclass(frozen=True)
class Asked:
    """An answer, and what figures need to know of its question and its store."""

    answer: Answer
    expression: str
    """What is minimised or fitted, or the cost of a frontier."""
    size_fields: Mapping[str, str]
    """The field that is the size of each task, by task."""

    @property
    def score(self) -> str:
        """The score that figures show. It is a metric of a user's own that the answer is about,
        else the loss if the answer is about that alone, else the accuracy."""
        own = min(self.answer.about - {"acc", "loss"}, default=None)
        return own or ("loss" if self.answer.about == {"loss"} else "acc")

    @property
    def name(self) -> str:
        """The name of `expression` on axes."""
        return COSTS.get(self.expression, self.expression)

    def values(self, column: str) -> list[Any]:
        """Returns the values of a column of the cells, by rising value."""
        return sorted({row[column] for row in self.answer.cells})

    @cached_property
    def apart(self) -> list[str]:
        """The columns of the group, besides task, size and model, in which rows differ."""
        alike = {"task", "model", "size", "L", *self.size_fields.values()}
        others = [name for name in self.answer.group if name not in alike]
        return [name for name in others if len({row[name] for row in self.answer.rows}) > 1]

    @cached_property
    def cell_of(self) -> Mapping[tuple[Any, ...], int]:
        """The number of a cell, by a row's group. It is the cell that passes there, or the one that
        decides the row if none passes."""
        cells = [cell for cell in self.answer.cells if cell["stands"]]
        ends = [cell for cell in cells if cell["decides"]] + [c for c in cells if c["wins"]]
        return {tuple(cell[name] for name in self.answer.group): cell["cell"] for cell in ends}

    def where(self, row: Row) -> str:
        """Returns the size of a row, and what else tells it apart from other rows, in words."""
        size = f"{self.size_fields.get(row['task'], 'size')} = {row['size']}"
        return ", ".join([size, *(f"{name} = {row[name]}" for name in self.apart)])

    def problems(self, rows: Iterable[Row]) -> dict[str, list[Row]]:
        """Returns the rows of each problem, by its name. A problem is a task with the values of the
        columns `apart`."""
        problems: dict[str, list[Row]] = {}
        for row in rows:
            marks = [f"{name} = {row[name]}" for name in self.apart if row.get(name) is not None]
            problems.setdefault(", ".join([str(row["task"]), *marks]), []).append(row)
        return problems


@dataclass(frozen=True)
class Drawing:
    """A chart, and by name the data that it refers to. The chart does not hold its data, since
    Altair copies many times what a chart holds."""

    chart: alt.TopLevelMixin
    data: Mapping[str, Sequence[Row]]


Draw = Callable[[Look], Drawing]
"""Draws a figure for the look that it is to have."""


def is_(field: str, value: str) -> alt.FieldEqualPredicate:
    """Returns the condition that a field of the data has a value. The value never runs as an
    expression."""
    return alt.FieldEqualPredicate(field=field, equal=value)


def by_model(
    models: Sequence[str], look: Look, note: str | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the options of a channel that shows the ordered models as colours, and those of one
    that shows them as shapes. The note stands after the models in the legend."""
    entry = max(map(len, models), default=1) * 0.55 * SMALL + LEGEND_SYMBOL
    room = look.width if look.narrow else look.width / 2  # a wide figure has other legends beside
    legend = alt.Legend(
        title=note,
        titleOrient="bottom" if look.narrow else "right",
        titlePadding=3 if look.narrow else 12,
        columns=max(1, min(len(models), int(room / entry))),
        symbolOpacity=1,
    )

    def shown_as(of: Sequence[str]) -> dict[str, Any]:
        scale = alt.Scale(domain=models, range=of)
        return {"shorthand": "model:N", "scale": scale, "legend": legend}

    colours, shapes = zip(*marks(models), strict=True)
    return shown_as(colours), shown_as(shapes)


def side_by_side(names: Sequence[str], look: Look) -> tuple[float, int]:
    """Returns the width of panels, in points, and how many of them stand in each line. They stand
    in as few lines as their names allow, with at most MOST_BESIDE in a line."""
    longest = max(map(len, names)) * 0.5 * NORMAL
    most = max(1, min(MOST_BESIDE, int(look.width / max(longest, LEAST_PANEL))))
    columns = ceil(len(names) / ceil(len(names) / most))
    return look.panel(columns), columns


def tooltip(**fields: str) -> list[alt.Tooltip]:
    """Returns what is shown of a row under the pointer. `fields` has titles by field."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in fields.items()]


def scored(score: str) -> alt.Y:
    """Returns the vertical axis of a score. In the data the field of the score is named `score`."""
    scales = {"acc": alt.Scale(domain=[0, 1]), "loss": alt.Scale(type="symlog", zero=True)}
    scale = scales.get(score, alt.Scale(zero=False))
    return alt.Y("score:Q", title=SCORES.get(score, score), scale=scale)


def refuse_a_crowd(panels: int) -> None:
    """Raises UserError if a figure would have more panels than anybody can read."""
    if panels > MOST_PANELS:
        raise UserError(
            f"the figure would have {panels} panels, and {MOST_PANELS} are the most: choose fewer "
            "sizes, tasks or models, as in --where \"task = 'lis' and size <= 8\""
        )


def stacked(charts: Sequence[Any]) -> Any:
    """Returns the charts below one another, with one set of legends."""
    return charts[0] if len(charts) == 1 else alt.vconcat(*charts)
