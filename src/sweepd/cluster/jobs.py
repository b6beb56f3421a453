"""Ray's Jobs API, which runs a sweep's driver as a job on the head of a cluster, and the kind of
cluster that is reached by it alone: one that runs already, whoever started it."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from sweepd.cluster.base import Check, Note, Remote, Work
from sweepd.errors import EnvironmentFailure
from sweepd.grid.placement import Nodes

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient as JobSubmissionClient

STOPPING = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "120"}
"""The settings of a job with which `ray job stop` lets a driver save what runs, as Ctrl-C does,
before Ray kills it."""


def connect(address: str, token: str | None = None) -> JobSubmissionClient:
    """Returns a client of the cluster whose dashboard is at `address`. Raises EnvironmentFailure if
    there is none.

    `token` is what the cluster asks for. If it is None, Ray's own environment variables give it.
    """
    # Ray would let RAY_ADDRESS, which may be set for another cluster, override the argument.
    os.environ["RAY_API_SERVER_ADDRESS"] = address
    with failing(address):
        from ray.job_submission import JobSubmissionClient

        logging.disable(logging.INFO)  # Ray notes what it uploads
        return JobSubmissionClient(
            address, headers={"Authorization": f"Bearer {token}"} if token else None
        )


def drivers(client: JobSubmissionClient) -> Iterator[tuple[str, str, str]]:
    """Yields the name, the sweep and the results of each of sweepd's jobs that has not ended."""
    for job in client.list_jobs():
        of = job.metadata or {}
        if job.submission_id and "sweep" in of and not job.status.is_terminal():
            yield job.submission_id, of["sweep"], of["results"]


@contextmanager
def failing(address: str) -> Iterator[None]:
    """Raises the errors of Ray and of the network in the block as EnvironmentFailure."""
    from aiohttp import ClientError
    from ray.exceptions import RayError
    from ray.util.state.exception import RayStateApiException

    try:
        yield
    except (RayError, RayStateApiException, RuntimeError, OSError, ClientError) as error:
        raise EnvironmentFailure(f"the Ray cluster at {address}: {error}") from error


class OnRay(Remote):
    """A cluster on whose head Ray's Jobs API runs each driver as a job."""

    @abstractmethod
    def client(self) -> JobSubmissionClient:
        """Returns a client of the API."""

    def find(self, sweep: str, results: str) -> str | None:
        client = self.client()
        with failing(client.get_address()):
            return next((name for name, *of in drivers(client) if of == [sweep, results]), None)

    def submit(self, work: Work, entrypoint: str) -> str:
        """Sends the folder and starts a job in it. Returns the job's name."""
        client = self.client()
        with failing(client.get_address()):
            return client.submit_job(
                entrypoint=entrypoint,
                runtime_env={"working_dir": str(work.folder), "env_vars": STOPPING},
                metadata={"sweep": work.sweep, "results": work.results},
                submission_id=f"sweepd-{work.sweep}-{secrets.token_hex(4)}",
            )

    def follow(self, job: str, note: Note) -> int:
        client, shown = self.client(), 0

        async def tail() -> None:
            nonlocal shown
            seen = 0
            async for text in client.tail_job_logs(job):
                # A new connection sends the log from its start.
                fresh = text[max(0, shown - seen) :]
                seen += len(text)
                shown = max(shown, seen)
                for line in fresh.splitlines():
                    note(line)

        with failing(f"{client.get_address()} (job {job} goes on; the same launch follows it)"):
            while True:
                asyncio.run(tail())
                ended = client.get_job_info(job)
                if ended.driver_exit_code is not None:
                    return ended.driver_exit_code
                if ended.status.is_terminal():
                    raise EnvironmentFailure(f"job {job}: {ended.status}: {ended.message}")

    def status(self) -> list[dict[str, Any]]:
        client = self.client()
        with failing(client.get_address()):
            from ray.util.state import StateApiClient
            from ray.util.state.common import ListApiOptions, StateResource

            api = StateApiClient(client.get_address(), headers=dict(client._headers))
            alive = ListApiOptions(filters=[("state", "=", "ALIVE")])
            nodes: list[Any] = api.list(StateResource.NODES, alive, raise_on_missing_output=False)
            jobs = list(drivers(client))
        kinds = {True: "head", False: "worker"}
        return [
            *({"what": "node", "name": n.node_ip, "type": kinds[n.is_head_node]} for n in nodes),
            *({"what": "job", "name": name, "type": sweep} for name, sweep, _ in jobs),
        ]


class Address(OnRay):
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

    def checks(self, address: str = "") -> Iterator[Check]:
        try:
            self.client()
            yield Check("address", True, f"a Ray cluster answers at {self.address}")
        except EnvironmentFailure as failure:
            yield Check("address", False, str(failure))

    def up(self, note: Note) -> None:
        self.client()
        note(f"a Ray cluster answers at {self.address}")

    def client(self) -> JobSubmissionClient:
        return connect(self.address)

    def start(self, work: Work, note: Note) -> str:
        return self.submit(work, work.command(self.python))

    def down(self, note: Note) -> None:
        note(f"the cluster at {self.address} is somebody else's: it is left as it is")
