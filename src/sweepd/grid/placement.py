"""Where trials run: what one of them occupies, and the machines that there are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sweepd.grid.options import CHECKED


@dataclass(frozen=True)
class Resources:
    """What one trial occupies; fractions share a core or a card."""

    __pydantic_config__ = CHECKED

    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if not self.cpus > 0:
            raise ValueError(f"cpus = {self.cpus}: must be positive")
        if self.gpus < 0:
            raise ValueError(f"gpus = {self.gpus}: must not be negative")
        if self.gpus > 1 and self.gpus % 1:
            raise ValueError(f"gpus = {self.gpus}: whole cards, or a share of one card")

    def __str__(self) -> str:
        parts = ((self.cpus, "core"), (self.gpus, "GPU"))
        return " and ".join(f"{n:g} {one}{'s' * (n != 1)}" for n, one in parts if n)


PAID_SECONDS = "SWEEPD_PAID_SECONDS"
"""The environment variable with the seconds for which nodes were paid before the driver began."""
CONTEXT_BYTES = 600 << 20
"""The memory of a card that a process takes for its CUDA context, rounded up."""


def torchs_share(gpus: float, total: int) -> float:
    """Returns the share of a card of `total` bytes that torch may fill for trials that hold `gpus`
    of it. Shares of a card fit it together with the contexts of their processes."""
    return max(0.0, gpus - CONTEXT_BYTES / total) if gpus < 1 else 1.0


@dataclass(frozen=True)
class Nodes:
    """Machines of one type that a cluster has or may grow to."""

    __pydantic_config__ = CHECKED

    most: int
    cpus: float
    gpus: float = 0.0
    price: float = 0.0
    """The price of one node in dollars an hour."""
    least: int = 0
    """The number of nodes that stay up even when nothing runs."""

    def __post_init__(self) -> None:
        for name in ("most", "cpus", "gpus", "price", "least"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)}: must not be negative")

    def held(self, per_trial: Resources) -> int:
        """Returns how many trials one of these nodes runs at once."""
        by_cpus = int(self.cpus / per_trial.cpus + 1e-9)
        if not per_trial.gpus:
            return by_cpus
        # Ray gives a trial that takes a share of a card that share of one card: at .3, three trials
        # fit each card, and the tenths that are left on eight cards fit no more.
        whole = int(self.gpus / per_trial.gpus + 1e-9)
        shares = int(self.gpus) * int(1 / per_trial.gpus + 1e-9)
        return min(by_cpus, shares if per_trial.gpus < 1 else whole)


def by_type(nodes: Mapping[str, Nodes], per_trial: Resources) -> dict[str, int]:
    """Returns how many trials run at once on all nodes of each type.

    Trials that ask for no card leave nodes with cards alone where others can run them: Ray, too,
    starts nodes without cards for them first.
    """
    counts = {name: one.most * one.held(per_trial) for name, one in nodes.items()}
    plain = any(count and not nodes[name].gpus for name, count in counts.items())
    if plain and not per_trial.gpus:
        return {name: 0 if nodes[name].gpus else count for name, count in counts.items()}
    return counts


def slots(nodes: Mapping[str, Nodes], per_trial: Resources) -> int:
    """Returns how many trials run at once on all these nodes."""
    return sum(by_type(nodes, per_trial).values())


def idle_cards(nodes: Mapping[str, Nodes], per_trial: Resources) -> str:
    """Returns what to do where only nodes with cards can run trials, and these ask for none. It is
    empty where that is not so."""
    able = [nodes[name] for name, count in by_type(nodes, per_trial).items() if count]
    if per_trial.gpus or not able or not able[0].gpus:
        return ""
    return (
        f"the nodes have cards, and a trial asks for {per_trial} and no GPU, so that the cards "
        "would idle: write `gpus` in `per_trial` (or in the grid's `resources`), such as "
        f"{{cpus: {able[0].cpus / able[0].gpus:g}, gpus: 1}}, or name the nodes without their "
        "cards in the cluster file"
    )


def no_room(per_trial: Resources, nodes: Iterable[Nodes]) -> str:
    """Returns the message that says why no trial runs on any of these nodes."""
    largest = max(nodes, key=lambda one: (one.gpus, one.cpus), default=None)
    if largest is None:
        return "Ray has no node: start one, or name `nodes` in the cluster file"
    return (
        f"a trial asks for {per_trial}, and the largest node has "
        f"{Resources(largest.cpus, largest.gpus)}: "
        "change `resources` in the grid or `per_trial` in the cluster file"
    )


@dataclass(frozen=True)
class Placement:
    """Where a driver runs its trials."""

    per_trial: Resources
    ray: str | None = None
    """The address of the Ray cluster to join; None starts a private one on this machine."""
    nodes: Mapping[str, Nodes] = field(default_factory=dict)
    """The nodes to which the cluster may grow, by type. If empty, it stays as it is."""
    start_seconds: float = math.inf
    """The seconds for which no trial may run there until the launch ends."""
    max_dollars: float = math.inf
    max_hours: float = math.inf
    """What one launch may cost there, and how long it may take."""
