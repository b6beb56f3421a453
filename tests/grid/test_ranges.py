"""A range as an axis: its values, what stays when it gets more points, what is refused."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.grid.axes import SCALES, range_values
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.yamlfile import GridError

GRID = """\
task: {name: lis, n: 4}
model: {name: standard, d: {from: 8, to: 64, points: 4, scale: log_integers}}
train: {lr: {base: {from: 1.0e-4, to: 0.1, points: 4, scale: log}}}
"""


def test_ranges_of_fields_and_rules_multiply() -> None:
    grid = parse_grid(GRID, "grid.yaml", [], Path())
    cells = {(t.values.model["d"], t.values.train.lr.base) for t in plan(grid).trials}  # type: ignore[union-attr]
    assert cells == {(d, lr) for d in (8, 16, 32, 64) for lr in (0.0001, 0.001, 0.01, 0.1)}
    assert grid.document.ranges["model", "d"] == [8, 16, 32, 64]
    assert "from" not in grid.resolved_text()


@given(st.sampled_from(SCALES), st.integers(1, 50), st.integers(1000, 10**6), st.integers(2, 7))
def test_half_the_distance_keeps_the_values(scale: str, low: int, more: int, points: int) -> None:
    written: dict[str, Any] = {"from": low, "to": low + more, "points": points, "scale": scale}
    values = range_values(written)
    assert (values[0], values[-1]) == (low, low + more) and values == sorted({*values})
    if not scale.startswith("log_"):
        assert {*values} <= {*range_values({**written, "points": 2 * points - 1})}


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("{from: 8, to: 4, points: 3}", r":2: model.d.to: .*above from"),
        ("{from: 0, to: 4, points: 3, scale: log}", r":2: model.d.from: .*above 0"),
        ("{from: 1, to: 4, points: 9, scale: integers}", r":2: model.d.points: .*fewer"),
        ("{from: 1, to: 4, points: 1}", r":2: model.d.points"),
        ("{from: 1, to: 4}", r":2: model.d: points"),
        ("{from: a, to: 4, points: 2}", r":2: model.d.from"),
        ("{from: 1, to: 4, points: 2, scale: cube}", r":2: model.d.scale"),
        ("{from: 1, to: 4, points: 2, step: 1}", r":2: model.d.step"),
        ("{from: 1, to: 1.0e+9, points: 200000}", "more than 100,000"),
    ],
)
def test_what_is_no_range_is_refused(written: str, place: str) -> None:
    text = f"task: {{name: lis, n: 4}}\nmodel: {{name: standard, d: {written}}}\n"
    with pytest.raises(GridError, match=place):
        parse_grid(text, "grid.yaml", [], Path())
