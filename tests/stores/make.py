"""Make the store that later versions must read: `python tests/stores/make.py`, and commit it.

It writes two files to tests/stores/<version of sweepd>/, or to a folder there that it is told.
`store.tar.xz` is a small results folder with every kind of object and ending. `expected.json` is
what commands print of it. Run it once for each release. What is there is never made anew
(docs/store.md).
"""

import json
import shutil
import socket
import sys
import tempfile
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner

from sweepd.cli import application
from sweepd.grid import plan as planning
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.run import driver
from sweepd.store.store import Store
from sweepd.trial.attempt import Attempt, ledger_columns

GRIDS = (
    """
name: widths
task:  {name: lis, n: [2, 4], value_range: 16}
model: {name: [standard, linear], d: [4, 8], layers: 1, heads: 2}
train: {steps: 20, batch_size: 4, schedule: wsd, lr: {base: 5.0e-3, at_d: 32, power: -0.5}}
evaluate: {check_every: 10, check_samples: 8, verdict_samples: 16}
goal:  acc >= 0
""",
    """
name: rates
task:  {name: lis, n: 2, value_range: 64}
model: {name: standard, d: 4, layers: 1, heads: 1}
train: {steps: 20, batch_size: 4, lr: [1.0e38, 1.0e-3], warmup: 0, clip: 1.0e38}
evaluate: {check_samples: 8, verdict_samples: 16}
goal:  loss < 100
""",
)
COMMANDS = (
    ("status",),
    ("query", "min d", "--sweep", "widths", "--code", "all"),
    ("query", "frontier flops, acc", "--sweep", "widths", "--code", "all"),
    ("sql", "SELECT * FROM trials ORDER BY ALL", "--code", "all"),
    ("sql", "SELECT id, attempt, status FROM attempts ORDER BY ALL", "--code", "all"),
    ("sql", "SELECT * FROM metrics ORDER BY ALL", "--code", "all"),
    ("sql", "SELECT * FROM cells ORDER BY ALL", "--code", "all"),
    ("sql", "SELECT name, goal, pass, trials, ended FROM sweeps ORDER BY ALL", "--code", "all"),
)


def make(folder: Path) -> None:
    """Fill a new folder with `store/` and `expected.json`."""
    torch.set_num_threads(1)
    socket.gethostname = lambda: "somewhere"  # no trace of the machine
    store = Store.create(str(folder / "store"))
    for text in GRIDS:
        plan = planning.plan(parse_grid(text, "grid.yaml", [], Path()))
        driver._save(plan, store)
        launch = {"sweep": plan.grid.name, "host": "somewhere", "pid": 1, "command": ["sweepd"]}
        number = store.new_launch(launch)
        first, second, *others = plan.trials
        for trial in others or [first]:
            run(store, trial, number * 1000 + 1, plan.grid.name)
        store.compact()
        for trial in (first, second) if others else (second,):  # after compaction, one by one
            run(store, trial, number * 1000 + 1, plan.grid.name)
        if others:
            run_badly(store, replace(first, id=f"{first.id[:-1]}0"), number * 1000, plan.grid.name)
    (folder / "expected.json").write_text(json.dumps(answers(store.address), indent=1) + "\n")


def run(store: Store, trial: Trial, number: int, sweep: str, base: Path = Path()) -> None:
    attempt = Attempt(store, trial, number, sweep, base, "cpu", checkpoint_seconds=1e9)
    attempt.begin()
    while attempt.status is None:
        attempt.advance(60)


def run_badly(store: Store, trial: Trial, number: int, sweep: str) -> None:
    """A failed attempt, and an interrupted one that leaves a checkpoint."""
    failed = {"status": "failed", "error": "RuntimeError: bad luck"}
    store.write_trials([{**ledger_columns(trial, number + 1, sweep), **failed}])
    attempt = Attempt(store, trial, number + 2, sweep, Path(), "cpu", checkpoint_seconds=0)
    attempt.begin()
    while attempt.training and attempt.training.step < 12:
        attempt.advance(0)
    attempt.interrupt()


def planned(store: Path, sweep: Path, *options: str) -> dict[str, Any]:
    """What `plan` says of a sweep's frozen grid, in a store."""
    command = ["plan", str(sweep / "grid.yaml"), "--results", str(store), "--json", *options]
    done = CliRunner().invoke(application(), command)
    assert done.exit_code == 0, (command, done.output)
    [row] = json.loads(done.stdout)
    return dict(row)


def answers(address: str) -> list[dict[str, Any]]:
    """What the commands print, each with its arguments."""
    found = []
    for command in COMMANDS:
        done = CliRunner().invoke(application(), [*command, "--results", address, "--json"])
        assert done.exit_code == 0, (command, done.output)
        found.append({"command": command, "rows": json.loads(done.stdout)})
    return found


if __name__ == "__main__":
    made = Path(__file__).parent / (sys.argv[1] if sys.argv[1:] else version("sweepd"))
    if made.exists():
        sys.exit(f"{made} exists: a store that was committed is never made anew")
    made.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        make(Path(scratch))
        shutil.make_archive(str(made / "store"), "xztar", scratch, "store")
        shutil.move(Path(scratch, "expected.json"), made)
    sys.stdout.write(f"{made}: commit it\n")
