"""One HTML page that needs nothing else: no network, no other file.

What trials have written (errors, names, values of axes) is shown and can never run: all of it is
escaped, data is embedded as JSON that no script tag can end, and the page's Content Security Policy
lets only the scripts and the style run that it was made with, by their hashes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from importlib.metadata import version
from importlib.resources import files
from string import Template
from typing import Any

from sweepd.cache import keep, recall
from sweepd.errors import EnvironmentFailure

NUMBER, LONG = ' class="number"', ' class="long"'
ENOUGH_FOR_LONG = 24
"""Characters from which on a cell of a table gets more room."""
BUNDLE = """
import sys, vl_convert
sys.stdout.reconfigure(encoding="utf-8")
sys.stdout.write(vl_convert.javascript_bundle())
"""
HIDDEN_IN_SCRIPTS = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def page(title: str, body: str, data: Mapping[str, Any]) -> bytes:
    """A page with this body, which is HTML. Where an element has `data-figure`, the figure of
    that name in `data["figures"]` is drawn.
    """
    style, script = _asset("page.css"), _asset("page.js")
    scripts = [_vega(), script]
    return (
        Template(_asset("page.html"))
        .substitute(
            title=escape(title),
            scripts=" ".join(map(_hash, scripts)),
            styles=_hash(style),
            style=style,
            body=body,
            data=embedded(data),
            vega=scripts[0],
            script=script,
        )
        .encode()
    )


def embedded(data: Mapping[str, Any]) -> str:
    """Data as JSON within a script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(HIDDEN_IN_SCRIPTS)


def figure(name: str, title: str, caption: str = "") -> str:
    """Where a figure is drawn."""
    label = escape(title)
    return (
        f'<figure id="{escape(name)}"><div class="chart" data-figure="{escape(name)}" '
        f'role="img" aria-label="{label}"></div>'
        f"<figcaption>{label} {escape(caption)}</figcaption></figure>"
    )


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """A table of plain values; columns of numbers stand to the right."""
    numeric = {
        name
        for name in columns
        if all(_is_number(row[name]) for row in rows if row[name] is not None)
    }
    head = "".join(
        f'<th scope="col"{NUMBER if name in numeric else ""}>{escape(name)}</th>'
        for name in columns
    )
    body = "".join("<tr>" + "".join(_cell(row[name]) for name in columns) + "</tr>" for row in rows)
    return (
        f'<div class="wide" role="region" aria-label="{escape(caption)}" tabindex="0"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def commands(lines: Sequence[str]) -> str:
    """Commands to copy."""
    return f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if _is_number(value):
        return (
            f"<td{NUMBER}>{value:.4g}</td>"
            if isinstance(value, float)
            else f"<td{NUMBER}>{value}</td>"
        )
    text = "yes" if value is True else "no" if value is False else str(value)
    return f"<td{LONG if len(text) > ENOUGH_FOR_LONG else ''}>{escape(text)}</td>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _hash(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (files("sweepd.figures") / name).read_text(encoding="utf-8")


@cache
def prepared() -> str | subprocess.Popen[str]:
    """Vega, Vega-Lite and Vega-Embed in one script, as it was kept by an earlier process, or the
    process that makes it: that takes seconds, and vl_convert lets nothing else of its own process
    run meanwhile."""
    if kept := recall(_kept_as()):
        return kept.decode()
    return subprocess.Popen(
        [sys.executable, "-c", BUNDLE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


@cache
def _vega() -> str:
    found = prepared()
    if isinstance(found, str):
        return found
    script, error = found.communicate()
    if found.returncode or not script:
        raise EnvironmentFailure(f"vl-convert cannot make the scripts of the page: {error}")
    script = script.replace("</script", "<\\/script")
    keep(_kept_as(), script.encode())
    return script


def _kept_as() -> str:
    """Where the script is kept, which depends on vl-convert alone."""
    return f"page-scripts/vl-convert-{version('vl-convert-python')}"
