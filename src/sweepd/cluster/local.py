"""This machine: the driver runs in the process that was launched."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from sweepd.cluster.base import ClusterFile
from sweepd.errors import EnvironmentFailure
from sweepd.grid.options import Nodes, Placement, Resources


class Local(ClusterFile):
    """A private Ray on this machine for as long as the launch runs, or one that runs already."""

    kind: Literal["local"]
    ray: str | None = None
    """address of a Ray to join, `auto` for the one on this machine: how a driver that was handed
    over finds its cluster"""
    nodes: dict[str, Nodes] = Field(default_factory=dict)
    """what that Ray may grow to"""

    def types(self) -> Mapping[str, Nodes]:
        return self.nodes

    def placement(self, per_trial: Resources) -> Placement:
        return Placement(per_trial, self.ray, tuple(self.nodes.values()))

    def slots(self, per_trial: Resources) -> int:
        if self.nodes or self.ray:
            return super().slots(per_trial)
        if per_trial.gpus > (gpus := _gpus() if per_trial.gpus else 0):
            raise EnvironmentFailure(
                f"a trial asks for {per_trial}, and this machine has {gpus} GPUs: change "
                "`resources` in the grid, or name a cluster with --cluster"
            )
        return max(1, int(len(os.sched_getaffinity(0)) / per_trial.cpus))


def _gpus() -> int:
    """How many GPUs this machine has that torch can use."""
    import torch  # it takes a second, and only a trial that asks for GPUs needs it

    return torch.cuda.device_count()
