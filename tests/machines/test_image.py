"""The image of clusters/Dockerfile, built, and a sweep in it as KubeRay's submitter starts it. Its
base image cannot be had everywhere: a fresh Debian with its own Python stands for that."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.ready import CLUSTERS
from machines.outside import TRUSTED, WayOut, fresh_debian

from sweepd.grid.fingerprint import PACKAGE

GRID = """
name: inside
task: {name: lis, n: 4, value_range: 16}
model: {name: standard, d: [4, 8], layers: 1, heads: 1}
train: {steps: 50, batch_size: 8}
"""
CLUSTER = "{kind: address, address: 'http://127.0.0.1:8265', results: /results}"
SCRIPT = """
exec 2>&1
cd /sent
wget --version >/dev/null
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=0123456789abcdef0123456789abcdef
ray start --head --num-cpus=2 --dashboard-host=127.0.0.1
PYTHONPATH=. python -m sweepd launch grid.yaml --cluster cluster.yaml --yes
python -c 'import torch; print("torch", torch.__version__)'
ray stop
"""


@pytest.fixture
def buildah(tmp_path: Path) -> Iterator[list[str]]:
    """buildah, with its images in a folder of the test."""
    if os.geteuid() or not shutil.which("buildah"):
        pytest.skip("needs root and buildah")
    command = ["buildah", "--root", str(tmp_path / "images"), "--runroot", str(tmp_path / "run")]
    yield command
    subprocess.run([*command, "rm", "--all"], check=True, capture_output=True)
    subprocess.run([*command, "rmi", "--all", "--force"], check=True, capture_output=True)


def test_the_image_has_all_that_a_sweep_needs(buildah: list[str], tmp_path: Path) -> None:
    def run(*command: str, **more: str) -> str:
        environment = {**os.environ, **more}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert not done.returncode, (done.stdout + done.stderr)[-3000:]
        return done.stdout

    listener = socket.create_server(("127.0.0.1", 0))
    base = tmp_path / "base"
    fresh_debian(base, WayOut(listener, tmp_path))
    (base / "usr/bin/python").symlink_to("python3")
    for marker in base.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    run(*buildah, "from", "--name=base", "scratch")
    run(*buildah, "add", "base", str(base), "/")
    run(*buildah, "config", "--env=PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"--env=SSL_CERT_FILE=/{TRUSTED}", "base")  # fmt: skip
    run(*buildah, "commit", "base", "localhost/python")
    shutil.rmtree(base)

    alone = ("--isolation=chroot", "--network=host")
    proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
    run(*buildah, "bud", *alone, "--from=localhost/python", "--tag=sweepd",
        f"--file={CLUSTERS / 'Dockerfile'}", str(CLUSTERS.parent), https_proxy=proxy)  # fmt: skip
    listener.close()

    sent = tmp_path / "sent"
    shutil.copytree(PACKAGE, sent / "sweepd", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in (("grid.yaml", GRID), ("cluster.yaml", CLUSTER)):
        (sent / name).write_text(text)
    run(*buildah, "from", "--name=pod", "localhost/sweepd")
    run(*buildah, "add", "pod", str(sent), "/sent")
    inside = ("ip link set lo up; exec " + '"$@"', "_", *buildah, "run", *alone, "pod", "--")
    told = run("unshare", "--net", "--mount", "bash", "-c", *inside, "bash", "-ec", SCRIPT)
    assert "2 of 2 trials done" in told and "+cpu" in told.partition("torch ")[2], told
