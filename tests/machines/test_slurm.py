"""A sweep on a real Slurm of two nodes, each a machine of its own with a card that is not there. It
outlives the client, and goes on after its time limit and after a job that is worth more. scancel
and `cluster down` end it, and nothing is lost. Its numbers are those of a sweep that nothing
disturbed. Slurm keeps it to its memory by cgroups."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from shell import Shell
from waiting import wait_until

NUMBERS = (11, 12)
CONF = f"""
ClusterName=lab
SlurmctldHost={socket.gethostname().partition(".")[0]}(10.99.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/munge.socket
CredType=cred/munge
StateSaveLocation=/tmp/state
SlurmdSpoolDir=/tmp/spool
SlurmctldPidFile=/tmp/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MpiDefault=none
ReturnToService=2
NodeName=machine-11 NodeAddr=10.99.0.11 CPUs=2 RealMemory=4000 Gres=gpu:a100:1
NodeName=machine-12 NodeAddr=10.99.0.12 CPUs=2 RealMemory=4000 Gres=gpu:a100:1
PartitionName=main Nodes=machine-[11-12] Default=YES State=UP PriorityTier=1 GraceTime=60
PartitionName=high Nodes=machine-[11-12] State=UP PriorityTier=9 PreemptMode=OFF
"""
CGROUPS = """
CgroupPlugin=cgroup/v1
CgroupAutomount=no
ConstrainRAMSpace=yes
"""
MUNGE = (
    "munged --foreground --force --key-file /mnt/munge.key --socket /tmp/munge.socket"
    + "".join(f" --{name}-file /tmp/munge.{name}" for name in ("pid", "log", "seed"))
)
OWN = "export PATH=$PATH:/usr/sbin; mkdir -p /tmp/state /tmp/spool; "
MUNGED = f"{OWN} exec {MUNGE}"
DAEMON = f"{OWN} until [ -S /tmp/munge.socket ]; do sleep 0.1; done; exec"
UNASKED = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
SSH = ("ssh", "-i", "/mnt/key", *UNASKED)
GRID = """
name: batch
task: {name: mine.py:Slow, n: 4, value_range: 64, nap: 0.1, mark: /mnt/mark}
model: {name: standard, d: 8, layers: 1, heads: 1}
train: {steps: 600, batch_size: 8}
evaluate: {check_samples: 32, verdict_samples: 64}
seeds: [0, 1, 2]
checkpoint_seconds: 0.5
"""
CLUSTER = f"""
kind: slurm
folder: /mnt/jobs
results: /mnt/results
python: {sys.executable}
nodes: 2
cpus: 1
price: 2
setup: echo this is setup; mkdir -p /tmp/own; export TMPDIR=/tmp/own
sbatch: {{partition: main, mem: 3G, time: "00:30:00"}}
"""
HUNGRY = """
from dataclasses import dataclass
import torch
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Hungry(Standard):
    extra: int = 0

    def build(self, *given):
        net = super().build(*given)

        def eat(net, given):
            net.held = torch.ones(self.extra, dtype=torch.uint8)

        net.register_forward_pre_hook(eat)
        return net
"""
CARDS = f"""
kind: slurm
folder: /mnt/jobs
results: /mnt/cards
python: {sys.executable}
image: /mnt/own.sif
nodes: 2
min_nodes: 1
cpus: 2
gpus: a100:1
per_trial: {{cpus: 1, gpus: 0.5}}
setup: export PATH=/mnt/bin:$PATH
sbatch: {{mem: 3G, gres: "gpu:a100:1"}}
"""
PROGRAM = """
name: cards
loop: {program: "python card.py {width}", as: own, task: t, metrics: {acc: up}, width: [1, 2]}
goal: acc > 0.5
"""
CARD = """
import os, sys, time, pathlib
assert os.environ["CUDA_VISIBLE_DEVICES"] == "0", "its card"
assert os.environ["IN_IMAGE"] == "/mnt/own.sif"
pathlib.Path(f"/mnt/began-{sys.argv[1]}").touch()
while len(list(pathlib.Path("/mnt").glob("began-*"))) < 2:
    time.sleep(0.1)  # both share a card
print('{"step": 1, "acc": 1.0}')
"""
APPTAINER = """#!/bin/bash
# Plays apptainer: all that is bound is there, and the image has a PATH of its own.
[ "$1" = exec ] || exit 255
shift
while [[ $1 == --* ]]; do
  if [ "$1" = --bind ]; then shift; ls -d ${1//,/ } > /dev/null || exit 254; fi
  shift
done
export IN_IMAGE=$1 PATH=/usr/bin:/bin
shift
exec unshare --pid --fork --kill-child --mount-proc "$@"
"""
LAUNCH = ("launch", "grid.yaml", "--cluster", "cluster.yaml", "--yes")


@pytest.fixture(scope="module")
def shell(lab: Shell) -> Iterator[Shell]:
    path = f"{os.environ['PATH']}:/usr/sbin"
    if absent := [
        name for name in ("munged", "slurmctld", "slurmd") if not shutil.which(name, path=path)
    ]:
        pytest.skip(f"needs {', '.join(absent)}")
    lab.environment |= {"SLURM_CONF": "/mnt/slurm.conf"}
    lab.write("slurm.conf", CONF)
    lab.write("cgroup.conf", CGROUPS)
    lab.write("gres.conf", "Name=gpu Type=a100 File=/dev/null\n")
    key = lab.folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(64))
    for name, text in (("grid.yaml", GRID), ("cluster.yaml", CLUSTER)):
        lab.write(name, text)
    daemons = [start(lab, "bash", "-c", MUNGED)]
    daemons += [start(lab, *on(number), MUNGED) for number in NUMBERS]
    daemons.append(start(lab, "bash", "-c", f"{DAEMON} slurmctld -D"))
    for number in NUMBERS:
        slurmd = f"{DAEMON} slurmd -D -f /mnt/slurm.conf -N machine-{number}"
        daemons.append(start(lab, *on(number), slurmd))
    wait_until(lambda: told(lab, "sinfo", "--noheader", "--format=%D%t") == "2idle")
    yield lab
    for daemon in daemons:
        daemon.kill()
        daemon.wait()


def on(number: int) -> tuple[str, ...]:
    return (*SSH, f"10.99.0.{number}")


def start(lab: Shell, *command: str) -> subprocess.Popen[str]:
    """A command beside the machines, or on one by SSH."""
    with (lab.folder / "slurm.err").open("a") as log:
        return subprocess.Popen(
            [*lab.command[:-1], *command],
            env={**os.environ, **lab.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def told(lab: Shell, *command: str) -> str:
    return start(lab, *command).communicate(timeout=60)[0].strip()


def saved(shell: Shell) -> set[int]:
    """The steps that checkpoints hold."""
    names = (path.name for path in (shell.folder / "results").glob("checkpoints/*/*.pt"))
    return {int(name.partition("-")[0]) for name in names}


def wait_for_progress(shell: Shell) -> None:
    before = saved(shell)
    wait_until(lambda: saved(shell) - before, 400)


def memories() -> set[int]:
    """The bytes of memory that the raylets of jobs have to give."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(path.read_text())
    raylets = [one for one in lines if "raylet/raylet" in one and re.search(r"/sweepd-\d+-\d", one)]
    return {int(found[1]) for line in raylets if (found := re.search(r"\bmemory,(\d+)", line))}


def rays(shell: Shell) -> list[str]:
    """The folders of Rays on the nodes: in the job's temporary one, where a node has it."""
    look = "ls -d /tmp/sweepd-* /tmp/own/sweepd-* 2>/dev/null"
    return [line for number in NUMBERS for line in told(shell, *on(number), look).split()]


def test_a_sweep_outlives_what_slurm_does_to_it(shell: Shell) -> None:
    client = shell.start(*LAUNCH)
    wait_for_progress(shell)
    [job] = shell.rows("cluster", "status", "cluster.yaml")
    assert (job["type"], job["state"], job["price"]) == ("batch", "RUNNING", 4.0)
    assert told(shell, "squeue", "--noheader", "--format=%m %b").split()[0] == "3G"
    assert memories() == {3 << 30}, "Ray counts on the memory of the job alone"
    token = shell.folder / "jobs" / job["name"] / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    client.send_signal(signal.SIGINT)
    _, said = client.communicate(timeout=60)
    assert client.returncode == 0 and "detached" in said

    follower = shell.start(*LAUNCH)
    assert follower.stderr
    assert any("following it" in line for line in iter(follower.stderr.readline, ""))
    assert [str(Path(folder).parent) for folder in rays(shell)] == ["/tmp/own"] * 2
    told(shell, "scancel", f"--name={job['name']}")
    _, said = follower.communicate(timeout=200)
    assert follower.returncode == 3 and "was ended (CANCELLED)" in said
    wait_until(lambda: not rays(shell), 60)

    follower = shell.start(*LAUNCH)
    wait_for_progress(shell)
    shell.run("cluster", "down", "cluster.yaml", "--yes")
    _, said = follower.communicate(timeout=60)
    assert follower.returncode == 130 and "saving what runs" in said
    assert shell.rows("cluster", "status", "cluster.yaml") == []
    shell.environment["SWEEPD_RESULTS"] = "/mnt/results"
    [ended] = shell.sql("SELECT count(*) AS n FROM attempts WHERE status = 'interrupted'")
    assert ended["n"] >= 1

    shell.write("mark", "")
    said = shell.run(*LAUNCH).stderr
    assert "that can continue earlier runs" in said and "3 of 3 trials done" in said
    logs = "".join(path.read_text() for path in (shell.folder / "jobs").glob("*/*log"))
    assert "this is setup" in logs and token.read_text() not in logs + said
    hosts = {row["host"] for row in shell.sql("SELECT host FROM attempts")}
    assert hosts == {f"machine-{number}" for number in NUMBERS}

    columns = "seed, status, acc, loss, step"
    rows = shell.sql(f"SELECT {columns} FROM trials ORDER BY ALL")
    shell.environment["SWEEPD_RESULTS"] = "/mnt/undisturbed"
    shell.run("launch", "grid.yaml")
    assert rows == shell.sql(f"SELECT {columns} FROM trials ORDER BY ALL")


def test_a_sweep_goes_on_after_its_time_limit(shell: Shell) -> None:
    shell.folder.joinpath("mark").unlink(missing_ok=True)
    shell.write(
        "brief.yaml", CLUSTER.replace("30:00", "06:00").replace("/mnt/results", "/mnt/again")
    )
    shell.write("long.yaml", GRID.replace("steps: 600", "steps: 3000"))
    client = shell.start("launch", "long.yaml", "--cluster", "brief.yaml", "--yes")
    assert client.stderr
    assert any("saving what runs" in line for line in iter(client.stderr.readline, ""))
    shell.write("mark", "")
    _, said = client.communicate(timeout=900)
    assert client.returncode == 0 and "PENDING" in said and "3 of 3 trials done" in said, said
    shell.environment["SWEEPD_RESULTS"] = "/mnt/again"
    [ended] = shell.sql("SELECT count(DISTINCT attempt) AS n FROM attempts")
    assert ended["n"] >= 2


def test_one_trial_beyond_the_memory_and_a_job_that_is_worth_more(shell: Shell) -> None:
    shell.folder.joinpath("mark").unlink(missing_ok=True)
    own = CLUSTER.replace("nodes: 2", "nodes: 1").replace("cpus: 1", "cpus: 2")
    shell.write("one.yaml", own.replace("/mnt/results", "/mnt/taken"))
    shell.write("hungry.py", HUNGRY)
    model = "{name: hungry.py:Hungry, extra: [0, 8000000000], "
    shell.write("hungry.yaml", GRID.replace("{name: standard, ", model).replace("0, 1, 2", "0"))
    client = shell.start("launch", "hungry.yaml", "--cluster", "one.yaml", "--yes")
    assert client.stderr
    lines = []
    for line in client.stderr:
        lines.append(line)
        if ": failed" in line:
            break
    assert ": failed" in lines[-1], lines
    worth_more = start(shell, "srun", "--partition=high", "--nodes=2", "--mem=4000M", "sleep", "1")
    assert worth_more.wait(timeout=100) == 0
    shell.write("mark", "")
    _, said = client.communicate(timeout=400)
    assert "saving what runs" in said and "PENDING" in said, said
    assert client.returncode == 1 and "1 of 2 trials done, 1 failed" in said, said
    shell.environment["SWEEPD_RESULTS"] = "/mnt/taken"
    rows = shell.sql("SELECT status, count(*) AS n FROM attempts GROUP BY ALL ORDER BY ALL")
    assert {"status": "interrupted", "n": 1} in rows and {"status": "completed", "n": 1} in rows


def test_an_image_and_cards_for_programs(shell: Shell) -> None:
    """Two trials of a program share a card, in what Apptainer runs. Cards are asked for by --gres.
    The job may have two nodes, of which one is enough."""
    (shell.folder / "bin").mkdir(exist_ok=True)
    shell.write("bin/apptainer", APPTAINER).chmod(0o755)
    shell.write("own.sif", "")
    shell.write("cluster.yaml", CARDS)
    shell.write("grid.yaml", PROGRAM)
    shell.write("card.py", CARD)
    idle = shell.run(*LAUNCH, "--set", "resources={cpus: 1}", exits=2).stderr
    assert "the cards would idle" in idle
    client = shell.start(*LAUNCH)
    wait_until(lambda: "JobId" in told(shell, "scontrol", "show", "job", "--details"), 60)
    jobs = told(shell, "scontrol", "show", "job")
    assert "gres:gpu:a100:1" in jobs.replace("=", ":") and "NumNodes=" in jobs, jobs
    _, said = client.communicate(timeout=600)
    assert client.returncode == 0 and "2 of 2 trials done" in said, said

    shell.write("card.py", "import nowhere_at_all\n" + CARD)
    shell.write("grid.yaml", PROGRAM.replace("name: cards", "name: lacking"))
    said = shell.run(*LAUNCH, exits=3).stderr
    assert "cannot run the program: ModuleNotFoundError: No module named 'nowhere_at_all'" in said
    assert "node machine-1" in said and not rays(shell)
