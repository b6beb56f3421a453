"""Interruption by real signals: Ctrl-C and kill -9 lose nothing, and a resumed sweep ends with
bitwise the numbers of one never interrupted. More of it: `torture/test_whole_program.py`."""

from __future__ import annotations

import os
import signal
from typing import Any

import psutil
import pytest
from e2e.conftest import Running
from shell import ONE_AT_A_TIME, SharedShell
from waiting import wait_until

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


Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def undisturbed(module_shell: SharedShell) -> tuple[Rows, Rows]:
    module_shell.write("grid.yaml", GRID)
    module_shell.run("launch", "grid.yaml", "--yes")
    return module_shell.sql(NUMBERS), module_shell.sql(ENDINGS)


def dead(process: psutil.Process) -> bool:
    """Whether it has ended, be it that nobody has taken note yet."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_resume_equals_no_interruption(
    shell: SharedShell, running: Running, undisturbed: tuple[Rows, Rows], number: signal.Signals
) -> None:
    shell.write("grid.yaml", GRID)
    process = running(shell.start("launch", "grid.yaml", "--yes", process_group=0))
    checkpoints = shell.folder / "sweepd-results" / "checkpoints"
    wait_until(lambda: any(checkpoints.glob("*/*.pt")), process=process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal's Ctrl-C does
    else:
        started = psutil.Process(process.pid).children(recursive=True)
        workers = [one for one in started if "Trainable" in one.name()]
        process.kill()
        wait_until(lambda: all(map(dead, workers)), 2)  # nobody writes any more
        assert workers
    _, err = process.communicate(timeout=120)
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130 and "sweepd resume long" in err, err
        statuses = {row["status"] for row in shell.sql("SELECT status FROM attempts")}
        assert "interrupted" in statuses and statuses <= {"interrupted", "completed"}
    recorded = {(row["id"], row["step"]) for row in shell.sql(NUMBERS)}
    shell.run("resume")
    metrics, endings = undisturbed
    assert shell.sql(ENDINGS) == endings
    assert shell.sql(NUMBERS) == metrics
    assert recorded <= {(row["id"], row["step"]) for row in metrics}
