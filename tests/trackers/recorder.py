"""A tracker that remembers what it is told, for tests."""

from __future__ import annotations

from typing import Any

from sweepd.trackers.base import TrackedRun, Values


class Recorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, Any]] = []
        self.closed = 0

    def begin(self, run: TrackedRun) -> None:
        self.told.append(("begin", run.id, run.name))

    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        self.told.append(("log", run.id, (step, dict(values))))

    def end(self, run: TrackedRun, status: str, scores: Values) -> None:
        self.told.append(("end", run.id, (status, dict(scores))))

    def close(self) -> None:
        self.closed += 1
