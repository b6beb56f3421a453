"""What a user's task may do wrong, on a real store without Ray. Each fault is one failed attempt
with its text and its log, and none passes for a result. Faults that end the worker are tested in
`e2e/`."""

from __future__ import annotations

import shutil
from pathlib import Path

import faulty
import pytest
from faults import ran

from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.store.store import Store
from sweepd.trial import attempt
from sweepd.trial.attempt import MOST_PRINTED, MOST_TOLD, Attempt

GRID = """
task: {name: TASK, n: 3, value_range: 64}
model: {name: standard, d: 8, layers: 1, heads: 1}
train: {steps: 20, batch_size: 4}
evaluate: {check_every: 10, check_samples: 8, verdict_samples: 8}
"""
WORDS = {
    "exception": "RuntimeError: on purpose",
    "odd text": "RuntimeError: ?\0 red",
    "untellable": "Untellable: (its text can't be told)",
    "recursion": "RecursionError",
    "host memory": "MemoryError: Unable to allocate 8.00 PiB",
    "CUDA memory": "OutOfMemoryError: CUDA out of memory.",
    "few rows": "4 rows were asked for; inputs and targets are ((1, 9), (1, 9))",
    "no targets": "a batch without a target",
    "unknown ids": "IndexError: index out of range",
    "few chains": "8 rows were asked for; tokens are (1, 10)",
    "no end": "rows that do not end in <eos>",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(faulty.__file__, tmp_path)
    return tmp_path


def run(folder: Path, task: str, *sets: str) -> tuple[Store, Attempt]:
    store = Store.create(str(folder / "results"))
    grid = parse_grid(GRID.replace("TASK", f"faulty.py:{task}"), "grid.yaml", sets, folder)
    [trial] = plan(grid).trials
    return store, ran(store, trial, base=folder)


@pytest.mark.parametrize("fault", [*faulty.ERRORS, *faulty.BATCHES, *faulty.SAMPLES])
def test_errors_and_rubbish_fail(folder: Path, fault: str) -> None:
    store, made = run(folder, "Rubbish", f"task.fault={fault}")
    [row] = store.read_trials().table.to_pylist()
    assert (row["status"], row["acc"], row["error"]) == ("failed", None, made.report()["error"])
    assert WORDS.get(fault, "Error") in row["error"] and len(row["error"]) <= MOST_TOLD
    log = store.read_log(made.trial.id)
    assert "Traceback" in log and len(log) < 3 * MOST_TOLD


def test_a_flood_of_output_is_cut(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "FLUSH_SECONDS", 0.0)
    store, made = run(folder, "Flood")
    assert made.status == "completed"
    log = store.read_log(made.trial.id)
    assert log.count("what it printed after this is left out") == 1
    assert MOST_PRINTED < len(log) < MOST_PRINTED + 1000 and "completed at step 20" in log
