"""Figures as files. They are as wide as a column of a paper, their letters are sized in points, and
their fonts are within the file."""

from __future__ import annotations

import re
import struct

import pytest

from sweepd.figures.kinds import KINDS, Questions
from sweepd.figures.render import PIXELS_PER_INCH, drawn
from sweepd.figures.style import POINTS_PER_INCH, WIDTHS


def svg_of(asked: Questions, kind: str, columns: str) -> str:
    found = KINDS[kind]
    return drawn(found.draw(asked), found.shows, "svg", columns).decode()


@pytest.mark.parametrize(
    ("kind", "columns"), [("heatmap", "one"), ("min", "two"), ("curves", "one")]
)
def test_a_figure_is_as_wide_as_its_columns(kind: str, columns: str, asked: Questions) -> None:
    svg = svg_of(asked, kind, columns)
    found = re.search(r'width="([\d.]+)pt"', svg)
    assert found and float(found[1]) == pytest.approx(WIDTHS[columns], abs=4)
    sizes = {float(size) for size in re.findall(r'font-size="([\d.]+)px"', svg)}
    assert min(sizes) >= 6 and max(sizes) <= 9
    assert KINDS[kind].shows in svg  # for those who cannot see it


def test_pixels_are_dense_and_pdf_holds_its_letters(asked: Questions) -> None:
    kind = KINDS["frontier"]
    png = drawn(kind.draw(asked), kind.shows, "png", "one")
    width = struct.unpack(">I", png[16:20])[0]
    assert width == pytest.approx(WIDTHS["one"] * PIXELS_PER_INCH / POINTS_PER_INCH, abs=20)
    pdf = drawn(kind.draw(asked), kind.shows, "pdf", "one")
    assert pdf.startswith(b"%PDF") and b"/FontFile" in pdf
