"""Hands on to a tracker what happens, without waiting for it.

A tracker may hang, fail or fill its disk, and the sweep goes on. Each tracker is called from a
thread of its own. When a call fails, the person is told once, and this tracker is left alone from
then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Full, Queue

from sweepd.trackers.base import TrackedRun, Tracker, Values

MOST_WAITING = 10_000
"""Calls that may wait. A tracker that falls further behind loses what comes next."""
PATIENCE_SECONDS = 60.0
"""How long the end of a sweep waits for a tracker."""

Call = Callable[[], None]


class Forwarder:
    """A tracker that never fails and never makes its caller wait. Only `close` waits, for at most
    PATIENCE_SECONDS."""

    def __init__(self, name: str, tracker: Tracker, note: Callable[[str], None]) -> None:
        self.name, self.tracker, self.note = name, tracker, note
        self.waiting: Queue[Call | None] = Queue(MOST_WAITING)
        self.broken = self.behind = False
        self.thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self.thread.start()

    def begin(self, run: TrackedRun) -> None:
        self._soon(lambda: self.tracker.begin(run))

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        self._soon(lambda: self.tracker.log(run, step, values))

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        self._soon(lambda: self.tracker.end(run, status, scores))

    def close(self) -> None:
        self._soon(self.tracker.close)
        self._soon(None)
        self.thread.join(PATIENCE_SECONDS)
        if self.thread.is_alive():
            self.note(f"{self.name} has not taken everything after {PATIENCE_SECONDS:g} s: left")

    def _soon(self, call: Call | None) -> None:
        if self.broken:
            return
        try:
            self.waiting.put_nowait(call)
        except Full:
            if not self.behind:
                self.behind = True
                self.note(f"{self.name} is too slow: it does not get everything")

    def _work(self) -> None:
        while (call := self.waiting.get()) is not None:
            try:
                call()
            except Exception as error:
                self.broken = True
                self.note(f"{self.name} failed and gets no more: {type(error).__name__}: {error}")
                return
