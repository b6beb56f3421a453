"""A sweep on a machine with nothing of ours: a fresh Debian with another user, no sweepd, and no
settings of the tests. The setup commands of the ready file bring uv, and uv all packages. The way
out is a proxy, as in many a data centre."""

from __future__ import annotations

import ctypes
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from cluster.ready import CLUSTERS
from shell import Shell

ADDRESS, PROXY = "10.99.0.21", ("10.99.0.1", 3128)
INCLUDED = "openssh-server,rsync,sudo,curl,ca-certificates,procps,python3-pip"
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


def reached(host: str) -> bool:
    with suppress(OSError):
        socket.create_connection((host, 443), timeout=5).close()
        return True
    return False


def serve(listener: socket.socket) -> None:
    """Answers CONNECT, until the listener is closed."""

    def relay(near: socket.socket) -> None:
        with near, suppress(OSError, ValueError, IndexError):
            asked = b""
            while b"\r\n\r\n" not in asked and (data := near.recv(4096)):
                asked += data
            host, _, port = asked.split()[1].decode().partition(":")
            with socket.create_connection((host, int(port)), timeout=20) as far:
                near.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                other = {near: far, far: near}
                while True:
                    for one in select.select([near, far], [], [], 300)[0]:
                        if not (data := one.recv(1 << 16)):
                            return
                        other[one].sendall(data)

    with suppress(OSError):
        while True:
            threading.Thread(target=relay, args=[listener.accept()[0]], daemon=True).start()


@pytest.fixture
def way_out(lab: Shell) -> Iterator[None]:
    """A proxy that machines reach, and that reaches what this process does."""
    libc, found = ctypes.CDLL(None), list[socket.socket]()
    process = lab.command[lab.command.index("--target") + 1]

    def listen() -> None:  # in a thread of its own, which alone moves to the machines' network
        with Path(f"/proc/{process}/ns/net").open() as there:
            assert libc.setns(there.fileno(), NEWNET) == 0
        found.append(socket.create_server(PROXY))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    threading.Thread(target=serve, args=found, daemon=True).start()
    yield
    found[0].close()


@pytest.fixture
def bare(lab: Shell, way_out: None) -> Iterator[Path]:
    """The root of a fresh machine that runs at `ADDRESS`. It sees /media, as the others do."""
    if not shutil.which("debootstrap"):
        pytest.skip("needs debootstrap")
    if not reached("pypi.org"):
        pytest.skip("needs PyPI")
    root = lab.folder / "root"
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={INCLUDED}", "bookworm", str(root)],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    # What this machine needs to reach PyPI, and nothing else: its proxy, authorities and wheels.
    proxy = f"http://{PROXY[0]}:{PROXY[1]}"
    trusted = "/etc/ssl/certs/ca-certificates.crt"
    variables = {"http_proxy": proxy, "https_proxy": proxy, "SSL_CERT_FILE": trusted}
    own = os.environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    if (own and own != trusted) or Path(trusted).exists():
        shutil.copy(own or trusted, f"{root}{trusted}")
    pip = [sys.executable, "-m", "pip", "config", "list"]
    told = subprocess.run(pip, capture_output=True, text=True).stdout
    if links := re.search(r"find-links='(/[^']+)'", told):
        variables["UV_FIND_LINKS"] = links[1]
        shutil.copytree(links[1], f"{root}{links[1]}")
    (root / "etc/environment").write_text("".join(f"{k}={v}\n" for k, v in variables.items()))
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
    shutil.rmtree(root)  # gigabytes, which pytest would keep


def test_the_setup_commands_of_the_ready_file_are_enough(lab: Shell, bare: Path) -> None:
    file = yaml.safe_load((CLUSTERS / "onprem.yaml").read_text())
    file["ray"]["provider"] |= {"head_ip": ADDRESS, "worker_ips": []}
    file["ray"]["auth"] = {"ssh_user": "ubuntu", "ssh_private_key": "/mnt/key"}
    file |= {"results": "/media/sweeps", "per_trial": {"cpus": 1}, "start_seconds": 300}
    file["nodes"] = {"machine": {"most": 1, "cpus": os.cpu_count(), "gpus": 0}}
    text = yaml.safe_dump(file, width=1000)
    # What these bring from elsewhere cannot be had everywhere.
    if not reached("github.com"):
        text = text.replace("--python 3.12", "--python 3.11")  # Debian's own
    if not reached("download.pytorch.org"):
        text = text.replace(" --torch-backend=auto", "")
    lab.write("bare.yaml", text)
    lab.write("grid.yaml", GRID)
    told = lab.run("launch", "grid.yaml", "--cluster", "bare.yaml", "--yes").stderr
    assert "2 of 2 trials done" in told, told
    [row] = lab.rows("sql", "SELECT host, count(*) AS n FROM attempts GROUP BY ALL",
                     "--results", "/media/sweeps")  # fmt: skip
    assert row == {"host": "machine-21", "n": 2}
    assert (bare / "home/ubuntu/.local/bin/uv").exists()
    lab.run("cluster", "down", "bare.yaml", "--yes")
    assert lab.rows("cluster", "status", "bare.yaml") == []
