"""A trial that makes no step. Before its worker is killed, it says in which line it stands."""

from __future__ import annotations

import multiprocessing
import threading
import time
from pathlib import Path

import pytest

from sweepd.run.hanging import SHARE, stepping, watched

ENOUGH = 60.0
"""Seconds after which nothing will come any more."""


def test_it_says_where_the_thread_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    stands, came = threading.Event(), threading.Event()

    class Timer(threading.Timer):
        """Comes no sooner than the thread stands where it will be seen, however busy all are."""

        def run(self) -> None:
            stands.wait(ENOUGH)
            super().run()

    def note(line: str) -> None:
        told.append(line)
        came.set()

    monkeypatch.setattr(threading, "Timer", Timer)
    with stepping(0.01, note):
        stands.set()  # here it is seen
        assert came.wait(ENOUGH)  # here it is seen
    lines = Path(__file__).read_text().splitlines()
    here = [number for number, line in enumerate(lines, 1) if line.endswith("# here it is seen")]
    told_then = [f"no step for {SHARE * 0.01:g} s; it stands at {__file__}:{at}" for at in here]
    [line] = told
    assert line in told_then and len(told_then) == 2


def test_it_says_what_processes_by_fork_may_do() -> None:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(ENOUGH,))
    told: list[str] = []
    child.start()
    try:
        with watched(0.01, told.append):
            until = time.monotonic() + ENOUGH
            while not told and time.monotonic() < until:
                time.sleep(0.01)
    finally:
        child.kill()
        child.join()
    assert "get_context('spawn')" in told[0]


def test_what_goes_on_is_not_told_of() -> None:
    told: list[str] = []
    for seconds in (ENOUGH, 0.0):
        with stepping(seconds, told.append):
            pass
    assert not told
