"""Machines on which Ray's workers do not start: the launch ends with what they say of it."""

import re
from pathlib import Path

import pytest
from shell import Shell

GRID = """
task: {name: lis, n: 2, value_range: 64}
model: {name: standard, d: 4, heads: 1}
train: {steps: 20, batch_size: 4}
seeds: [0]
retries: 0
"""
SITE = """
import sys

if "default_worker.py" in (words := open("/proc/self/cmdline").read()) and "setup_" not in words:
    {}
"""
"""A start-up file of Python's that does something in Ray's workers alone."""
NO_TORCH = "sys.modules['torch'] = None"
SITUATIONS = {
    "they die": ("sys.exit('no licence for this node')", "workers do not start: .*no licence for"),
    "torch cannot be imported": (NO_TORCH, "no worker can be set up: .*import of torch halted"),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_launch_whose_workers_do_not_start_ends(situation: str, tmp_path: Path) -> None:
    does, said = SITUATIONS[situation]
    settings = {"PYTHONPATH": str(tmp_path), "RAY_worker_register_timeout_seconds": "9"}
    shell = Shell(tmp_path, environment=settings)
    shell.write("sitecustomize.py", SITE.format(does))
    shell.write("grid.yaml", GRID)
    launch = shell.start("launch", "grid.yaml", "--yes")
    _, told = launch.communicate(timeout=shell.timeout)
    assert launch.returncode == 3 and re.search(said, told, re.DOTALL), told
