"""The nodes of the Ray that was joined: how many trials they hold, and whether they reach the
results."""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweepd.errors import EnvironmentFailure, SweepdError, UserError
from sweepd.grid.placement import Nodes, Placement, no_room, slots
from sweepd.store.store import Store


def at_once(placement: Placement) -> int:
    """Returns how many trials run at once, now or when Ray has grown.

    EnvironmentFailure if no node can hold one: Ray itself would wait for larger nodes and say
    nothing.
    """
    here = [_size(node) for node in _alive().values()]
    count = max(slots(here, placement.per_trial), slots(placement.nodes, placement.per_trial))
    if not count:
        raise EnvironmentFailure(no_room(placement.per_trial, [*here, *placement.nodes]))
    return count


def probe(store: Store, launch: int, placement: Placement, stopping: threading.Event) -> None:
    """Checks that all nodes reach the results of this launch. Raises EnvironmentFailure with the
    name of one that does not.

    Where no node can hold a trial yet, waits for the first that can, or until `stopping` is set.
    """
    nodes = _alive()
    asking = ray.remote(reach)
    question = (store.address, launch, store.launch(launch))
    asked = {
        asking.options(
            num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(id_, soft=False)
        ).remote(*question): id_
        for id_ in nodes
    }
    if not slots(map(_size, nodes.values()), placement.per_trial):
        needs = {"num_cpus": placement.per_trial.cpus, "num_gpus": placement.per_trial.gpus}
        asked[asking.options(**needs).remote(*question)] = ""
    while asked and not stopping.is_set():
        answered, _ = ray.wait(list(asked), timeout=1.0)
        for answer in answered:
            id_ = asked.pop(answer)
            try:
                ray.get(answer)
            except RayError as error:
                if not id_ or id_ in _alive():  # a node that is lost by now is no obstacle
                    name = nodes[id_]["NodeManagerHostname"] if id_ else "the first to come up"
                    told = getattr(error, "cause", None)  # by the node, without its traceback
                    raise EnvironmentFailure(str(told or f"node {name}: {error}")) from error


def reach(address: str, launch: int, record: Mapping[str, Any]) -> None:
    """Checks that this node reads in the results the `record` that the driver of a launch wrote
    there, and that the node can write. Raises EnvironmentFailure, with this node's name, if not."""
    ip = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    here = f"node {socket.gethostname()} ({ip})"
    try:
        store = Store.open(address)
        same = store.launch(launch) == record
        store.check_writable()
    except (FileNotFoundError, UserError):
        same = False
    except SweepdError as error:
        raise EnvironmentFailure(f"{here}: {error}") from None
    if not same:
        raise EnvironmentFailure(
            f"{here}: {address} is another folder there than where the driver runs; name storage "
            "that every node shares"
        )


def _alive() -> dict[str, dict[str, Any]]:
    """Returns what Ray says of each node that is alive, by its id."""
    nodes = ray.nodes()  # type: ignore[no-untyped-call]
    return {node["NodeID"]: node for node in nodes if node["Alive"]}


def _size(node: dict[str, Any]) -> Nodes:
    return Nodes(1, node["Resources"].get("CPU", 0), node["Resources"].get("GPU", 0))
