"""Makes files of figures: in vector and pixel formats, at their width on paper, and as HTML pages
that need no network and no other file.

A page shows what trials have written (errors, names, values of axes), but this can never run. All
of it is escaped. Data is embedded as JSON that no script tag can end. The page's Content Security
Policy allows only the scripts and the style that the page was made with, by their hashes.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import vl_convert

from sweepd.cache import keep, recall
from sweepd.errors import UserError
from sweepd.figures.panels import Draw
from sweepd.figures.style import WIDTHS, Look, configuration
from sweepd.listing import cell, is_number

FORMS = ("svg", "png", "pdf", "html")
PIXELS_PER_INCH = 300
ON_SCREEN = Look(WIDTHS["two"], ink="currentColor", paper="transparent")
"""The look of a figure in a page. The page enlarges figures to its own width, and has a light and a
dark form."""
_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')
ENOUGH_FOR_LONG = 24
"""A cell of a table with more characters than this gets more room."""
HIDDEN_IN_SCRIPTS = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


# Files of one figure


def form_of(out: Path) -> str:
    """Returns which of FORMS a file of that name has. Raises UserError if it is none of them."""
    form = out.suffix.removeprefix(".")
    if form not in FORMS:
        raise UserError(f"{out}: end it in .svg, .png, .pdf or .html")
    return form


def drawn(draw: Draw, title: str, form: str, columns: str) -> bytes:
    """Returns the content of a file of one of FORMS with a figure. The figure is as wide as WIDTHS
    says for `columns`. In an HTML page it takes the page's width."""
    if form == "html":
        shown = {"figures": {"figure": specified(draw, ON_SCREEN, title)}}
        return page(title, figure("figure", title), shown)
    # How much room the axes take depends on their text. So the figure's width is measured, and the
    # panels get the room that is left.
    look = Look(WIDTHS[columns])
    for _ in range(3):
        specification = specified(draw, look, title)
        svg = vl_convert.vegalite_to_svg(specification)
        size = _SIZE.search(svg)
        assert size is not None
        excess = float(size[1]) - look.width
        if abs(excess) <= 1:
            break
        look = replace(look, aside=look.aside + excess)
    if form == "svg":
        points = rf'role="img" aria-label="{escape(title)}" width="\1pt" height="\2pt"'
        return _SIZE.sub(points, svg, count=1).encode()
    if form == "pdf":
        return vl_convert.vegalite_to_pdf(specification)
    return vl_convert.vegalite_to_png(specification, ppi=PIXELS_PER_INCH)


def specified(draw: Draw, look: Look, title: str) -> dict[str, Any]:
    """Returns the Vega-Lite specification of a figure that is about as wide as `look` says. The
    title is a description for readers who cannot see the figure. It is not drawn, since a figure's
    caption stands in the paper."""
    drawing = draw(look)
    specification: dict[str, Any] = drawing.chart.to_dict(validate=False)
    return specification | {
        "datasets": drawing.data,
        "background": look.paper,
        "padding": 2,
        "description": title,
        "config": configuration(look),
    }


# Pages


def page(title: str, body: str, data: Mapping[str, Any]) -> bytes:
    """Returns a page with this body, which is HTML, as UTF-8. Where an element has `data-figure`,
    the page draws the figure of that name in `data["figures"]`."""
    html, style, script = (
        (files("sweepd.figures") / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", "page.js")
    )

    def hashed(content: str) -> str:
        return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"

    scripts = [_vega(), script]
    filled = Template(html).substitute(
        title=escape(title),
        scripts=" ".join(map(hashed, scripts)),
        styles=hashed(style),
        style=style,
        body=body,
        data=embedded(data),
        vega=scripts[0],
        script=script,
    )
    return filled.encode()


@cache
def _vega() -> str:
    """Returns Vega, Vega-Lite and Vega-Embed in one script. It takes seconds to make, and depends
    only on vl-convert's version."""
    cached_as = f"page-scripts/vl-convert-{version('vl-convert-python')}"
    if (vega := recall(cached_as)) is None:
        bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]
        vega = bundle.replace("</script", "<\\/script").encode()
        keep(cached_as, vega)
    return vega.decode()


def embedded(data: Mapping[str, Any]) -> str:
    """Returns data as JSON that can stand in a script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(HIDDEN_IN_SCRIPTS)


def figure(name: str, title: str) -> str:
    """Returns the HTML element in which a figure is drawn."""
    return (
        f'<figure id="{escape(name)}"><div class="chart" data-figure="{escape(name)}" '
        f'role="img" aria-label="{escape(title)}"></div>'
        f"<figcaption>{escape(title)}</figcaption></figure>"
    )


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Returns an HTML table of plain values. Numbers are aligned to the right."""

    def shown(value: object) -> str:
        text = cell(value)
        kind = "number" if is_number(value) else "long" if len(text) > ENOUGH_FOR_LONG else ""
        return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"

    head = ""
    for name in columns:
        numeric = all(is_number(row[name]) for row in rows if row[name] is not None)
        attribute = ' class="number"' if numeric else ""
        head += f'<th scope="col"{attribute}>{escape(name)}</th>'
    body = "".join("<tr>" + "".join(shown(row[name]) for name in columns) + "</tr>" for row in rows)
    return (
        f'<div class="wide" role="region" aria-label="{escape(caption)}" tabindex="0"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def commands(lines: Sequence[str]) -> str:
    """Returns HTML with commands that a reader can copy."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"
