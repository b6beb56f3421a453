"""The main job of sweepd, from one YAML grid to an answer. The grid is launched from Python. Then
the command line launches it again, extends it and asks about it. The grid names a tracker. Covers
`cli/run.py`."""

import contextlib
import csv

import pytest
from shell import ONE_AT_A_TIME, SharedShell

import sweepd
from sweepd.errors import UserError

GRID = """
name: small
task:  {name: lis, n: [2, 4], value_range: 16}
model: {name: [standard, linear, sparse], d: [4, 8], layers: 1, heads: 2}
train: {steps: 60, batch_size: 16}
evaluate: {check_every: 30, check_samples: 64, verdict_samples: 128}
goal:  acc > 0.5
log_to: [tensorboard]
"""
TRIALS = 12


@pytest.fixture(scope="module")
def swept(module_shell: SharedShell) -> SharedShell:
    """Two trials at a time, by a launch in a process of its own."""
    module_shell.write("grid.yaml", GRID)
    said: list[str] = []
    with contextlib.chdir(module_shell.folder):
        ended = sweepd.launch("grid.yaml", {"seeds": [0]}, say=said.append)
    assert ended.completed and not ended.interrupted and ended.lines == tuple(said)
    assert len(ended.results.trials()) == TRIALS
    return module_shell


def test_the_tracker_of_the_grid_was_told_of_every_trial(swept: SharedShell) -> None:
    told = swept.folder / "sweepd-trackers" / "tensorboard" / "small"
    assert {path.name for path in told.iterdir()} == {
        row["id"] for row in swept.sql("SELECT id FROM trials")
    }


def test_from_python_it_is_the_same_sweep(
    swept: SharedShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(swept.folder)
    before = swept.sql("SELECT * FROM attempts ORDER BY id")
    again = sweepd.launch("grid.yaml", {"seeds": [0]})
    assert again.completed and "nothing to do" in again.lines[-1]
    told = swept.run("launch", "grid.yaml", "--yes").stderr
    assert "nothing to do" in told and "ray" not in told.lower()
    assert swept.sql("SELECT * FROM attempts ORDER BY id") == before
    with pytest.raises(UserError, match="seedz"):
        sweepd.launch("grid.yaml", {"seedz": [0]})


def test_every_trial_is_recorded_once(swept: SharedShell) -> None:
    rows = swept.sql("SELECT * FROM trials")
    assert len(rows) == TRIALS == len({row["id"] for row in rows})
    for row in rows:
        assert row["status"] == "completed" and row["step"] == 60
        assert row["acc"] == row["correct"] / row["total"] and row["total"] == 128
        assert row["chain_correct"] <= row["correct"]
        assert row["L"] == 2 * row["n"] + 3 and row["size"] == row["n"]
        assert row["flops"] > row["flops_weights"] > 0 and row["params"] > 0


def test_metrics_have_every_logged_step(swept: SharedShell) -> None:
    [row] = swept.sql(
        "SELECT count(*) AS rows, count(DISTINCT id) AS trials, count(acc) AS checked FROM metrics"
    )
    assert row == {"rows": TRIALS * 6, "trials": TRIALS, "checked": TRIALS * 2}


def test_one_more_value_runs_only_the_new_trials(swept: SharedShell) -> None:
    before = {row["id"] for row in swept.sql("SELECT id FROM attempts")}
    [planned] = swept.rows("plan", "grid.yaml", "--set", "model.d=[4,8,12]")
    assert (planned["trials"], planned["done"]) == (TRIALS + 6, TRIALS)
    sets = ("--set", "model.d=[4,8,12]", "--set", f"resources={ONE_AT_A_TIME}")
    swept.run("launch", "grid.yaml", *sets, "--yes")
    after = swept.sql("SELECT id, d FROM attempts")
    assert len(after) == TRIALS + 6
    assert {row["d"] for row in after if row["id"] not in before} == {12}


def test_no_row_is_exit_1(swept: SharedShell) -> None:
    assert swept.rows("query", "min d where acc>0.5 and model='nobody'", exits=1) == []


def test_status_and_logs(swept: SharedShell) -> None:
    [row] = swept.rows("status")
    assert row["sweep"] == "small" and row["running"] is False
    assert row["completed"] == row["trials"]
    trial = swept.sql("SELECT id FROM trials LIMIT 1")[0]["id"]
    assert "completed at step 60" in swept.run("logs", trial[:10]).stdout


def test_export_holds_the_trials(swept: SharedShell) -> None:
    import pyarrow.parquet as pq

    swept.run("export", "small", "--out", "trials.parquet")
    swept.run("export", "small", "--out", "trials.csv")
    stored = swept.sql("SELECT id FROM trials")
    assert pq.read_table(swept.folder / "trials.parquet").num_rows == len(stored)
    with (swept.folder / "trials.csv").open() as file:
        assert {row["id"] for row in csv.DictReader(file)} == {row["id"] for row in stored}
