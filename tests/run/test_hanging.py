"""A trial that makes no step. Before its worker is killed, it says in which line it stands."""

from __future__ import annotations

import threading
from pathlib import Path

from sweepd.run.hanging import SHARE, stepping

ENOUGH = 60.0
"""Seconds after which nothing will come any more."""


def test_it_says_where_the_thread_stands() -> None:
    told: list[str] = []
    came = threading.Event()

    def note(line: str) -> None:
        told.append(line)
        came.set()

    with stepping(0.01, note):
        assert came.wait(ENOUGH)  # the line in which it stands
    lines = Path(__file__).read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if "the line in which" in text)
    assert told == [f"no step for {SHARE * 0.01:g} s; it stands at {__file__}:{line}"]


def test_what_goes_on_is_not_told_of() -> None:
    told: list[str] = []
    for seconds in (ENOUGH, 0.0):
        with stepping(seconds, told.append):
            pass
    assert not told
