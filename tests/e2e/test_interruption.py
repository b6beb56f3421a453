"""Interruption by real signals. Ctrl-C and kill -9 lose nothing. A resumed sweep ends with bitwise
the numbers of a sweep that ran without interruption and without Ray.
`torture/test_whole_program.py` interrupts more often."""

from __future__ import annotations

import os
import re
import signal

import psutil
from e2e.conftest import Running
from shell import ONE_AT_A_TIME, SharedShell
from trained import run
from waiting import wait_until

from sweepd.store.store import Store

GRID = f"""
name: long
task:  {{name: lis, n: 6, value_range: 16}}
model: {{name: [standard, linear], d: 16, layers: 2, heads: 2, dropout: 0.1}}
train: {{steps: 400, batch_size: 32}}
evaluate: {{check_every: 100, check_samples: 64, verdict_samples: 256}}
resources: {ONE_AT_A_TIME}
checkpoint_seconds: 0.5
"""
NUMBERS = "SELECT id, step, loss, acc, chain_acc, lr, tokens FROM metrics ORDER BY ALL"
ENDINGS = (
    "SELECT id, status, acc, loss, correct, chain_correct, total, step FROM trials ORDER BY id"
)


def dead(process: psutil.Process) -> bool:
    """Whether it has ended, be it that nobody has taken note yet."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_resume_equals_no_interruption(shell: SharedShell, running: Running) -> None:
    """Ctrl-C interrupts the sweep. It is resumed, and killed when it has gone on. Then it is
    resumed again."""
    grid = shell.write("grid.yaml", GRID)
    checkpoints = shell.folder / "sweepd-results" / "checkpoints"
    process = running(shell.start("launch", "grid.yaml", "--yes", process_group=0))
    wait_until(lambda: any(checkpoints.glob("*/*.pt")), process=process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal's Ctrl-C does
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "sweepd resume long" in err, err
    statuses = {row["status"] for row in shell.sql("SELECT status FROM attempts")}
    assert "interrupted" in statuses and statuses <= {"interrupted", "completed"}

    saved = {*checkpoints.glob("*/*.pt")}
    process = running(shell.start("resume"))
    wait_until(lambda: {*checkpoints.glob("*/*.pt")} - saved, process=process)
    started = psutil.Process(process.pid).children(recursive=True)
    ours = re.compile("ray::(?!.*Agent)")  # between two calls a worker is called ray::Worker
    workers = [one for one in started if ours.match(one.name())]
    process.kill()
    wait_until(lambda: all(map(dead, workers)), 2)  # nobody writes any more
    assert workers and process.wait() == -signal.SIGKILL
    recorded = {(row["id"], row["step"]) for row in shell.sql(NUMBERS)}
    shell.run("resume")

    run(Store.create(str(shell.folder / "undisturbed")), grid)
    undisturbed = ("--results", "undisturbed")
    metrics = shell.rows("sql", NUMBERS, *undisturbed)
    assert shell.sql(ENDINGS) == shell.rows("sql", ENDINGS, *undisturbed)
    assert shell.sql(NUMBERS) == metrics
    assert recorded <= {(row["id"], row["step"]) for row in metrics}
