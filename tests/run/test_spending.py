"""What a launch may take is kept, here the hours of one on this machine. `tests/e2e/test_nodes.py`
has the dollars of a cluster. Covers `run/spending.py`."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sweepd.grid.placement import Nodes, Placement, Resources
from sweepd.run import spending


class Silent:
    def __init__(self) -> None:
        self.told: list[tuple[float, float]] = []

    def spent(self, dollars: float, an_hour: float) -> None:
        self.told.append((dollars, an_hour))


def test_nodes_cost_what_their_types_say_from_when_they_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node of an unknown type costs what the dearest of its size does, and one whose size is not
    known either what the dearest of all does."""
    types = {"head": Nodes(1, 0, price=1), "a": Nodes(4, 4, 1, 10), "b": Nodes(4, 4, 1, 20)}
    nodes: list[tuple[str, dict[str, float]]] = [("head", {}), ("a", {"CPU": 4, "GPU": 1})]
    monkeypatch.setattr(spending, "nodes_and_types", lambda: nodes)
    monkeypatch.setattr(spending, "LOOK_SECONDS", 0.01)
    listener: Any = Silent()
    place = Placement(Resources(), "there", types, max_dollars=31 / 3600 / 10)
    stopping, notes = threading.Event(), list[str]()
    with spending.within_limits(place, listener, stopping, notes.append):
        assert not stopping.wait(0.05)
        nodes += [("", {"CPU": 4, "GPU": 1})]
        assert stopping.wait(30)
    [note] = notes
    assert note.startswith("max_dollars: ") and note.endswith("are spent: saving what runs")
    assert {rate for _, rate in listener.told} == {11, 31}
    assert spending._an_hour({**types, "c": Nodes(1, 9, price=50)}) == 31
    nodes += [("starting", {})]
    assert spending._an_hour(types) == 32, "it has no core yet, as the head"


def test_the_hours_of_a_launch_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "LOOK_SECONDS", 0.01)
    listener: Any = Silent()
    stopping, notes = threading.Event(), list[str]()
    place = Placement(Resources(), max_hours=0.05 / 3600)
    with spending.within_limits(place, listener, stopping, notes.append):
        assert stopping.wait(30)
    assert "max_hours: " in notes[0] and listener.told == []
