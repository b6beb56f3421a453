"""A sweep on a machine with nothing of ours: a fresh Debian with another user, no sweepd, and no
settings of the tests. The setup commands of the ready file bring uv, and uv all packages."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from cluster.ready import CLUSTERS
from machines.outside import TRUSTED, WayOut, fresh_debian, reached
from shell import Shell

ADDRESS, PROXY = "10.99.0.21", ("10.99.0.1", 3128)
USER = """
useradd --create-home --shell /bin/bash ubuntu
echo 'ubuntu ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/ubuntu
install -d -o ubuntu -m 700 /home/ubuntu/.ssh
install -o ubuntu -m 600 /key.pub /home/ubuntu/.ssh/authorized_keys
"""
GRID = """
name: bare
task: {name: lis, n: 4, value_range: 16}
model: {name: standard, d: [4, 8], layers: 1, heads: 1}
train: {steps: 50, batch_size: 8}
"""
NEWNET = 0x40000000


@pytest.fixture
def bare(lab: Shell, tmp_path: Path) -> Iterator[Path]:
    """The root of a fresh machine that runs at `ADDRESS`."""
    libc, found = ctypes.CDLL(None), list[socket.socket]()
    process = lab.command[lab.command.index("--target") + 1]

    def listen() -> None:  # in a thread of its own, which alone moves to the machines' network
        with Path(f"/proc/{process}/ns/net").open() as there:
            assert libc.setns(there.fileno(), NEWNET) == 0
        found.append(socket.create_server(PROXY))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    root = lab.folder / "root"
    fresh_debian(root, WayOut(found[0], tmp_path))
    proxy = f"http://{PROXY[0]}:{PROXY[1]}"
    variables = {"http_proxy": proxy, "https_proxy": proxy, "SSL_CERT_FILE": f"/{TRUSTED}"}
    (root / "etc/environment").write_text("".join(f"{k}={v}\n" for k, v in variables.items()))
    # Its own name, as every machine knows it; other names only the proxy finds.
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{ADDRESS} machine-21\n")
    (root / "etc/resolv.conf").write_text("")
    shutil.copy(lab.folder / "key.pub", root)
    subprocess.run(["chroot", str(root), "bash", "-ec", USER], check=True)
    program = [sys.executable, str(Path(__file__).with_name("lab.py")), "--bare", "/mnt/root"]
    machine = subprocess.Popen(
        [*lab.command[:-1], *program, ADDRESS.rpartition(".")[2]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert machine.stdout and machine.stdout.readline() == "up\n"
    yield root
    machine.communicate()
    found[0].close()
    shutil.rmtree(root)  # gigabytes, which pytest would keep


def test_the_setup_commands_of_the_ready_file_are_enough(lab: Shell, bare: Path) -> None:
    file = yaml.safe_load((CLUSTERS / "onprem.yaml").read_text())
    file["ray"]["provider"] |= {"head_ip": ADDRESS, "worker_ips": []}
    file["ray"]["auth"] = {"ssh_user": "ubuntu", "ssh_private_key": "/mnt/key"}
    file |= {"results": "/home/ubuntu/sweeps", "per_trial": {"cpus": 1}, "start_seconds": 300}
    file["nodes"] = {"machine": {"most": 1, "cpus": os.cpu_count(), "gpus": 0}}
    text = yaml.safe_dump(file, width=1000)
    if not reached("github.com"):  # from where uv has its Pythons
        text = text.replace("--python 3.12", "--python 3.11")  # Debian's own
    lab.write("bare.yaml", text)
    lab.write("grid.yaml", GRID)
    told = lab.run("launch", "grid.yaml", "--cluster", "bare.yaml", "--yes").stderr
    assert "2 of 2 trials done" in told, told
    [row] = lab.rows("sql", "SELECT host, count(*) AS n FROM attempts GROUP BY ALL",
                     "--results", "/mnt/root/home/ubuntu/sweeps")  # fmt: skip
    assert row == {"host": "machine-21", "n": 2}
    assert (bare / "home/ubuntu/.local/bin/uv").exists()
    lab.run("cluster", "down", "bare.yaml", "--yes")
    assert lab.rows("cluster", "status", "bare.yaml") == []
