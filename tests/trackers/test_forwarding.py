"""A tracker never harms a sweep. A tracker that fails is told nothing more. One that hangs or is
slow delays nobody. The user is told once."""

from __future__ import annotations

import threading

import pytest
from trackers.recorder import Recorder

from sweepd.trackers import base
from sweepd.trackers.base import Forwarder, TrackedRun, Values

RUN = TrackedRun("ab", "lis standard", "s", {"d": 8})


def told(tracker: Recorder, notes: list[str], calls: int = 3) -> None:
    forwarder = Forwarder("x", tracker, notes.append)
    forwarder.begin(RUN)
    for step in range(calls):
        forwarder.log(RUN, step, {"loss": 1.0})
    forwarder.end(RUN, "completed", {"acc": 1.0})
    forwarder.close()


def test_everything_arrives_in_order() -> None:
    recorder, notes = Recorder(), list[str]()
    told(recorder, notes)
    assert [what for what, *_ in recorder.told] == ["begin", "log", "log", "log", "end"]
    assert recorder.closed == 1 and notes == []


class Failing(Recorder):
    def log(self, run: TrackedRun, step: int, values: Values) -> None:
        super().log(run, step, values)
        raise ConnectionError("no network")


def test_one_that_fails_is_left_alone() -> None:
    failing, notes = Failing(), list[str]()
    told(failing, notes)
    assert [what for what, *_ in failing.told] == ["begin", "log"]
    assert notes == ["x failed and gets no more: ConnectionError: no network"]


class Hanging(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def begin(self, run: TrackedRun) -> None:
        self.go.wait()


def test_one_that_hangs_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(base, "MOST_WAITING", 4)
    hanging, notes = Hanging(), list[str]()
    told(hanging, notes, calls=100)
    assert notes[0] == "x is too slow: it does not get everything"
    assert notes[-1].startswith("x has not taken everything")
    hanging.go.set()
