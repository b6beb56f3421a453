"""Real faults for tests: a clock that is wrong, a disk that is full, a disk that is read-only.
Besides, trials that run without Ray."""

import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch

from sweepd.grid import plan as planning
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.store.store import Store
from sweepd.trial.attempt import Attempt

GRID = """
name: faults
task:  {name: lis, n: 3, value_range: 64}
model: {name: standard, d: 8, layers: 1, heads: 1, dropout: 0.1}
train: {steps: 60, batch_size: 4}
evaluate: {check_every: 20, check_samples: 8, verdict_samples: 16}
"""


def faked_clock(offset: str) -> dict[str, str]:
    """Environment of a process whose clock is off, e.g. by `-1d`, or as a file says at the time."""
    library = files("libfaketime") / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    says = "FAKETIME_TIMESTAMP_FILE" if offset.startswith("/") else "FAKETIME"
    always = {"LD_PRELOAD": str(library), "DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}
    return {**always, says: offset}


def run_alone(act: str, *arguments: object, **environment: str) -> str:
    """Run `act(*arguments)` of a test module, e.g. `test_faults.full_disk`, as root of a user and
    mount namespace of its own, where it may mount what nobody else sees: what it printed."""
    module, _, name = act.partition(".")
    code = f"import sys, {module}; {module}.{name}(*sys.argv[1:])"
    folders = (Path(__file__).parent, Path(__file__).with_name("store"))
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), **environment},
        capture_output=True,
        text=True,
    )
    if "unshare failed" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip(f"this machine lets nobody mount: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def the_trial(text: str = GRID) -> Trial:
    [trial] = planning.plan(parse_grid(text, "grid.yaml", [], Path())).trials
    return trial


torch.set_num_threads(1)


def attempt(store: Store, number: int, checkpoint_seconds: float = 0.0) -> Attempt:
    made = Attempt(store, the_trial(), number, "faults", Path(), "cpu", checkpoint_seconds)
    made.begin()
    return made


def finish(running: Attempt, seconds: float = 0.0) -> Attempt:
    while running.status is None:
        running.advance(seconds)
    return running


def ran(
    store: Store, trial: Trial, number: int = 1001, base: Path = Path(), sweep: str = "s"
) -> Attempt:
    """An attempt that has come to its end, and writes no checkpoint on its way."""
    made = Attempt(store, trial, number, sweep, base, "cpu", checkpoint_seconds=1e9)
    made.begin()
    return finish(made, 9.0)


class Runs:
    """Runs trials of a grid on one store, attempt by attempt. The grid's own files and the store
    lie in `folder`."""

    def __init__(self, folder: Path, grid: str) -> None:
        self.folder, self.grid, self.number = folder, grid, 1000
        self.store = Store.create(str(folder / "results"))

    def trial(self, *sets: str) -> Trial:
        return planning.plan(parse_grid(self.grid, "grid.yaml", sets, self.folder)).trials[0]

    def begin(self, trial: Trial) -> Attempt:
        self.number += 1
        made = Attempt(self.store, trial, self.number, "s", self.folder, "cpu", 1e9)
        made.begin()
        return made

    def at(self, trial: Trial, step: int) -> Attempt:
        """An attempt that has come to this step."""
        made = self.begin(trial)
        while made.report()["step"] < step:
            made.advance(0.0)
        assert made.report()["step"] == step
        return made

    def run(self, *sets: str) -> dict[str, Any]:
        """The ending of a trial that is run to its end."""
        trial = self.trial(*sets)
        finish(self.begin(trial), 9.0)
        return self.ending(trial)

    def ending(self, trial: Trial) -> dict[str, Any]:
        rows = [row for row in self.store.read_trials().table.to_pylist() if row["id"] == trial.id]
        return max(rows, key=lambda row: row["attempt"])

    def metrics(self, trial: Trial, *names: str) -> dict[int, tuple[Any, ...]]:
        """What was measured last at each step."""
        rows = self.store.read_metrics([trial.id]).table.to_pylist()
        newest = {row["step"]: row for row in sorted(rows, key=lambda row: row["attempt"])}
        return {step: tuple(newest[step][name] for name in names) for step in sorted(newest)}


def numbers(store: Store) -> tuple[list[Any], list[Any]]:
    """What must not depend on faults: of each step its newest row, and how the trial ended."""
    steps = {}
    for row in sorted(store.read_metrics().table.to_pylist(), key=lambda row: row["attempt"]):
        kept = ("loss", "acc", "chain_acc", "lr", "tokens")
        steps[row["step"]] = [row["step"], *(row[name] for name in kept)]
    ended = max(store.read_trials().table.to_pylist(), key=lambda row: row["attempt"])
    columns = ("id", "status", "acc", "loss", "correct", "step", "tokens")
    return sorted(steps.values()), [ended[name] for name in columns]
