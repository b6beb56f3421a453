"""A sweep on a running Ray whose autoscaler starts without any worker. Ray's fake nodes, which are
raylets of one machine, come when trials wait and go when they are idle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from shell import Shell
from waiting import wait_until

BIN = Path(sys.executable).parent
HEAD = "f" * 51 + "00000"
CONFIG = {
    "cluster_name": "fake",
    "max_workers": 2,
    "idle_timeout_minutes": 0.1,
    "upscaling_speed": 1.0,
    "provider": {
        # Not `fake_multinode`: Ray's wheels lack the defaults that belong to that name.
        "type": "external",
        "module": "apart.FakeMultiNodeProvider",
        "launch_multiple": True,
        "head_node_id": HEAD,
    },
    "auth": {"ssh_user": "nobody"},
    "docker": {},
    "file_mounts": {},
    "cluster_synced_files": [],
    "initialization_commands": [],
    "setup_commands": [],
    "head_setup_commands": [],
    "worker_setup_commands": [],
    "head_start_ray_commands": [],
    "worker_start_ray_commands": [],
    "head_node_type": "ray.head.default",
    "available_node_types": {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "core": {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2},
    },
}
APART = """
from tempfile import mkdtemp
from ray._private import parameter
from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider

together = parameter.RayParams
# Each raylet unpacks and deletes what a job brings: they must not share a folder.
parameter.RayParams = lambda **given: together(**given, temp_dir=mkdtemp(dir="/tmp"))


class Refusing(FakeMultiNodeProvider):
    def create_node_with_resources_and_labels(self, *_, **__):
        raise RuntimeError("An error occurred (VcpuLimitExceeded) when …")
"""
START = f"""
export RAY_FAKE_CLUSTER=1 AUTOSCALER_UPDATE_INTERVAL_S=1 RAY_enable_autoscaler_v2=1
export RAY_CLOUD_INSTANCE_ID={HEAD} RAY_OVERRIDE_NODE_ID_FOR_TESTING={HEAD}
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=0123456789abcdef PATH={BIN}:$PATH PYTHONPATH=/mnt
ray start --head --num-cpus=0 --autoscaling-config=/mnt/MODULE.json --dashboard-host=ADDRESS
"""
CLUSTER = """
kind: address
address: http://ADDRESS:8265
start_seconds: 20
results: /mnt/sweepd-results
nodes: {core: {most: 2, cpus: 1}}
"""
GRID = """
name: grown
task: {name: lis, n: 4, value_range: 16}
model: {name: standard, d: [4, 8], layers: 1, heads: 1}
train: {steps: 300, batch_size: 8}
seeds: [0, 1]
"""


def start(lab: Shell, address: str, module: str) -> None:
    """Starts Ray on a machine, with one of Ray's providers of nodes."""
    provider = {**CONFIG["provider"], "module": f"apart.{module}"}  # type: ignore[dict-item]
    lab.write(f"{module}.json", json.dumps({**CONFIG, "provider": provider}))
    lab.write("apart.py", APART)
    lab.write("cluster.yaml", CLUSTER.replace("ADDRESS", address))
    lab.write("grid.yaml", GRID)
    ssh = ("ssh", "-q", "-o", "StrictHostKeyChecking=no", "-i", "/mnt/key", address)
    command = START.replace("MODULE", module).replace("ADDRESS", address)
    subprocess.run([*lab.command[:-1], *ssh, command], check=True, capture_output=True)


def test_a_refused_node_is_told_and_ends_the_launch(lab: Shell) -> None:
    start(lab, "10.99.0.12", "Refusing")
    lab.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef"}
    told = lab.run("launch", "grid.yaml", "--cluster", "cluster.yaml", "--yes", exits=3).stderr
    assert "Failed to launch 1 nodes of type core: An error occurred (VcpuLimitExceeded)" in told


def test_from_no_worker_to_none(lab: Shell) -> None:
    start(lab, "10.99.0.11", "FakeMultiNodeProvider")
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        lab.environment.pop(name, None)

    def nodes() -> list[str]:
        rows = lab.rows("cluster", "status", "cluster.yaml")
        return [row["type"] for row in rows if row["what"] == "node"]

    lab.run("cluster", "up", "cluster.yaml", "--yes", exits=3)
    lab.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef"}
    lab.run("cluster", "up", "cluster.yaml", "--yes")
    assert nodes() == ["head"]
    told = lab.run("launch", "grid.yaml", "--cluster", "cluster.yaml", "--yes").stderr
    # The head has no core for them: workers have come, and go.
    assert "2 at once" in told and "4 of 4 trials done" in told
    wait_until(lambda: nodes() == ["head"])
    assert "somebody else's" in lab.run("cluster", "down", "cluster.yaml", "--yes").stderr
