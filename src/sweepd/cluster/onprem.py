"""Machines of one's own, reached by SSH, by Ray's launcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from sweepd.cluster import autoscaler, jobs
from sweepd.cluster.launcher import Launcher
from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Nodes


class OnPrem(Launcher):
    """A head and workers that are there anyway. `up` starts Ray on them, and `down` ends it."""

    provider: ClassVar[str] = "local"

    kind: Literal["onprem"]
    nodes: dict[str, Nodes] = Field(default_factory=dict)
    """What the machines have, by type of node. If empty, they have what Ray finds when the driver
    joins."""

    def types(self) -> Mapping[str, Nodes]:
        return self.nodes

    def status(self) -> list[dict[str, Any]]:
        known = autoscaler.machines(self.config())
        try:
            # Ray's provider knows of the workers only on the head, so Ray itself is asked here.
            return jobs.status(self._client()) if known else []
        except EnvironmentFailure:
            state = "Ray does not answer"
            return [{"what": "node", "name": one.address, "state": state} for one in known]
