"""Ray's cluster launcher, and its autoscaler's view of the machines. No other file speaks to them.
A `config` is what `ray up` reads, as plain data."""

import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from sweepd import ray_private
from sweepd.cluster.base import Note
from sweepd.errors import EnvironmentFailure
from sweepd.grid.yamlfile import Keys

Config = Mapping[str, Any]

HOME = ".sweepd/clusters"
"""The folder of clusters below the home folder, both of the user who brings clusters up and of
their nodes."""
DASHBOARD_PORT = 8265
TUNNEL_SECONDS = 60.0
POLL_SECONDS = 0.2
RAY = (sys.executable, "-m", "ray.scripts.scripts")
PLAIN = ("--log-style", "pretty", "--log-color", "false")
TUNNEL = """
import sys
from ray.autoscaler.sdk import run_on_cluster
run_on_cluster(sys.argv[1], cmd="cat", port_forward=(int(sys.argv[2]), int(sys.argv[3])))
"""
"""A program that opens a tunnel. `cat` ends when its input does, so that no tunnel outlives the
process that opened it."""


@dataclass(frozen=True)
class Machine:
    """What a provider says of a node that is starting or runs."""

    id: str
    address: str
    type: str
    state: str
    head: bool


@dataclass(frozen=True)
class Tunnel:
    """A port of this machine that leads to the dashboard of a head. It lasts while this object
    lives."""

    address: str
    process: subprocess.Popen[bytes]


def problems(config: Config) -> Iterator[tuple[Keys, str]]:
    """Yields what Ray's validator finds wrong with a config: where, and why. Uses no network."""
    import jsonschema
    from click import ClickException

    schema = jsonschema.Draft7Validator(ray_private.cluster_schema())
    wrong = list(schema.iter_errors(config))
    yield from ((tuple(error.absolute_path), error.message) for error in wrong)
    if not wrong:
        try:
            with _hushed():
                ray_private.validate_cluster(prepared(config))
        except (ClickException, ValueError, RuntimeError, AssertionError) as error:
            yield (), str(error)


def prepared(config: Config) -> dict[str, Any]:
    """Returns a config with Ray's defaults for its provider filled in."""
    with _hushed():
        return ray_private.prepare_cluster(deepcopy(dict(config)))


def with_subnets(config: Config) -> dict[str, Any]:
    """Returns a prepared config of Amazon's with the subnets that Ray would choose. Raises
    EnvironmentFailure, with Ray's reason, if there is none."""
    with asking(config), _hushed():
        return ray_private.choose_subnets(deepcopy(dict(config)))


def run(config: Config, note: Note, command: str, *options: str) -> None:
    """Runs `ray up` or `ray down`. `note` is told what it prints. Raises EnvironmentFailure if it
    fails."""
    with subprocess.Popen(
        [*RAY, command, "--yes", *PLAIN, *options, _written(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=_environment(config),
    ) as process:
        assert process.stdout
        for line in process.stdout:
            note(line.rstrip())
    if process.returncode:
        raise EnvironmentFailure(
            f"`ray {command}` ended with exit code {process.returncode}; what it says is above, "
            "and `sweepd cluster status` says what runs now"
        )


def machines(config: Config) -> list[Machine]:
    """Returns the nodes that the provider knows, whether Ray runs on them or not. The head comes
    first."""
    from ray.autoscaler.tags import (
        NODE_KIND_HEAD,
        TAG_RAY_NODE_KIND,
        TAG_RAY_NODE_STATUS,
        TAG_RAY_USER_NODE_TYPE,
    )

    with asking(config) as provider:
        found = []
        for id_ in provider.non_terminated_nodes({}):
            tags = provider.node_tags(id_)
            address = provider.external_ip(id_) or provider.internal_ip(id_) or ""
            kind, state = tags.get(TAG_RAY_USER_NODE_TYPE, ""), tags.get(TAG_RAY_NODE_STATUS, "")
            head = tags.get(TAG_RAY_NODE_KIND) == NODE_KIND_HEAD
            found.append(Machine(id_, address, kind, state, head))
    return sorted(found, key=lambda one: not one.head)


def tunnel(config: Config) -> Tunnel:
    """Opens a tunnel through SSH to the dashboard of a head, and returns it. Raises
    EnvironmentFailure if it can't be opened."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with TemporaryFile() as printed:
        process = subprocess.Popen(
            [sys.executable, "-c", TUNNEL, _written(config), str(port), str(DASHBOARD_PORT)],
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=_environment(config),
            start_new_session=True,  # Ctrl-C is for sweepd alone to handle
        )
        until = time.monotonic() + TUNNEL_SECONDS
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return Tunnel(f"http://127.0.0.1:{port}", process)
            if process.poll() is not None or time.monotonic() > until:
                with suppress(ProcessLookupError):  # it has ended, and so has its SSH
                    os.killpg(process.pid, signal.SIGKILL)
                printed.seek(0)
                said = printed.read().decode(errors="replace").strip()[-500:]
                raise EnvironmentFailure(f"no way to its head by SSH: {said}")
            time.sleep(POLL_SECONDS)


@contextmanager
def asking(config: Config) -> Iterator[Any]:
    """Yields Ray's provider of nodes. Any error in the block is raised as EnvironmentFailure, since
    a cloud's library may raise anything where the cloud, or the way to it, fails."""
    where = f"cluster {config['cluster_name']} ({config['provider']['type']})"
    try:
        with _hushed():
            yield ray_private.node_provider(config)
    except Exception as error:
        raise EnvironmentFailure(f"{where}: {error}") from error


def _written(config: Config) -> str:
    """Writes a config to a file, and returns its path. Ray's other commands, such as `ray attach`,
    can use the file too."""
    path = Path.home() / HOME / f"{config['cluster_name']}.yaml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.touch(mode=0o600)  # it may name a cloud's keys
    fresh.write_text(json.dumps(config, indent=1))
    fresh.replace(path)
    return str(path)


def _hushed() -> redirect_stdout[io.StringIO]:
    """Returns a context in which Ray's launcher does not print its notes to stdout, which is for
    data. Its errors say the same."""
    logging.getLogger("ray.autoscaler").setLevel(logging.WARNING)
    return redirect_stdout(io.StringIO())


def _environment(config: Config) -> dict[str, str]:
    # Ray 2.60's second autoscaler takes the head of the local provider for one of the workers,
    # and starts one too few.
    newer = str(int(config["provider"]["type"] != "local"))
    own = {"RAY_UP_enable_autoscaler_v2": newer, "RAY_USAGE_STATS_ENABLED": "0"}
    return {**own, **os.environ}
