"""Makes files of figures, in vector and pixel formats, at their width on paper."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

from sweepd.errors import UserError
from sweepd.figures.page import figure, page
from sweepd.figures.panels import Draw
from sweepd.figures.style import WIDTHS, Look, themed

FORMS = ("svg", "png", "pdf", "html")
PIXELS_PER_INCH = 300
ON_SCREEN = Look(WIDTHS["two"], ink="currentColor", paper="transparent")
"""The look of a figure in a page. The page enlarges figures to its own width, and has a light and a
dark form."""
_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')


def form_of(out: Path) -> str:
    """Returns which of FORMS a file of that name has. Raises UserError if it is none of them."""
    form = out.suffix.removeprefix(".")
    if form not in FORMS:
        raise UserError(f"{out}: end it in .svg, .png, .pdf or .html")
    return form


def drawn(draw: Draw, title: str, form: str, columns: str) -> bytes:
    """Returns the content of a file of one of FORMS with a figure. The figure is as wide as WIDTHS
    says for `columns`. In an HTML page it takes the page's width."""
    look = Look(WIDTHS[columns])
    if form == "html":
        shown = {"figures": {"figure": specified(draw, ON_SCREEN, title)}}
        return page(title, figure("figure", title), shown)
    return rendered(fitted(draw, look, title), form)


def fitted(draw: Draw, look: Look, title: str) -> dict[str, Any]:
    """Returns the specification of a figure that is as wide as `look` says.

    How much room the axes take depends on their text. So the figure's width is measured, and the
    panels get the room that is left.
    """
    for _ in range(2):
        specification = specified(draw, look, title)
        found = _SIZE.search(_svg(specification))
        assert found is not None
        excess = float(found[1]) - look.width
        if abs(excess) <= 1:
            return specification
        look = look.narrower(excess)
    return specified(draw, look, title)


def specified(draw: Draw, look: Look, title: str) -> dict[str, Any]:
    """Returns the specification of a figure that is about as wide as `look` says."""
    drawing = draw(look)
    return themed(drawing.chart, drawing.data, look, title)


def rendered(specification: dict[str, Any], form: str) -> bytes:
    """Returns a figure as `svg`, `pdf` or `png`. The specification's lengths are points."""
    import vl_convert

    match form:
        case "svg":
            label = escape(specification["description"])
            told = rf'role="img" aria-label="{label}" width="\1pt" height="\2pt"'
            return _SIZE.sub(told, _svg(specification), count=1).encode()
        case "pdf":
            return vl_convert.vegalite_to_pdf(specification)
    assert form == "png", form
    return vl_convert.vegalite_to_png(specification, ppi=PIXELS_PER_INCH)


def _svg(specification: dict[str, Any]) -> str:
    import vl_convert

    return vl_convert.vegalite_to_svg(specification)
