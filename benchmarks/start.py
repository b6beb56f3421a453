"""How long a launch takes to its first training step, beside Ray and Tune by themselves.

    python benchmarks/start.py [--rounds 5]

The peer is a script that starts Ray on this machine (`ray.init()`) and runs one Tune actor that
imports torch and makes a step. Each round runs both, alternating. It measures the time by the clock
from the start of the process to the first step, and the CPU time of all its processes to its end.
It prints both medians, and the median, least and greatest ratio over the rounds.

CPU time is that of the process and of all that it started, Ray's own processes included.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import psutil
from processes import SWEEPD

GRID = """
task: {name: lis, n: 4}
model: {name: standard, d: 8, layers: 1, heads: 2, positions: learned}
train: {steps: 1, batch_size: 4, warmup: 0}
evaluate: {check_samples: 8, verdict_samples: 8}
"""
PEER = """
import time
import ray
from ray import tune

class Actor(tune.Trainable):
    def setup(self, config):
        import torch

    def step(self):
        return {"done": True, "began": time.time()}

ray.init(log_to_driver=False)
resources = tune.with_resources(Actor, {"cpu": 1})
[result] = tune.Tuner(resources, run_config=tune.RunConfig(verbose=0, storage_path=FOLDER)).fit()
print(result.metrics["began"])
"""
OFTEN = 0.05
"""Seconds between looks at the CPU time of processes."""


def measured(command: list[str], folder: Path) -> tuple[float, float, str]:
    """Runs a command. Returns when it was started, the CPU seconds of its processes, and what it
    printed."""
    began = time.time()
    process = psutil.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    spent: dict[int, float] = {}
    while process.poll() is None:
        for one in _family(process):
            try:
                times = one.cpu_times()
            except psutil.NoSuchProcess:
                continue
            spent[one.pid] = times.user + times.system
        time.sleep(OFTEN)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return began, sum(spent.values()), out


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def ours(folder: Path) -> tuple[float, float]:
    (folder / "grid.yaml").write_text(GRID)
    began, spent, _ = measured([SWEEPD, "launch", "grid.yaml", "--yes"], folder)
    trials = folder / "sweepd-results" / "trials" / "*.parquet"
    [row] = duckdb.sql(f"SELECT epoch(min(started)) FROM '{trials}'").fetchall()
    return float(row[0]) - began, spent


def peers(folder: Path) -> tuple[float, float]:
    script = folder / "peer.py"
    script.write_text(f"FOLDER = {str(folder)!r}\n{PEER}")
    began, spent, out = measured([sys.executable, str(script)], folder)
    return float(out.split()[-1]) - began, spent


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    kinds: dict[str, Callable[[Path], tuple[float, float]]] = {"sweepd": ours, "Ray Tune": peers}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in kinds}
    for _ in range(given.rounds):
        for name, run in kinds.items():
            with tempfile.TemporaryDirectory() as folder:
                found[name].append(run(Path(folder)))
    for what, at in (("seconds to the first step", 0), ("CPU seconds in all", 1)):
        mine, theirs = ([times[at] for times in found[name]] for name in kinds)
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        print(
            f"{what}: sweepd {statistics.median(mine):.1f}, Ray Tune "
            f"{statistics.median(theirs):.1f}: {statistics.median(ratios):.2f} times "
            f"({min(ratios):.2f} to {max(ratios):.2f}, {given.rounds} rounds)"
        )


if __name__ == "__main__":
    main()
