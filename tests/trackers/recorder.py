"""A tracker that remembers what it is told, for tests."""

from __future__ import annotations

from typing import Any

from sweepd.trackers.base import Run, Values


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, Any]] = []
        self.closed = 0

    def begin(self, run: Run) -> None:
        self.told.append(("begin", run.id, run.name))

    def log(self, run: Run, step: int, values: Values) -> None:
        self.told.append(("log", run.id, (step, dict(values))))

    def end(self, run: Run, status: str, scores: Values) -> None:
        self.told.append(("end", run.id, (status, dict(scores))))

    def close(self) -> None:
        self.closed += 1
