"""What a process prints, line by line, and the JSON rows that stand in a line."""

from __future__ import annotations

import json
import queue
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import IO, Any, cast

from sweepd.errors import UserError

MOST_WAITING = 10_000
"""The most lines that wait to be read. A program that prints faster than that waits."""
READ_BYTES = 2**16
MOST_SHOWN = 200
"""The most characters of a line that a message shows."""
LINE_END = re.compile(rb"[\r\n]")
CONTROLS = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\].*?(?:\x07|\x1b\\)|[@-Z\\^_])")
"""A pattern of what sets colours and moves the cursor on a terminal."""
NOT_FINITE = re.compile(r":\s*[-+]?(nan|inf)\b", re.IGNORECASE)
"""A pattern of the numbers of C that JSON lacks."""
LIKE_A_ROW = re.compile(r'\{\s*(?=").*"step"\s*:')
"""A pattern of how an object with a `step` begins."""
LIKE_PYTHON = re.compile(r"\{\s*(?=').*'step'\s*:")
"""A pattern of how such an object begins as Python prints it."""


@dataclass(frozen=True)
class Line:
    """A part of an output that ended with a line feed or a carriage return. source: the name of
    the output. text: its text, in which rows may stand, without its end. logged: the text for the
    log, or None for what the next part writes over, as a progress bar does."""

    source: str
    text: str
    logged: str | None


class Output:
    """The outputs of a process, each under a name, which threads read as they come. A line may be
    as long as memory allows."""

    def __init__(self, streams: Mapping[str, IO[bytes]]) -> None:
        self.heard = time.monotonic()
        """When anything was printed last, if only a part of a line."""
        self.open = len(streams)
        """How many of the outputs have not ended, or have lines that nobody has taken yet."""
        self._lines: queue.Queue[Line | None] = queue.Queue(MOST_WAITING)
        for source, stream in streams.items():
            threading.Thread(target=self._read, args=(source, stream), daemon=True).start()

    @property
    def empty(self) -> bool:
        """Whether no line waits to be taken."""
        return self._lines.empty()

    def next(self, seconds: float) -> Line | None:
        """Returns the next line, or None where none comes in time or an output ended."""
        if not self.open:
            return None
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return None
        self.open -= line is None
        return line

    def _read(self, source: str, stream: IO[bytes]) -> None:
        parts: list[bytes] = []
        below = ""
        """What stands on the line of the terminal and may be written over."""

        def end(feed: bool) -> None:
            nonlocal below
            text = b"".join(parts).decode(errors="replace")
            parts.clear()
            below = text or below  # `\r\n` ends a line, too
            self._lines.put(Line(source, text, below if feed else None))
            below = "" if feed else below

        buffered = cast(BufferedReader, stream)
        while chunk := buffered.read1(READ_BYTES):
            self.heard = time.monotonic()
            start = 0
            for found in LINE_END.finditer(chunk):
                parts.append(chunk[start : found.start()])
                start = found.end()
                end(found.group() == b"\n")
            parts.append(chunk[start:])
        if any(parts) or below:
            end(feed=True)
        self._lines.put(None)


def json_rows(text: str) -> Iterator[dict[str, Any]]:
    """Yields the JSON objects with a `step` that stand anywhere in a line, each as a mapping. `nan`
    and `inf`, as C prints them, are NaN. Raises UserError for what begins as a row and is no JSON,
    and for one in which a key stands twice."""
    if '"step"' not in text and "\x1b" not in text:
        return
    text = CONTROLS.sub("", text)
    at = 0
    while (at := text.find("{", at)) >= 0:
        try:
            value, end = _decoded(text, at)
        except (ValueError, RecursionError) as error:
            if LIKE_A_ROW.match(text, at):  # such as the rows of two processes in one line
                raise UserError(
                    f"the row {text[at : at + MOST_SHOWN]} cannot be taken: {error}"
                ) from None
            at += 1
        else:
            at = end
            if "step" in value:
                yield value


def _decoded(text: str, at: int) -> tuple[dict[str, Any], int]:
    """Returns the object that begins at a place of a text, and where it ends."""
    try:
        return DECODER.raw_decode(text, at)
    except Twice:
        raise
    except ValueError:
        if not (LIKE_A_ROW.match(text, at) and NOT_FINITE.search(text, at)):
            raise
    rest = NOT_FINITE.sub(lambda number: ": NaN".ljust(len(number.group())), text[at:])
    value, end = DECODER.raw_decode(rest)
    return value, at + end


class Twice(ValueError):
    """A key of an object stands twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object with these keys and values. Raises Twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise Twice(f"{next(k for k in keys if keys.count(k) > 1)} stands twice in it")
    return value


DECODER = json.JSONDecoder(object_pairs_hook=_once)
