"""A staircase sweep by the command line, which is killed on its way. It runs only a part of the
grid. The whole grid, run after it, gives the same answers."""

import os
import signal

from e2e.conftest import Running
from shell import ONE_AT_A_TIME, SharedShell
from waiting import wait_until

GRID = f"""
name: stairs
task: {{name: lis, n: [2, 3], value_range: 8}}
model: {{name: standard, d: [2, 8, 16, 32], layers: 1, heads: 1, positions: learned}}
train: {{steps: 30, batch_size: 32, lr: 1.0e-2, warmup: 5}}
evaluate: {{check_samples: 16, verdict_samples: 256}}
seeds: [0, 1, 2]
goal: acc > 0.55
search: staircase
resources: {ONE_AT_A_TIME}
"""
TRIALS = 2 * 4 * 3


def test_a_staircase_killed_and_resumed_gives_the_answers_of_the_grid(
    shell: SharedShell, running: Running
) -> None:
    shell.write("grid.yaml", GRID)
    [planned] = shell.rows("plan", "grid.yaml")
    assert planned["trials"] == planned["grid_trials"] == TRIALS
    assert planned["least_trials"] < planned["likely_trials"] < planned["worst_trials"] <= TRIALS
    assert planned["to_run"] == round(planned["likely_trials"])

    first = running(shell.start("launch", "grid.yaml", "--yes", start_new_session=True))
    wait_until(lambda: any(shell.folder.glob("sweepd-results/trials/*.parquet")), process=first)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = {row["id"] for row in shell.sql("SELECT id FROM trials")}

    told = shell.run("resume", "stairs", "--in-process").stderr
    assert "cells tried:" in told and "walk" in told
    ran = shell.sql(
        "SELECT id, count(*) AS times FROM attempts WHERE status <> 'failed' GROUP BY 1"
    )
    assert before <= {row["id"] for row in ran} and all(row["times"] == 1 for row in ran)
    assert len(ran) < TRIALS
    assert "nothing to do" in shell.run("launch", "grid.yaml", "--yes").stderr
    stairs = shell.rows("query", "min d where acc > 0.55")
    for row in stairs:
        decided = row["verdict"] in ("exact", "bracketed", "above", "not monotone")
        assert decided or (row["verdict"], row["value"]) == ("at most", 2)

    shell.run("launch", "grid.yaml", "--in-process", "--set", "search=grid")
    [count] = shell.sql("SELECT count(*) AS trials FROM trials")
    assert count["trials"] == TRIALS
    whole = shell.rows("query", "min d where acc > 0.55")
    if not any(row["verdict"] == "not monotone" for row in stairs + whole):
        assert [row["value"] for row in stairs] == [row["value"] for row in whole]
