"""Figures of a training loop of the user's own. They show its metric, and take from the sweep what
is minimised. They are drawn against the size, since a loop has no L."""

from __future__ import annotations

from typing import Any

import pytest
from fake_store import FakeStore, now, planned
from looped import CELLS, store

from sweepd.errors import UserError
from sweepd.figures.kinds import KINDS, Questions
from sweepd.figures.style import WIDTHS, Look
from sweepd.query.database import connect

LOOK = Look(WIDTHS["two"])


def curved() -> FakeStore:
    made = store(CELLS, minimized="hidden")
    made.steps = [
        {"id": row["id"], "attempt": 1000, "step": step, "f1": step / 20, "seconds": 1.0}
        for row in made.plan
        for step in (5, 10)
    ]
    return made


def shown(kind: str, source: FakeStore, **more: Any) -> list[dict[str, Any]]:
    drawing = KINDS[kind].draw(Questions(connect(source, code=now), **more))(LOOK)
    drawing.chart.to_dict()  # altair validates
    return [dict(row) for rows in drawing.data.values() for row in rows]


def test_what_is_minimised_and_against_what() -> None:
    asked = Questions(connect(curved(), code=now))
    assert asked.texts == {"min": "min hidden", "fit": "fit hidden ~ size"}
    assert asked.least.score == "f1"


@pytest.mark.parametrize("kind", ["heatmap", "min", "settle", "curves"])
def test_each_kind_shows_them(kind: str) -> None:
    assert shown(kind, curved())
    drawing = KINDS[kind].draw(Questions(connect(curved(), code=now)))(LOOK)
    assert ("hidden" if kind == "min" else "f1") in str(drawing.chart.to_dict())


def test_a_frontier_of_its_metric() -> None:
    assert shown("frontier", curved(), cost="hidden")


def test_sweeps_that_minimise_different_things() -> None:
    made = curved()
    made.add_sweep("t", [planned(8, 16)])
    made.end(planned(8, 16), "completed", 0.95)
    told = r"the least of hidden \(s\), d \(t\): name it \(--of\), or name one sweep"
    with pytest.raises(UserError, match=told):
        shown("heatmap", made)
    assert shown("heatmap", made, of="d", where="acc > 0.9")
    made.infos["t"]["minimized"] = ""
    with pytest.raises(UserError, match="sweep t has no d, no staircase, and not just one number"):
        shown("heatmap", made)
