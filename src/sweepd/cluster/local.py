"""This machine, where the driver runs in the process that was launched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from sweepd.cluster.base import ClusterFile
from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Nodes, Placement, Resources, no_room


class Local(ClusterFile):
    """A private Ray on this machine for as long as the launch runs, or one that runs already."""

    kind: Literal["local"]
    ray: str | None = None
    """The address of a Ray cluster to join, or `auto` for the one on this machine. With it, a
    driver that was handed over finds its cluster."""
    nodes: dict[str, Nodes] = Field(default_factory=dict)
    """The nodes to which that Ray cluster may grow, by type."""

    def types(self) -> Mapping[str, Nodes]:
        return self.nodes

    def placement(self, per_trial: Resources) -> Placement:
        return Placement(per_trial, self.ray, tuple(self.nodes.values()))

    def slots(self, per_trial: Resources) -> int:
        if self.nodes or self.ray:
            return super().slots(per_trial)
        cards = 0
        if per_trial.gpus:
            import torch  # takes a second, which is spent only on trials with a GPU

            cards = torch.cuda.device_count()
        machine = Nodes(most=1, cpus=len(os.sched_getaffinity(0)), gpus=cards)
        if not machine.held(per_trial):
            raise EnvironmentFailure(no_room(per_trial, [machine]))
        return machine.held(per_trial)
