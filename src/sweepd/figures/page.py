"""One HTML page that needs no network and no other file.

The page shows what trials have written (errors, names, values of axes), but this can never run. All
of it is escaped. Data is embedded as JSON that no script tag can end. The page's Content Security
Policy allows only the scripts and the style that the page was made with, by their hashes.
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
"""A cell of a table with more characters than this gets more room."""
BUNDLE = """
import sys, vl_convert
sys.stdout.reconfigure(encoding="utf-8")
sys.stdout.write(vl_convert.javascript_bundle())
"""
HIDDEN_IN_SCRIPTS = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def page(title: str, body: str, data: Mapping[str, Any]) -> bytes:
    """Returns a page with this body, which is HTML, as UTF-8. Where an element has `data-figure`,
    the page draws the figure of that name in `data["figures"]`.
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
    """Returns data as JSON that can stand in a script element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).translate(HIDDEN_IN_SCRIPTS)


def figure(name: str, title: str, caption: str = "") -> str:
    """Returns the HTML element in which a figure is drawn."""
    label = escape(title)
    return (
        f'<figure id="{escape(name)}"><div class="chart" data-figure="{escape(name)}" '
        f'role="img" aria-label="{label}"></div>'
        f"<figcaption>{label} {escape(caption)}</figcaption></figure>"
    )


def table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], caption: str) -> str:
    """Returns an HTML table of plain values. Numbers are aligned to the right."""
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
    """Returns HTML with commands that a reader can copy."""
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
    """Returns Vega, Vega-Lite and Vega-Embed in one script, if an earlier process has kept it. Else
    starts a process that makes the script, and returns that process. Making it takes seconds, and
    vl_convert lets nothing else run in the process that calls it."""
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
    """Returns the name under which the script is kept. It depends only on vl-convert's version."""
    return f"page-scripts/vl-convert-{version('vl-convert-python')}"
