"""Rows as text for people: an aligned table, which folds long texts and leaves out what does not
fit."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

Row = Mapping[str, Any]
SHORT_ID = 8
"""The number of characters of a trial's id that people see. Every command accepts ids of this
length."""
AT_MOST = "≤ "
GAP = "  "
PROSE = 80
"""The length of lines of text, in characters, where no width is given."""
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal obeys, or that move others: controls, ends of lines, and marks that
turn the direction of text."""
FOLDED = 18
"""The number of characters to which a column of text may shrink where a table is too wide."""


def listing(
    columns: Sequence[str], rows: Sequence[Row], width: int | None = None
) -> tuple[str, list[str]]:
    """Returns rows as an aligned text table, and the names of the columns that it leaves out.

    Numbers stand to the right, floats with four significant digits. Null is blank. Where a line
    would be longer than `width`, long texts are folded. If that is not enough, columns are left out
    from the right.
    """
    if not columns:
        return "", []
    body = {name: [cell(row.get(name)) for row in rows] for name in columns}
    widths = {name: max(map(len, [name, *texts])) for name, texts in body.items()}
    numeric = {}
    for name in columns:
        known = [row.get(name) for row in rows if row.get(name) is not None]
        numeric[name] = bool(known) and all(map(is_number, known))
    if width is not None:
        # As many columns as fit, from the left, where those of text may become narrower. Then the
        # widest of these give way, one character at a time. The first column stays in any case.
        least = {
            name: room if numeric[name] else min(room, max(len(name), FOLDED))
            for name, room in widths.items()
        }
        while len(least) > 1 and sum(least.values()) + len(GAP) * (len(least) - 1) > width:
            least.popitem()
        widths = {name: widths[name] for name in least}
        while sum(widths.values()) + len(GAP) * (len(least) - 1) > width and widths != least:
            widest = max(widths, key=lambda name: (widths[name] > least[name], widths[name]))
            widths[widest] -= 1

    def line(texts: Mapping[str, str]) -> str:
        placed = (texts[n].rjust(w) if numeric[n] else texts[n].ljust(w) for n, w in widths.items())
        return GAP.join(placed).rstrip()

    lines = [line({name: name for name in widths})]
    for i in range(len(rows)):
        folded = {}
        for name, room in widths.items():
            folded[name] = [text := body[name][i]]
            if len(text) > room:
                folded[name] = textwrap.wrap(text, room, break_on_hyphens=False) or [""]
        for j in range(max(map(len, folded.values()))):
            lines.append(line({name: "".join(parts[j : j + 1]) for name, parts in folded.items()}))
    return "\n".join(lines), [name for name in columns if name not in widths]


def shown(text: str, kept: str = "") -> str:
    """Returns a text with each character that a terminal would obey as its escape, such as `\\x1b`.
    Those in `kept` stay."""
    return _UNSEEN.sub(
        lambda m: m[0] if m[0] in kept else m[0].encode("unicode_escape").decode(), text
    )


def in_lines(parts: Iterable[str], width: int | None, gap: str = "   ") -> list[str]:
    """Returns the parts side by side, in lines that fit the width. A part that is too long by
    itself is broken into lines."""
    room = PROSE if width is None else max(1, width)
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(gap) + len(part) <= room:
            lines[-1] += gap + part
        else:
            lines += textwrap.wrap(part, room)
    return lines


def duration(seconds: float) -> str:
    """Returns a time span as text for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    for unit, length in (("min", 60), ("h", 3600), ("days", 86400)):
        if seconds < 90 * length:
            return f"{seconds / length:.{length > 60:d}f} {unit}"
    return f"{seconds / (365 * 86400):.1f} years"


def at_most(value: float) -> str:
    """Returns a number that is known from above only, as tables show it."""
    return f"{AT_MOST}{cell(value)}"


def is_number(value: object) -> bool:
    if isinstance(value, str):
        return value.startswith(AT_MOST)
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}"
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds")
        case _:
            return shown(str(value))
