"""The nodes of a Ray: how many trials they hold at once, and whether a node reaches the results. A
node's own answer is asked for here without Ray. `tests/e2e/test_clusters.py` asks several raylets,
`tests/machines/test_onprem.py` several machines, one of which does not see the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Nodes, Placement, Resources
from sweepd.run.engine import at_once
from sweepd.run.worker import reach
from sweepd.store.store import Store


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
def test_a_node_reaches_the_results_of_the_launch_alone(tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("alive")
def test_a_node_that_cannot_write_says_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.create(str(tmp_path))
    number = store.new_launch({"sweep": "s"})

    def refuse(self: Store) -> None:
        raise EnvironmentFailure("cannot write: Read-only file system")

    monkeypatch.setattr(Store, "check_writable", refuse)
    with pytest.raises(EnvironmentFailure, match=r"node .* \(10.0.0.7\): cannot write: Read-only"):
        reach(store.address, number, store.launch(number))
