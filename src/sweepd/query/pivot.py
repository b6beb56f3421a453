"""The rows of `min` as a table for people, with a row for each size and a column for each model.

    Least d with acc > 0.9 on lis (median of 3 seeds)
    n   L  linear  standard
    4  11  4 *     ≤ 4
    6  15  16 ?    16 (8 fails) ?

A value without a mark is settled. Every other value has a mark, and a legend says what marks mean.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sweepd.listing import GAP, cell
from sweepd.query.database import Answer
from sweepd.query.settled import UNCONFIRMED
from sweepd.query.summary import Summary

MARKS = {
    "≤": "nothing smaller was tried to its end",
    ">": "more than this grid has",
    "(fails)": "the next smaller value failed, here or at a smaller size",
    "none": "nothing that was tried passes",
    "~": "close call",
    "…": "longer training may lower it",
    "?": "not trained long enough to tell",
    "*": "passed as the best of several, not confirmed on fresh seeds",
    "¹": "at one learning rate",
    "!": "not monotone",
    "–": "not finished",
}
"""What each mark means, in the order of the legend."""
PROSE = 80
"""The length of lines of text, in characters, where no width is given."""

Tone = Literal["plain", "title", "settled", "open", "warning", "quiet"]
StyledLine = list[tuple[str, Tone]]
"""A line of text, cut into pieces. Each piece has the tone in which it is shown."""


@dataclass(frozen=True)
class PivotEntry:
    """What the table shows of one row of `min`: its value, and the marks of all that is uncertain
    about it."""

    text: str
    marks: tuple[str, ...]
    settled: bool

    @property
    def tone(self) -> Tone:
        if "!" in self.marks:
            return "warning"
        if "–" in self.marks:
            return "quiet"
        return "settled" if self.settled else "open"


def entry(row: Mapping[str, Any]) -> PivotEntry:
    """Returns a row of `min` in a few characters. One that is not settled has at least one mark."""
    value, fail, verdict = cell(row["value"]), cell(row["fail"]), row["verdict"]
    fails = f" ({fail} fails)" if fail else ""
    text, marks = value, []
    match verdict:
        case "at most":
            text, marks = f"≤ {value}", ["≤"]
        case "above":
            text, marks = (f"> {fail}", [">"]) if fail else ("none", ["none"])
        case "open":
            text, marks = f"–{fails}", ["–"]
        case "not monotone":
            text, marks = f"{value} !", ["!"]
        case "bracketed":
            text = f"{value}{fails}"
    if fails and fails in text:
        marks.append("(fails)")
    doubts = ["~"] if row["close"] else []
    match row["settled"]:
        case "moving" if verdict != "open":
            doubts.append("…")
        case "untested" if row["why"] == UNCONFIRMED:
            doubts.append("*")
        case "untested" if verdict in ("exact", "bracketed", "above"):
            doubts.append("?")
        case "yes" if row["rates"] == 1:
            doubts.append("¹")
    return PivotEntry(" ".join([text, *doubts]), (*marks, *doubts), row["settled"] == "yes")


def lines(answer: Answer, width: int | None) -> Iterator[StyledLine]:
    """Yields an answer of `min` as lines of at most `width` characters. There is a table for each
    task, with a legend of the marks that it uses. Models that do not fit side by side continue
    below in a table of their own. The last line says how much was run."""
    assert answer.summary is not None
    by_task: dict[str, list[Mapping[str, Any]]] = {}
    for row in answer.rows:
        by_task.setdefault(row["task"], []).append(row)
    for task, rows in by_task.items():
        yield from _task(answer.summary, answer.group, task, rows, width)
        yield []
    for line in _wrapped(_amount(answer.summary).split(), width, " "):
        yield [(line, "plain")]


def _task(
    about: Summary,
    group: Sequence[str],
    task: str,
    rows: Sequence[Mapping[str, Any]],
    width: int | None,
) -> Iterator[StyledLine]:
    title = f"Least {about.least} with {about.condition} on {task} ({about.seeds})"
    for line in _wrapped(title.split(), width, " "):
        yield [(line, "title")]
    extras = [name for name in group if name not in ("task", "model", "size", "L")]
    sizes = [name for name in ("size", "L") if name in group]
    sizes = [name for name in sizes if any(row[name] is not None for row in rows)]
    beside = [*extras, *sizes]
    size_field = about.size_fields.get(task, "size")
    heads = [size_field if name == "size" and size_field not in extras else name for name in beside]
    table: dict[tuple[Any, ...], dict[str, PivotEntry]] = {}
    for row in rows:
        table.setdefault(tuple(row[name] for name in beside), {})[row["model"]] = entry(row)
    keys = sorted(table, key=lambda key: [(value is not None, value) for value in key])
    models = list(dict.fromkeys(row["model"] for row in rows))
    stub = [
        _aligned([head, *(cell(key[i]) for key in keys)], right=_are_numbers(keys, i))
        for i, head in enumerate(heads)
    ]
    columns = [
        _aligned([model, *(_text(table[key], model) for key in keys)], right=False)
        for model in models
    ]
    tones = [[_tone(table[key], model) for key in keys] for model in models]
    for block in _side_by_side(stub, columns, width):
        yield _line(stub, columns, block, 0, ["quiet"] * len(columns))
        for i in range(len(keys)):
            yield _line(stub, columns, block, i + 1, [tone[i] for tone in tones])
    used = {mark for entries in table.values() for one in entries.values() for mark in one.marks}
    for line in _wrapped([f"{m} {means}" for m, means in MARKS.items() if m in used], width):
        yield [(line, "quiet")]


def _line(
    stub: Sequence[Sequence[str]],
    columns: Sequence[Sequence[str]],
    block: Iterable[int],
    i: int,
    tones: Sequence[Tone],
) -> StyledLine:
    """Returns line `i` of the columns of a block, beside the columns `stub` that stand in every
    block."""
    pieces: StyledLine = [(column[i], "quiet" if i == 0 else "plain") for column in stub]
    pieces += [(columns[at][i], tones[at]) for at in block]
    pieces[-1] = (pieces[-1][0].rstrip(), pieces[-1][1])
    spaced: StyledLine = []
    for piece in pieces:
        spaced += [(GAP, "plain"), piece]
    return spaced[1:]


def _side_by_side(
    stub: Sequence[Sequence[str]], columns: Sequence[Sequence[str]], width: int | None
) -> Iterator[list[int]]:
    """Yields the numbers of the columns in blocks that fit beside the stub. Each block holds at
    least one column."""
    beside = sum(len(column[0]) + len(GAP) for column in stub)
    block: list[int] = []
    used = beside
    for i, column in enumerate(columns):
        if block and width is not None and used + len(column[0]) > width:
            yield block
            block, used = [], beside
        block.append(i)
        used += len(column[0]) + len(GAP)
    yield block


def _amount(about: Summary) -> str:
    """Returns a sentence that says how much was run."""
    spent = f": {about.train_flops:.2g} training FLOPs" if about.train_flops else ""
    ran = f"{about.trials} trials ran, in {about.tried} of {about.cells} cells{spent}"
    return f"{ran}. --wide says more."


def _wrapped(parts: Iterable[str], width: int | None, gap: str = "   ") -> list[str]:
    """Returns the parts side by side, in lines that fit the width. A part that is too long by
    itself is broken into lines."""
    room = width or PROSE
    found: list[str] = []
    for part in parts:
        if found and len(found[-1]) + len(gap) + len(part) <= room:
            found[-1] += gap + part
        else:
            found += textwrap.wrap(part, room)
    return found


def _aligned(texts: Sequence[str], right: bool) -> list[str]:
    width = max(map(len, texts))
    return [text.rjust(width) if right else text.ljust(width) for text in texts]


def _are_numbers(keys: Iterable[tuple[Any, ...]], i: int) -> bool:
    return all(isinstance(key[i], int | float) or key[i] is None for key in keys)


def _text(entries: Mapping[str, PivotEntry], model: str) -> str:
    return entries[model].text if model in entries else ""


def _tone(entries: Mapping[str, PivotEntry], model: str) -> Tone:
    return entries[model].tone if model in entries else "plain"
