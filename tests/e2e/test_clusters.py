"""A sweep on a cluster of several raylets, which Ray's Jobs API hands over. The sweep goes on when
the client that launched it is killed, and when a node is killed. It runs the user's own code as it
was in the folder of the launch. Covers `__main__.py`, `cli/cluster.py` and `cluster/jobs.py`."""

import signal
import sys
from subprocess import Popen

import pytest
from e2e.conftest import Raylets, Running
from shell import SharedShell
from waiting import wait_until

from sweepd.store.store import Store

TASK = '''
import sys
from dataclasses import dataclass
from beside import nap
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Far(LIS):
    """Says where it runs, slowly where it is trained until there is a file named `mark`."""

    mark: str = ""

    def fill(self, rng, tokens):
        print(f"with {nap.__code__.co_filename} and {sys.modules[LIS.__module__].__file__}")
        nap(self.mark)
        super().fill(rng, tokens)
'''
BESIDE = """
import sys
import time
from pathlib import Path

def nap(mark):
    if "default_worker" in sys.argv[0] and not Path(mark).exists():
        time.sleep(0.8)
"""
GRID = """
name: far
task: {name: "own/far.py:Far", n: 2, value_range: 64, mark: MARK}
model: {name: standard, d: 4, layers: 1, heads: 1}
train: {steps: 40, batch_size: 4}
evaluate: {check_samples: 8, verdict_samples: 8}
seeds: [0, 1]
checkpoint_seconds: 0.5
retries: 0
"""


@pytest.fixture
def far(shell: SharedShell, raylets: Raylets) -> SharedShell:
    """A folder with a user's own task in two files, a grid, and the file of the cluster."""
    (shell.folder / "own").mkdir()
    shell.write("own/far.py", TASK)
    shell.write("own/beside.py", BESIDE)
    shell.write("grid.yaml", GRID.replace("MARK", str(shell.folder / "mark")))
    shell.write(
        "cluster.yaml",
        f"kind: address\naddress: {raylets.address}\npython: {sys.executable}\n"
        f"results: {shell.folder / 'results'}\nnodes: {{core: {{most: 2, cpus: 1, price: 3600}}}}",
    )
    return shell


@pytest.mark.parametrize("raylets", [(1, 1)], indirect=True, ids=["a head and a node"])
def test_a_sweep_outlives_its_client_and_a_node(
    far: SharedShell, running: Running, raylets: Raylets, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "token" in far.run_alone("cluster", "status", "cluster.yaml", exits=3).stderr
    far.environment |= raylets.token
    launch = ("launch", "grid.yaml", "--cluster", "cluster.yaml")
    assert "--yes" in far.run(*launch, exits=2).stderr

    client = running(far.start(*launch, "--yes"))
    saved = far.folder / "results" / "checkpoints"
    wait_until(lambda: len({path.parent for path in saved.glob("*/*.pt")}) == 2)
    client.kill()
    _, told = client.communicate()
    assert "2 at once" in told and "$" in told
    assert raylets.program.stdin
    raylets.program.stdin.write("kill\n")
    raylets.program.stdin.flush()

    def following() -> Popen[str]:
        process = running(far.start(*launch, "--yes"))
        assert process.stderr
        lines = iter(process.stderr.readline, "")
        assert any("following it" in line for line in lines)
        assert any("node was lost" in line for line in lines)
        return process

    follower = following()
    follower.send_signal(signal.SIGINT)
    _, told = follower.communicate(timeout=200)
    assert follower.returncode == 0 and "sweepd cancel far --results" in told

    follower = following()
    far.write("mark", "")
    _, told = follower.communicate(timeout=120)
    assert follower.returncode == 0 and "2 of 2 trials done" in told
    monkeypatch.setenv("SWEEPD_RESULTS", str(far.folder / "results"))
    rows = far.sql("SELECT status, error FROM attempts ORDER BY status")
    assert [row["status"] for row in rows] == ["completed", "completed", "interrupted"]
    assert "its node has died" in rows[-1]["error"]

    [moved] = far.sql("SELECT id FROM attempts WHERE status = 'interrupted'")
    log = far.run("logs", moved["id"]).stdout
    assert "continuing from step" in log
    assert "/own/beside.py and /" in log and log.count("working_dir_files") >= 2
    store = Store.open(str(far.folder / "results"))
    [made] = store.launches()
    assert made["origin"]["base"] == store.load_sweep("far").base == str(far.folder)
    assert made["origin"]["pid"] == client.pid != made["pid"]
