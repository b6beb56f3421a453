"""What a cluster lacks is told before the first trial, once, and ends the launch: a node, a card
that torch can use, a module. What a launch may spend ends it, too. The cluster is a Ray of this
machine whose node claims to have eight cards. Covers `run/driver.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.conftest import Raylets
from shell import SharedShell

TASK = """
import only_here
from dataclasses import dataclass
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Far(LIS):
    pass
"""
GRID = """
name: far
task: {name: lis, n: 2, value_range: 64}
model: {name: standard, d: 4, layers: 1, heads: 1}
train: {steps: 1000000, batch_size: 4}
evaluate: {check_samples: 8, verdict_samples: 8}
seeds: [0, 1, 2]
"""
PLACE = """
kind: local
ray: RAY
nodes: {head: {most: 1, cpus: 0, price: 60}, large: {most: 1, cpus: 9, price: 7200}}
"""
PROGRAM = """
name: program
loop: {program: "python NAME {width} {seed}", as: own, task: t, metrics: {acc: up}, width: [1]}
goal: acc > 0.5
seeds: [0, 1, 2]
"""


STUCK = """
import os, sys, time

while "default_worker.py" in open("/proc/self/cmdline").read() and os.path.exists(FILE):
    time.sleep(1)
"""


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file, there at first. While it is, no process of a Ray that is started later becomes a
    worker. Of the module, as `raylets` is: pytest would make one of a test after the Ray."""
    folder = tmp_path_factory.mktemp("stuck")
    file = folder / "stuck"
    (folder / "sitecustomize.py").write_text(STUCK.replace("FILE", repr(str(file))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        file.touch()
        yield file


@pytest.mark.parametrize("raylets", [(0, "1/8")], indirect=True, ids=["a node with cards"])
def test_what_ends_a_launch(stuck: Path, raylets: Raylets, shell: SharedShell) -> None:
    shell.environment |= raylets.token
    launch = ("launch", "grid.yaml", "--cluster", "cluster.yaml", "--yes")
    shell.write("grid.yaml", GRID)

    def ended(more: str, exits: int, cards: str = "") -> str:
        place = PLACE.replace("RAY", raylets.ray).replace("cpus: 9", f"cpus: 9{cards}")
        shell.write("cluster.yaml", f"{place}{more}\n")
        return shell.run_alone(*launch, exits=exits).stderr

    # The nodes have room for a trial, and never start a worker.
    told = ended("per_trial: {cpus: 1}\nstart_seconds: 4", 3)
    assert "Ray has started no worker on its nodes for" in told, told
    assert "2 of 2 nodes do not answer" in told and "sweepd doctor" in told, told
    stuck.unlink()

    # No node has so many cores, and Ray waits for one that never comes. Workers do come by then.
    told = ended("per_trial: {cpus: 5}\nstart_seconds: 30", 3)
    assert "no node that can run a trial has come for" in told and "sweepd doctor" in told, told

    # torch here knows no CUDA.
    def on_cards() -> None:
        told = ended("per_trial: {cpus: .25, gpus: .5}", 3, cards=", gpus: 8")
        assert "cannot use its card: Torch not compiled with CUDA enabled" in told, told
        assert "creation task" not in told and told.count("cannot use its card") == 1

    on_cards()

    # Both nodes count.
    told = ended("per_trial: {cpus: 1}\nmax_dollars: 1", 130)
    assert "max_dollars: " in told and "of 1 are spent: saving what runs" in told, told

    # The driver has a module that the node lacks.
    (shell.folder / "driver").mkdir()
    shell.write("driver/only_here.py", "")
    shell.write("far.py", TASK)
    own = GRID.replace("name: far", "name: own").replace("name: lis", "name: far.py:Far")
    shell.write("grid.yaml", own)
    shell.environment["PYTHONPATH"] = str(shell.folder / "driver")
    told = ended("per_trial: {cpus: 1}", 3)
    assert "has no module only_here, which your code imports" in told and "packages" in told, told

    # The same of programs, whose Python each node tries before the first trial.
    shell.write("alone.py", "import only_here")
    shell.write("grid.yaml", PROGRAM.replace("NAME", "alone.py"))
    told = ended("per_trial: {cpus: 1}", 3)
    assert "cannot run the program: ModuleNotFoundError: No module named 'only_here'" in told, told
    shell.write("card.py", "import torch")
    shell.write("grid.yaml", PROGRAM.replace("NAME", "card.py"))
    on_cards()
