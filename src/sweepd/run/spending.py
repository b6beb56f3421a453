"""What a launch may spend, and has spent, on the nodes of a cluster."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sweepd.grid.placement import Nodes, Placement
from sweepd.ray_private import nodes_and_types

if TYPE_CHECKING:
    from sweepd.run.tune_hooks import Listener

LOOK_SECONDS = 5.0
"""The seconds after which the nodes are counted again."""


@contextmanager
def within_limits(
    placement: Placement,
    listener: Listener,
    stopping: threading.Event,
    note: Callable[[str], None],
) -> Iterator[None]:
    """Tells the listener what the nodes cost while the block runs, and sets `stopping` once that,
    or the time, is all that one launch may take. A node counts from when Ray knows of it."""
    over, began = threading.Event(), time.monotonic()

    def look() -> None:
        spent, looked = 0.0, began
        while not over.wait(LOOK_SECONDS):
            now = time.monotonic()
            an_hour = _an_hour(placement.nodes)
            spent += an_hour * (now - looked) / 3600
            looked = now
            if an_hour:
                listener.spent(spent, an_hour)
            hours = (now - began) / 3600
            for name, limit, used in (
                ("max_dollars", placement.max_dollars, spent),
                ("max_hours", placement.max_hours, hours),
            ):
                if used >= limit:
                    note(f"{name}: {used:.2f} of {limit:g} are spent: saving what runs")
                    stopping.set()
                    return

    if placement.ray or placement.max_hours < math.inf:
        threading.Thread(target=look, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _an_hour(types: Mapping[str, Nodes]) -> float:
    """Returns what the nodes of the Ray that was joined cost in dollars an hour. A node of a type
    that the cluster file does not name costs what the dearest of its size does."""
    price = 0.0
    for name, resources in nodes_and_types() if types else ():
        size = resources.get("CPU", 0), resources.get("GPU", 0)
        alike = [one for one in types.values() if (one.cpus, one.gpus) == size]
        known = [types[name]] if name in types else alike or types.values()
        price += max(one.price for one in known)
    return price
