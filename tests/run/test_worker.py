"""Workers and their nodes: what workers are sent, how long they train between two reports, how
often a trial may lose its node, how many trials the nodes of a Ray hold at once, and whether a node
reaches the results. A trial that makes no step says in which line it stands before its worker is
killed. All of it without Ray: `tests/e2e/test_clusters.py` asks several raylets,
`tests/machines/test_onprem.py` several machines, one of which does not see the results."""

import multiprocessing
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest
from faulty import fail
from hypothesis import given
from hypothesis import strategies as st
from simulated import simulated

from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Nodes, Placement, Resources
from sweepd.run.engine import at_once
from sweepd.run.hanging import SHARE, stepping, watched
from sweepd.run.tune_hooks import Supervisor
from sweepd.run.worker import (
    REPORT_SECONDS,
    REPORTS_SHARE,
    SLICES_TO_HANG,
    flush_seconds,
    reach,
    slice_seconds,
)
from sweepd.search.base import MOST_MOVES, GridSearch
from sweepd.store.store import Store


@given(slots=st.integers(1, 10**6), hang_seconds=st.just(0.0) | st.floats(1.0, 1e4))
def test_the_driver_hears_of_few_enough_trials_a_second(slots: int, hang_seconds: float) -> None:
    """And their metrics are few enough objects. With the default of 30 seconds between checkpoints,
    they go with these from 300 slots on."""
    assert slots / flush_seconds(slots) <= 10 and (slots > 100) == (flush_seconds(slots) > 10)
    seconds = slice_seconds(slots, hang_seconds)
    assert seconds > 0
    if not hang_seconds:
        busy = slots / seconds * REPORT_SECONDS
        assert seconds >= 1 and busy <= REPORTS_SHARE * (1 + 1e-9)
    else:
        assert seconds == min(slice_seconds(slots, 0.0), hang_seconds / SLICES_TO_HANG)


@given(st.lists(st.integers(0, 5), min_size=30, max_size=30))
def test_a_trial_moves_as_often_as_it_gets_on(gains: list[int]) -> None:
    """A trial that loses its node without a newer checkpoint too often has brought it down."""
    made, nothing = simulated(), cast(Any, None)
    supervisor = Supervisor(GridSearch(made), nothing, nothing, nothing, nothing, nothing)
    step, in_vain = 0, 0
    for gain in gains:
        step += gain
        in_vain = 0 if gain else in_vain + 1
        assert supervisor._may_move(made.trials[0], step) is (in_vain <= MOST_MOVES)


def node(**resources: float) -> dict[str, Any]:
    return {"NodeID": str(resources), "Alive": True, "Resources": resources}


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Ray says of its nodes: add to it."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr("ray.nodes", lambda: found)
    monkeypatch.setattr("ray.util.get_node_ip_address", lambda: "10.0.0.7")
    return found


def test_trials_at_once_are_those_that_the_nodes_hold_now_or_later(
    alive: list[dict[str, Any]],
) -> None:
    alive += [node(CPU=4.0), node(CPU=3.0, GPU=1.0), node(), {**node(CPU=64.0), "Alive": False}]
    assert at_once(Placement(Resources(1))) == 7
    assert at_once(Placement(Resources(2))) == 3
    assert at_once(Placement(Resources(0.5, 0.25))) == 4
    assert at_once(Placement(Resources(2), nodes={"a": Nodes(10, 4)})) == 20, "it may grow"
    assert at_once(Placement(Resources(2), nodes={"a": Nodes(1, 2)})) == 3, "it is larger than told"


def test_cards_of_a_ray_that_was_joined_do_not_idle(alive: list[dict[str, Any]]) -> None:
    alive += [node(CPU=4.0, GPU=2.0), node()]
    with pytest.raises(EnvironmentFailure, match="the cards would idle"):
        at_once(Placement(Resources(1), "auto"))
    assert at_once(Placement(Resources(1, 0.5), "auto")) == 4
    assert at_once(Placement(Resources(1), "auto", {"a": Nodes(1, 4)})) == 4, "it is so wanted"
    alive += [node(CPU=3.0)]
    assert at_once(Placement(Resources(1), "auto")) == 7


def test_a_trial_that_no_node_holds_is_refused(alive: list[dict[str, Any]]) -> None:
    with pytest.raises(EnvironmentFailure, match="Ray has no node: start one"):
        at_once(Placement(Resources(1)))
    alive += [node(CPU=4.0), node(CPU=2.0, GPU=1.0)]
    for placement in (
        Placement(Resources(8)),
        Placement(Resources(1, 2), nodes={"a": Nodes(9, 4)}),
    ):
        with pytest.raises(EnvironmentFailure, match=r"largest node has .*change `resources`"):
            at_once(placement)


@pytest.mark.usefixtures("alive")
def test_a_node_reaches_the_results_of_the_launch_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says its name where it does not, or cannot write there."""
    store = Store.create(str(tmp_path / "shared"))
    number = store.new_launch({"sweep": "s", "pid": 1})
    record = store.launch(number)
    reach(store.address, number, record)

    other = Store.create(str(tmp_path / "other"))
    elsewhere = "is another folder there than where the driver runs"
    with pytest.raises(EnvironmentFailure, match=elsewhere):  # it has no such launch
        reach(other.address, number, record)
    other.new_launch({"sweep": "s", "pid": 2})
    with pytest.raises(EnvironmentFailure, match=rf"node .* \(10.0.0.7\): {other.address} "):
        reach(other.address, number, record)
    with pytest.raises(EnvironmentFailure, match=elsewhere):
        reach(str(tmp_path / "nothing"), number, record)

    refusal = EnvironmentFailure("cannot write: Read-only file system")
    monkeypatch.setattr(Store, "check_writable", lambda self: fail(refusal))
    with pytest.raises(EnvironmentFailure, match=r"node .* \(10.0.0.7\): cannot write: Read-only"):
        reach(store.address, number, record)


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
