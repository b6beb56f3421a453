"""The report of some sweeps on one page. It has the question and its answer with caveats, figures,
laws, a comparison with the paper, failures and costs. It also says where the results came from and
how to repeat them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from html import escape
from typing import Any

from sweepd.errors import SweepdError
from sweepd.figures.curves import one_cell
from sweepd.figures.kinds import KINDS, Questions
from sweepd.figures.origin import Launches, cost, failures, origin, repeating
from sweepd.figures.page import figure, page, prepared, table
from sweepd.figures.panels import Asked, NothingToDraw
from sweepd.figures.render import ON_SCREEN, specified
from sweepd.figures.words import answered, caveats, question, table_rows
from sweepd.listing import Row

MOST_CURVES = 300
"""The most trials whose learning curves one figure shows. If there are more, a click on a cell
still shows the curves of that cell."""
MOST_POINTS = 60_000
"""The most points that the learning curves of a page have together, unless there are so many trials
that each curve gets only LEAST_POINTS."""
LEAST_POINTS, ENOUGH_POINTS = 6, 200
"""The least and the greatest limit on the points of one learning curve."""
LAW_COLUMNS = ("exponent", "low", "high", "points", "censored", "seeds", "predicted", "reason")

Claims = Callable[[], Sequence[Row]]
"""A function that returns what the store says about the claims of the paper."""


def points_each(trials: int) -> int:
    """Returns how many points the learning curve of each trial may have on a page with so many
    trials."""
    return min(max(MOST_POINTS // max(trials, 1), LEAST_POINTS), ENOUGH_POINTS)


@dataclass(frozen=True)
class Report:
    """What the report of some sweeps is made of."""

    name: str
    """The title of the page."""
    asked: Questions
    launches: Launches
    claims: Claims
    command: str
    """The command that makes the page."""

    def page(self) -> bytes:
        """Returns the page. A part that has no answer says why. Raises NothingToDraw if there are
        no least values at all."""
        least = self.asked.least
        prepared()
        figures, missing = self._figures()
        sections = {
            "Answer": self._answer,
            "Figures": lambda: "".join(_shown(kind, figures, missing) for kind in KINDS),
            "Laws": self._laws,
            "Beside the paper": self._claims,
            "Failures": lambda: failures(self.asked.views),
            "Cost": lambda: cost(self.asked.views),
            "Where it came from": lambda: origin(self.launches),
            "To repeat it": lambda: repeating(self.launches, [*self._questions(), self.command]),
        }
        made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        links = [f'<a href="#{_anchor(title)}">{title}</a>' for title in sections]
        body = [
            f'<h1>{escape(self.name)}</h1><p class="quiet">Made by sweepd at {made}.</p>',
            f'<nav aria-label="Parts of this page">{" ".join(links)}</nav>',
            *(
                f'<h2 id="{_anchor(title)}">{title}</h2>{_tried(of)}'
                for title, of in sections.items()
            ),
        ]
        return page(self.name, "\n".join(body), {"figures": figures, "curves": self._curves(least)})

    def _figures(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Returns the specifications of the figures by kind, and by kind the reason why others are
        missing. The figure `curve`, of the learning curves of one cell, is added to the former."""
        found: dict[str, Any] = {}
        missing = {}
        for name, kind in KINDS.items():
            try:
                if name == "curves" and (trials := len(self.asked.curves)) > MOST_CURVES:
                    raise NothingToDraw(f"{trials} curves are too many for one figure")
                found[name] = specified(kind.draw(self.asked), ON_SCREEN, kind.shows)
            except SweepdError as error:
                missing[name] = str(error)
        draw = partial(one_cell, self.asked.least.score)
        found["curve"] = specified(draw, ON_SCREEN, "Learning curves of one cell")
        return found, missing

    def _answer(self) -> str:
        asked = self.asked.least
        told = [f"<p>{escape(question(asked))}</p>"]
        for problem, models in answered(asked).items():
            items = "".join(f"<li>{escape(text)}</li>" for text in models)
            told.append(f'<div class="answer"><p>{escape(problem)}</p><ul>{items}</ul></div>')
        told += [f'<p class="caveat">{escape(text)}</p>' for text in caveats(asked)]
        told.append(table(*table_rows(asked), caption=self.asked.texts["min"]))
        told += [f'<p class="quiet">{escape(note)}</p>' for note in asked.answer.notes]
        return "".join(told)

    def _laws(self) -> str:
        laws = self.asked.laws
        return table([*laws.answer.group, *LAW_COLUMNS], laws.answer.rows, self.asked.texts["fit"])

    def _claims(self) -> str:
        rows = [{name: row[name] for name in row if name != "kind"} for row in self.claims()]
        return table(list(rows[0]), rows, "The claims of Yang et al. (arXiv 2402.13934).")

    def _questions(self) -> Iterator[str]:
        sweeps = [word for name in self.launches.sweeps for word in ("--sweep", name)]
        for text in self.asked.texts.values():
            yield shlex.join(["sweepd", "query", text, *sweeps])

    def _curves(self, least: Asked) -> dict[str, Any]:
        """Returns, for each cell that has learning curves, a description of it in words and the
        curves of its trials."""
        found: dict[str, Any] = {}
        for row in least.answer.cells:
            trials = [
                [trial["id"], trial["seed"], *_rounded(self.asked.curves[trial["id"]])]
                for trial in self.asked.trials.get(row["cell"], ())
                if trial["id"] in self.asked.curves
            ]
            if trials:
                where = f"{row['model']} on {row['task']}, {least.where(row)}"
                told = f"{where}, {least.expression} = {row['value']:g}"
                found[str(row["cell"])] = {"told": told, "trials": trials}
        return found


def _rounded(curve: Any) -> tuple[list[int], list[float]]:
    return [step for step, _ in curve], [float(f"{score:.4g}") for _, score in curve]


def _shown(kind: str, figures: Mapping[str, Any], missing: Mapping[str, str]) -> str:
    shows = KINDS[kind].shows
    if kind in figures:
        return figure(kind, shows)
    why = missing[kind][:1].upper() + missing[kind][1:]
    return f'<p class="quiet">{escape(shows)} {escape(why)}.</p>'


def _tried(part: Callable[[], str]) -> str:
    """Returns a part of the page, or the reason why there is none."""
    try:
        return part()
    except SweepdError as error:
        return f'<p class="quiet">{escape(str(error))}</p>'


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")
