"""A sweep on a real Slurm of one node: it outlives the client, `scancel` and `cluster down` end it
with nothing lost, and it ends with the numbers of a sweep that was never disturbed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time

import pytest
from e2e.conftest import Shell
from torture import slurm

TASK = '''
import time
from dataclasses import dataclass
from pathlib import Path
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Slow(LIS):
    """Slow until there is a file named `mark`."""

    mark: str = ""

    def fill(self, rng, tokens):
        if not Path(self.mark).exists():
            time.sleep(0.1)
        super().fill(rng, tokens)
'''
GRID = """
name: batch
task: {name: "slow.py:Slow", n: 4, value_range: 64, mark: MARK}
model: {name: standard, d: 8, layers: 1, heads: 1}
train: {steps: 600, batch_size: 8}
evaluate: {check_samples: 32, verdict_samples: 64}
seeds: [0, 1, 2]
checkpoint_seconds: 0.5
"""
CLUSTER = """
kind: slurm
folder: FOLDER/jobs
results: FOLDER/results
python: PYTHON
cpus: CPUS
price: 2
setup: echo this is setup
sbatch: {partition: main, time: "00:30:00"}
"""
LAUNCH = ("launch", "grid.yaml", "--cluster", "cluster.yaml", "--yes")
pytestmark = pytest.mark.skipif(bool(slurm.missing()), reason=f"no {slurm.missing()} here")


@pytest.fixture
def shell(tmp_path):
    (tmp_path / "slurm").mkdir()
    with slurm.running(tmp_path / "slurm") as environment:
        shell = Shell(tmp_path, environment=environment)
        shell.write("slow.py", TASK)
        shell.write("grid.yaml", GRID.replace("MARK", str(tmp_path / "mark")))
        named = {"FOLDER": str(tmp_path), "PYTHON": sys.executable, "CPUS": str(os.cpu_count())}
        text = CLUSTER
        for name, value in named.items():
            text = text.replace(name, value)
        shell.write("cluster.yaml", text)
        yield shell


def saved(shell):
    """The steps that checkpoints hold."""
    names = (path.name for path in (shell.folder / "results").glob("checkpoints/*/*.pt"))
    return {int(name.partition("-")[0]) for name in names}


def wait_for_progress(shell):
    before, until = saved(shell), time.monotonic() + 120
    while not saved(shell) - before:
        assert time.monotonic() < until, "no checkpoint came"
        time.sleep(0.2)


def test_a_sweep_outlives_what_slurm_does_to_it(shell):
    client = shell.start(*LAUNCH)
    wait_for_progress(shell)
    [job] = shell.rows("cluster", "status", "cluster.yaml")
    assert (job["type"], job["state"], job["price"]) == ("batch", "RUNNING", 2.0)
    token = shell.folder / "jobs" / job["name"] / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    client.send_signal(signal.SIGINT)
    _, told = client.communicate(timeout=60)
    assert client.returncode == 0 and "detached" in told

    follower = shell.start(*LAUNCH)
    assert any("following it" in line for line in iter(follower.stderr.readline, ""))
    subprocess.run(
        ["scancel", f"--name={job['name']}"], env={**os.environ, **shell.environment}, check=True
    )
    _, told = follower.communicate(timeout=200)
    assert follower.returncode == 3 and "was ended (CANCELLED)" in told

    follower = shell.start(*LAUNCH)
    wait_for_progress(shell)
    shell.run("cluster", "down", "cluster.yaml", "--yes")
    _, told = follower.communicate(timeout=60)
    assert follower.returncode == 130 and "saving what runs" in told
    assert shell.rows("cluster", "status", "cluster.yaml") == []
    shell.environment["SWEEPD_RESULTS"] = str(shell.folder / "results")
    [ended] = shell.sql("SELECT count(*) AS n FROM attempts WHERE status = 'interrupted'")
    assert ended["n"] >= 1

    shell.write("mark", "")
    told = shell.run(*LAUNCH).stderr
    assert "that can continue earlier runs" in told and "3 of 3 trials done" in told
    logs = "".join(path.read_text() for path in (shell.folder / "jobs").glob("*/*log"))
    assert "this is setup" in logs and token.read_text() not in logs + told

    columns = "seed, status, acc, loss, step"
    rows = shell.sql(f"SELECT {columns} FROM trials ORDER BY ALL")
    shell.environment["SWEEPD_RESULTS"] = str(shell.folder / "undisturbed")
    shell.run("launch", "grid.yaml")
    assert rows == shell.sql(f"SELECT {columns} FROM trials ORDER BY ALL")
