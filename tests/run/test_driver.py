"""What a driver locks and looks after while its sweep runs, without Ray, and what the launch may
take. `tests/e2e/test_nodes.py` has the dollars of a cluster."""

import subprocess
import sys
import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from simulated import simulated
from waiting import wait_until

from sweepd.grid.placement import PAID_SECONDS, Nodes, Placement, Resources
from sweepd.grid.trials import Trial
from sweepd.run import driver
from sweepd.store.store import Store, SweepInfo
from sweepd.trial.attempt import ledger_columns


def test_files_are_compacted_while_a_sweep_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(driver, "COMPACTION_SECONDS", 0.0)
    monkeypatch.setattr(driver, "FILES_WHILE_RUNNING", 10)
    store, stopping, plan = Store.create(str(tmp_path)), threading.Event(), simulated()
    with driver.driving(plan, store, stopping, print):
        for trial in plan.trials[:25]:
            store.write_metrics([{"id": trial.id, "attempt": 1000, "step": 1}])
            store.write_trials([{**ledger_columns(trial, 1000, "s"), "status": "completed"}])
        both = {"trials", "metrics"}
        wait_until(lambda: {path.parts[-2] for path in tmp_path.glob("*/compacted-*")} == both, 30)
    assert store.read_trials().table.num_rows == store.read_metrics().table.num_rows == 25
    assert not stopping.is_set()


HELD = """
import sys
from sweepd.store.store import Store
store = Store.open(sys.argv[1])
free = store.claim(sys.argv[2:])
print(sorted(store.driven_elsewhere(["simulated"])), len(free))
"""


def held_elsewhere(store: Store, trials: Iterable[Trial]) -> str:
    """Whether another process sees the sweep driven, and how many of the trials it can claim."""
    program = [sys.executable, "-c", HELD, store.address, *(trial.id for trial in trials)]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()


def test_what_a_driver_holds_is_free_again_when_it_ends_or_fails(tmp_path: Path) -> None:
    store, plan = Store.create(str(tmp_path)), simulated()
    trials = list(plan.trials[:5])
    with (
        pytest.raises(RuntimeError, match="on purpose"),
        driver.driving(plan, store, threading.Event(), print) as number,
        driver.claimed(store, trials) as owned,
    ):
        assert [made["number"] for made in store.launches()] == [number] and owned == trials
        assert store.load_sweep("simulated").goal == str(plan.grid.goal)
        assert held_elsewhere(store, plan.trials[:7]) == "['simulated'] 2"
        raise RuntimeError("on purpose")
    assert held_elsewhere(store, plan.trials[:7]) == "[] 7"


def test_a_request_to_cancel_stops_the_launch_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for no listing, which may take minutes on a bucket with a million objects."""
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(driver, "COMPACTION_SECONDS", 0.0)
    listing, listed = threading.Event(), threading.Event()

    def compact(self: Store, at_least: int, newer: bool) -> int:
        listing.set()
        assert listed.wait(30)
        return 0

    monkeypatch.setattr(Store, "compact", compact)
    store, stopping, notes = Store.create(str(tmp_path)), threading.Event(), list[str]()
    with driver.driving(simulated(), store, stopping, notes.append) as number:
        assert listing.wait(30) and not stopping.is_set()
        store.request_cancel(number)
        assert stopping.wait(30)
        listed.set()
    assert notes == ["cancelled: saving what runs"]


def test_what_was_saved_of_a_sweep_outlives_its_next_launch() -> None:
    plan = simulated()
    first = driver.sweep_info(plan)
    assert first.size_fields == {"lis": "n"}
    assert first.task_fields == {"lis": ("cot", "n", "value_range")}
    accepted, files = {"older": ("old",)}, {"older": {"lis.py": "0"}}
    again = driver.sweep_info(plan, SweepInfo(goal="", accepted_for=accepted, code_files=files))
    assert again.code_files == {**first.code_files, **files}
    assert again == replace(first, accepted_for=accepted, code_files=again.code_files)


def test_nodes_cost_what_their_types_say_from_when_they_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A node of an unknown type costs what the dearest of its size does, and one whose size is not
    known either what the dearest of all does."""
    types = {"head": Nodes(1, 0, price=1), "a": Nodes(4, 4, 1, 10), "b": Nodes(4, 4, 1, 20)}
    types |= {"c": Nodes(1, 9, price=50)}
    nodes: list[tuple[str, dict[str, float]]] = [("head", {}), ("a", {"CPU": 4, "GPU": 1})]
    monkeypatch.setattr(driver, "nodes_and_types", lambda: nodes)
    monkeypatch.setattr(driver, "LOOK_SECONDS", 0.01)
    told: list[tuple[float, float]] = []
    listener: Any = SimpleNamespace(spent=lambda *costs: told.append(costs))
    place = Placement(Resources(), "there", types, max_dollars=32 / 3600 / 10)
    stopping, notes = threading.Event(), list[str]()
    with driver.within_limits(place, listener, stopping, notes.append):
        assert not stopping.wait(0.05)
        nodes += [
            ("", {"CPU": 4, "GPU": 1}),
            ("starting", {}),
        ]  # which has no core yet, as the head
        assert stopping.wait(30)
    [note] = notes
    assert note.startswith("max_dollars: ") and note.endswith("are spent: saving what runs")
    assert {rate for _, rate in told} == {11, 32}


def test_nodes_cost_from_when_they_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while the driver cannot see them yet."""
    nodes: list[tuple[str, dict[str, float]]] = []
    monkeypatch.setattr(driver, "nodes_and_types", lambda: nodes)
    monkeypatch.setattr(driver, "LOOK_SECONDS", 0.01)
    monkeypatch.setenv(PAID_SECONDS, "1800")
    told: list[float] = []
    listener: Any = SimpleNamespace(spent=lambda spent, an_hour: told.append(spent))
    place = Placement(Resources(), "there", {"head": Nodes(1, 0, price=10)}, max_dollars=5)
    stopping, notes = threading.Event(), list[str]()
    with driver.within_limits(place, listener, stopping, notes.append):
        assert not stopping.wait(0.1) and not told
        nodes.append(("head", {}))
        assert stopping.wait(30)
    assert 5 <= told[0] < 5.1 and notes


def test_the_hours_of_a_launch_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LOOK_SECONDS", 0.01)
    listener: Any = SimpleNamespace()  # it is told of no dollars
    stopping, notes = threading.Event(), list[str]()
    place = Placement(Resources(), max_hours=0.05 / 3600)
    with driver.within_limits(place, listener, stopping, notes.append):
        assert stopping.wait(30)
    assert "max_hours: " in notes[0]
