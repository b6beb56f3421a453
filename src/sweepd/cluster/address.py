"""A Ray cluster that runs already, whoever started it. It is reached through its Jobs API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sweepd.cluster import jobs
from sweepd.cluster.base import Note, Remote, Work
from sweepd.grid.placement import Nodes


class Address(Remote):
    """A running Ray cluster. If it asks for a token, Ray's own environment variables give that:
    RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH."""

    kind: Literal["address"]
    address: Annotated[str, Field(pattern=r"^https?://[^\s/]+(/\S*)?$")]
    """The address of the cluster's dashboard, such as http://127.0.0.1:8265."""
    after: Literal["keep"] = "keep"
    nodes: dict[str, Nodes] = Field(default_factory=dict)
    """The nodes that the cluster has or may grow to, by type. If empty, it has what is there when
    the driver joins."""

    def types(self) -> Mapping[str, Nodes]:
        return self.nodes

    def up(self, note: Note) -> None:
        jobs.connect(self.address)
        note(f"a Ray cluster answers at {self.address}")

    def find(self, sweep: str, results: str) -> str | None:
        return jobs.find(jobs.connect(self.address), sweep, results)

    def start(self, work: Work, note: Note) -> str:
        return jobs.submit(jobs.connect(self.address), work, work.command(self.python))

    def follow(self, job: str, note: Note) -> int:
        return jobs.follow(jobs.connect(self.address), job, note)

    def status(self) -> list[dict[str, Any]]:
        return jobs.status(jobs.connect(self.address))

    def down(self, note: Note) -> None:
        note(f"the cluster at {self.address} is somebody else's: it is left as it is")
