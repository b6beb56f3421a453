"""A sweep on machines of one's own, with Ray's launcher over SSH: up, launch, let go, follow again,
lose the machine that launched it, and down."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

CLUSTER = f"""
kind: onprem
results: /mnt/results
after: AFTER
nodes: {{machine: {{most: 3, cpus: 1, price: 2}}}}
ray:
  cluster_name: lab
  provider: {{type: local, head_ip: 10.99.0.11, worker_ips: [10.99.0.12, 10.99.0.13]}}
  auth: {{ssh_user: root, ssh_private_key: /mnt/key}}
  setup_commands:
    - echo 'export PATH={Path(sys.executable).parent}:$PATH' >> ~/.bashrc
"""
GRID = """
name: NAME
task: {name: lis, n: 6, value_range: 16}
model: {name: standard, d: [16, 32], layers: 2, heads: 2}
train: {steps: STEPS, batch_size: 64}
seeds: [0, 1]
checkpoint_seconds: 1
"""


def grid(name, steps):
    return GRID.replace("NAME", name).replace("STEPS", str(steps))


def wait_until(condition, seconds=200):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(1)


def on(lab, machine, command):
    """What a command prints on one of the machines."""
    ssh = ("ssh", "-q", "-o", "StrictHostKeyChecking=no", "-i", "/mnt/key", f"10.99.0.{machine}")
    return subprocess.run(
        [*lab.command[:-1], *ssh, command], capture_output=True, text=True, check=True
    ).stdout


def nodes(lab):
    rows = lab.rows("cluster", "status", "keep.yaml")
    return sorted(row["name"] for row in rows if row["what"] == "node")


def test_from_nothing_to_nothing(lab, running):
    for after in ("keep", "down"):
        lab.write(f"{after}.yaml", CLUSTER.replace("AFTER", after))
    lab.write("grid.yaml", grid("long", 3000))
    lab.write("short.yaml", grid("short", 200))
    launch = ("launch", "grid.yaml", "--cluster", "keep.yaml")
    assert lab.rows("plan", *launch[1:])[0]["cost_high"] > 0
    assert not lab.rows("cluster", "status", "keep.yaml")

    # It brings the cluster up by itself. Ctrl-C lets go of it.
    client = running(lab.start(*launch, "--yes"))
    for line in client.stderr:
        if "0/4 done" in line:
            break
    client.send_signal(signal.SIGINT)
    _, told = client.communicate(timeout=60)
    assert client.returncode == 0 and "detached: sweep long goes on" in told, told
    wait_until(lambda: nodes(lab) == ["10.99.0.11", "10.99.0.12", "10.99.0.13"])
    [job] = [row for row in lab.rows("cluster", "status", "keep.yaml") if row["what"] == "job"]
    assert job["type"] == "long"

    # Nobody gets in without the token, which nothing has shown, and only from the head itself.
    token = on(lab, 11, "cat ~/.sweepd/clusters/lab/token")
    assert len(token) == 64 and token not in told
    assert "600" in on(lab, 12, "stat -c %a ~/.sweepd/clusters/lab/token")
    assert "401" in on(lab, 11, "curl -s -o /dev/null -w %{http_code} 127.0.0.1:8265/api/jobs/")
    asked = "curl -s -m 5 -o /dev/null 10.99.0.11:8265 || echo refused"
    assert "refused" in on(lab, 12, asked)

    # A second sweep does not disturb the first, which is followed again from elsewhere.
    short = lab.run("launch", "short.yaml", "--cluster", "down.yaml", "--yes")
    assert "the cluster stays up: long runs there" in short.stderr
    follower = running(lab.start("resume", "long", "--cluster", "keep.yaml", "--yes"))
    _, told = follower.communicate(timeout=300)
    assert follower.returncode == 0 and "following it" in told and "4 of 4 trials done" in told

    # The machine that launched is lost: the cluster ends all the same.
    lab.write("more.yaml", grid("more", 1500))
    client = running(lab.start("launch", "more.yaml", "--cluster", "down.yaml", "--yes"))
    for line in client.stderr:
        if "0/4 done" in line:
            break
    client.kill()
    wait_until(lambda: on(lab, 11, "pgrep -c raylet || true").strip() == "0")
    for machine in (12, 13):
        wait_until(lambda one=machine: on(lab, one, "pgrep -c raylet || true").strip() == "0")
    lab.run("cluster", "down", "down.yaml", "--yes")
    assert not lab.rows("cluster", "status", "keep.yaml")
    rows = lab.rows("sql", "SELECT DISTINCT status FROM trials", "--results", "/mnt/results")
    assert rows == [{"status": "completed"}]
