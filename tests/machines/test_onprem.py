"""A sweep on the user's own machines, with Ray's launcher over SSH. The cluster is brought up and a
sweep is launched. The client lets go of the sweep and follows it again. Then the machine that
launched it is lost, and at last the cluster is taken down."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from e2e.conftest import Running
from shell import Shell
from waiting import wait_until

CLUSTER = f"""
kind: onprem
results: /mnt/sweepd-results
after: AFTER
nodes: {{machine: {{most: 3, cpus: 1, price: 2}}}}
ray:
  cluster_name: lab
  provider: {{type: local, head_ip: 10.99.0.11, worker_ips: [10.99.0.12, 10.99.0.13]}}
  auth: {{ssh_user: root, ssh_private_key: /mnt/key}}
  setup_commands:
    - echo 'export PATH={Path(sys.executable).parent}:$PATH' >> ~/.bashrc
"""
HEAD_WITHOUT_CORES = """
  head_start_ray_commands:
    - ray stop
    - >-
      ray start --head --num-cpus=0 --port=6379 --object-manager-port=8076
      --autoscaling-config=~/ray_bootstrap_config.yaml --dashboard-host=127.0.0.1
  worker_setup_commands: ["echo no wheel for this Python >&2; exit 7"]
"""
GRID = """
name: NAME
task: {name: mine.py:Slow, n: 2, value_range: 64, nap: 1, mark: /mnt/NAME}
model: {name: standard, d: [4, 8], layers: 1, heads: 1}
train: {steps: 400, batch_size: 4}
evaluate: {check_samples: 8, verdict_samples: 8}
seeds: [0, 1]
checkpoint_seconds: 1
"""

ASK = "curl -s -m 5 -o /dev/null -w %{{http_code}} {}:8265/api/jobs/ || true"
POWER_OFF = (
    "(setsid bash -c 'sleep 1; kill -TERM -1; sleep 2; ip link set eth9 down; kill -KILL -1' &)"
)
"""As a machine that the spot market takes: all its processes are told to end, and then killed."""


def on(lab: Shell, machine: int, command: str) -> str:
    """What a command prints on one of the machines."""
    ssh = ("ssh", "-q", "-o", "StrictHostKeyChecking=no", "-i", "/mnt/key", f"10.99.0.{machine}")
    return subprocess.run(
        [*lab.command[:-1], *ssh, command], capture_output=True, text=True, check=True
    ).stdout


def nodes(lab: Shell) -> list[str]:
    rows = lab.rows("cluster", "status", "keep.yaml")
    return sorted(row["name"] for row in rows if row["what"] == "node")


def launched(lab: Shell, running: Running, name: str, cluster: str) -> subprocess.Popen[str]:
    """A client that follows a sweep of which trials are under way."""
    lab.write(f"{name}.yaml", GRID.replace("NAME", name))
    client = running(lab.start("launch", f"{name}.yaml", "--cluster", cluster, "--yes"))
    lines = []
    assert client.stderr
    for line in client.stderr:
        lines.append(line)
        if "running:" in line and "step" in line:
            return client
    raise AssertionError("".join(lines))


def test_a_worker_whose_setup_fails_ends_the_launch(lab: Shell) -> None:
    """It says what the worker's setup said last, and the cluster is taken down."""
    own = CLUSTER.replace("AFTER", "down").replace("name: lab", "name: failing")
    own = own.replace("results:", "start_seconds: 60\nresults:") + HEAD_WITHOUT_CORES
    lab.write("failing.yaml", own)
    lab.write("waiting.yaml", GRID.replace("NAME", "waiting"))
    told = lab.run("launch", "waiting.yaml", "--cluster", "failing.yaml", "--yes", exits=3).stderr
    assert "no node that can run a trial has come" in told, told
    assert "no wheel for this Python" in told and "start_seconds" in told, told
    assert all(on(lab, machine, "pgrep -c raylet || true") == "0\n" for machine in (11, 12, 13))


def test_from_nothing_to_nothing(lab: Shell, running: Running) -> None:
    for after in ("keep", "down"):
        lab.write(f"{after}.yaml", CLUSTER.replace("AFTER", after))
    assert not lab.rows("cluster", "status", "keep.yaml")

    # It brings the cluster up by itself. Ctrl-C lets go of it.
    client = launched(lab, running, "long", "keep.yaml")
    client.send_signal(signal.SIGINT)
    _, told = client.communicate(timeout=60)
    assert client.returncode == 0 and "detached: sweep long goes on" in told, told
    wait_until(lambda: nodes(lab) == ["10.99.0.11", "10.99.0.12", "10.99.0.13"], 200)
    jobs = [row for row in lab.rows("cluster", "status", "keep.yaml") if row["what"] == "job"]
    assert [job["type"] for job in jobs] == ["long"]

    # Nobody gets in without the token, and from another machine nobody even asks for it.
    token = on(lab, 11, "cat ~/.sweepd/clusters/lab/token")
    assert len(token) == 64 and token not in told
    assert on(lab, 12, "stat -c %a ~/.sweepd/clusters/lab/token") == "600\n"
    assert on(lab, 11, ASK.format("127.0.0.1")) == "401"
    assert on(lab, 12, ASK.format("10.99.0.11")) == "000"

    # On all of them Ray's sockets lie in a folder that nobody else enters.
    for machine in (11, 12):
        sockets = on(lab, machine, "ls /tmp/sweepd-cluster-*/ray/session_2*/sockets")
        assert {"plasma_store", "raylet"} <= {*sockets.split()}
        assert (
            on(lab, machine, "stat -c %a /tmp/sweepd-cluster-*; ls -d /tmp/ray || true") == "700\n"
        )

    # A second sweep leaves the first alone.
    lab.write("brief", "")
    lab.write("brief.yaml", GRID.replace("NAME", "brief"))
    brief = lab.run("launch", "brief.yaml", "--cluster", "keep.yaml", "--yes").stderr
    assert "4 of 4 trials done" in brief and "the cluster stays up: long runs there" in brief

    # What the workers do not see is no place for results.
    lab.write("astray.yaml", GRID.replace("NAME", "astray"))
    astray = ("launch", "astray.yaml", "--cluster", "keep.yaml", "--results", "/tmp/mine", "--yes")
    told = lab.run(*astray, exits=3).stderr
    assert "node machine-1" in told and "every node shares" in told, told

    # The first is followed again, without its grid file. A node goes, with what runs there.
    follower = running(lab.start("resume", "long", "--cluster", "keep.yaml", "--yes"))
    assert follower.stderr and any("following it" in line for line in follower.stderr)
    on(lab, 13, f"{POWER_OFF} >/dev/null 2>&1 </dev/null")
    wait_until(lambda: nodes(lab) == ["10.99.0.11", "10.99.0.12"], 200)
    lab.write("long", "")
    _, told = follower.communicate(timeout=200)
    assert follower.returncode == 0 and "4 of 4 trials done, 0 failed" in told, told

    # The machine that launched is lost: the cluster ends all the same.
    launched(lab, running, "lost", "down.yaml").kill()
    lab.write("lost", "")
    count = "pgrep -c raylet || true"
    wait_until(lambda: all(on(lab, machine, count) == "0\n" for machine in (11, 12)), 200)
    [row] = lab.rows("cluster", "status", "keep.yaml")
    assert row["state"] == "Ray does not answer"
    lab.run("cluster", "down", "keep.yaml", "--yes")
    assert not lab.rows("cluster", "status", "keep.yaml")
    rows = lab.sql("SELECT status, count(*) AS n FROM attempts GROUP BY ALL ORDER BY ALL")
    assert rows[0] == {"status": "completed", "n": 12}
    assert {row["status"] for row in rows} <= {"completed", "interrupted"}
