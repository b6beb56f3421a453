"""The kinds of figures, what each of them asks of a store, and what it shows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

from sweepd.errors import UserError
from sweepd.figures.answers import exponents, frontier, least
from sweepd.figures.heatmap import heatmap
from sweepd.figures.panels import Asked, Draw, NothingToDraw
from sweepd.figures.training import curves, settle
from sweepd.listing import Row
from sweepd.query.answers import answer
from sweepd.query.database import Curve, Views, trials_of
from sweepd.query.database import curves as curves_of
from sweepd.store.storage import Damaged


@dataclass(frozen=True)
class Questions:
    """The questions that figures ask of a store. Each is asked once, when a figure needs it."""

    views: Views
    where: str | None = None
    """The condition of all questions. If it says nothing about a score, the goal of the sweeps
    counts."""
    of: str = ""
    """What is minimised. Empty for what the grids minimise."""
    along: str = ""
    """The column, L or size, along which the least value grows. Empty for L, or for the size where
    nothing has an L."""
    cost: str = "train_flops"
    """The cost of the frontier."""
    points: int = 200
    """The most points, more or less, that a learning curve has."""
    notes: list[str] = field(default_factory=list)
    """Notes on what the answers do not show."""
    damaged: list[Damaged] = field(default_factory=list)
    """The files of learning curves that were skipped because they are damaged."""

    @cached_property
    def least(self) -> Asked:
        """The answer with the least values and the cells behind them. Raises UserError if what is
        minimised is the size itself, since figures show the least values against the size."""
        asked = self._asked(f"min {self.minimized}", self.minimized)
        if "size" not in asked.answer.group:
            raise UserError(
                f"--of {self.minimized}: figures show it against the size; name another column"
            )
        return asked

    @cached_property
    def laws(self) -> Asked:
        """The answer that says how the least values grow."""
        return self._asked(f"fit {self.minimized} ~ {self.against}", self.minimized)

    @cached_property
    def unbeaten(self) -> Asked:
        """The answer with the frontier of the score that the least values are about."""
        return self._asked(f"frontier {self.cost}, {self.least.score}", self.cost)

    @cached_property
    def trials(self) -> Mapping[int, Sequence[Row]]:
        return trials_of(self.views)

    @cached_property
    def curves(self) -> Mapping[str, Curve]:
        """The learning curves of the trials of all cells behind the least values."""
        cells = {row["cell"] for row in self.least.answer.cells}
        ids = [trial["id"] for cell in cells for trial in self.trials.get(cell, ())]
        self.damaged.extend(self.views.prepare("metrics"))
        return curves_of(self.views, ids, self.least.score, self.points)

    @cached_property
    def minimized(self) -> str:
        """What is minimised. Raises UserError where the sweeps do not agree on it."""
        return self.of or self.views.selection.minimized

    @cached_property
    def against(self) -> str:
        """The column along which the least value grows."""
        has_L = any(row["L"] is not None for row in self.least.answer.rows)
        return self.along or ("L" if has_L else "size")

    @property
    def texts(self) -> dict[str, str]:
        """The questions `min` and `fit` by their verbs."""
        return {
            "min": self._text(f"min {self.minimized}"),
            "fit": self._text(f"fit {self.minimized} ~ {self.against}"),
        }

    def _text(self, question: str) -> str:
        return f"{question} where {self.where}" if self.where else question

    def _asked(self, question: str, expression: str) -> Asked:
        text = self._text(question)
        result = answer(self.views, text)
        self.notes.extend(note for note in result.notes if note not in self.notes)
        if not result.rows:
            raise NothingToDraw(f"nothing to draw: `{text}` has no row")
        return Asked(result, expression, self.views.selection.size_fields)


class FigureKind(NamedTuple):
    """What a kind of figure shows, in a sentence, and how it is drawn."""

    shows: str
    draw: Callable[[Questions], Draw]


KINDS = {
    "min": FigureKind(
        "The least value that passes against the length of the problem, and the fitted law if any.",
        lambda asked: partial(least, asked.least, asked.laws.answer.rows, asked.against),
    ),
    "heatmap": FigureKind(
        "The score of each cell, and the boundary between what passed and what failed.",
        lambda asked: partial(heatmap, asked.least),
    ),
    "settle": FigureKind(
        "Test scores against the training budget, of the cells that decide each row.",
        lambda asked: partial(settle, asked.least, asked.trials),
    ),
    "frontier": FigureKind(
        "The best score at each cost.",
        lambda asked: partial(frontier, asked.unbeaten),
    ),
    "fit": FigureKind(
        "The exponents of the fitted laws, with their intervals, beside those of theory.",
        lambda asked: partial(exponents, asked.laws, asked.against),
    ),
    "curves": FigureKind(
        "What was measured of each trial while it was trained.",
        lambda asked: partial(curves, asked.least, asked.trials, asked.curves),
    ),
}
"""The kinds of figures by name, in the order in which a report shows them."""
