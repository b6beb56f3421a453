"""Interruption by real signals: Ctrl-C and kill -9 lose nothing, and a resumed sweep ends with
bitwise the numbers of one never interrupted. More of it: `torture/test_whole_program.py`."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

GRID = """
name: long
task:  {name: lis, n: 6, value_range: 16}
model: {name: [standard, linear], d: 16, layers: 2, heads: 2, dropout: 0.1}
train: {steps: 400, batch_size: 32}
evaluate: {check_every: 100, check_samples: 64, verdict_samples: 256}
checkpoint_seconds: 0.5
"""
NUMBERS = "SELECT id, step, loss, acc, chain_acc, lr, tokens FROM metrics ORDER BY ALL"
ENDINGS = (
    "SELECT id, status, acc, loss, correct, chain_correct, total, step FROM trials ORDER BY id"
)


@pytest.fixture(scope="module")
def undisturbed(module_shell):
    module_shell.write("grid.yaml", GRID)
    module_shell.run("launch", "grid.yaml", "--yes")
    return module_shell.sql(NUMBERS), module_shell.sql(ENDINGS)


def wait_for_checkpoint(shell, process):
    """Until some trial is under way."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        if any((shell.folder / "sweepd-results").glob("checkpoints/*/*.pt")):
            return
        time.sleep(0.2)
    raise AssertionError("no checkpoint appeared")


def dead(process):
    """Whether it has ended, be it that nobody has taken note yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_resume_equals_no_interruption(shell, running, undisturbed, number):
    shell.write("grid.yaml", GRID)
    process = running(shell.start("launch", "grid.yaml", "--yes", process_group=0))
    wait_for_checkpoint(shell, process)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal's Ctrl-C does
    else:
        started = psutil.Process(process.pid).children(recursive=True)
        workers = [one for one in started if "Trainable" in one.name()]
        process.kill()
        until = time.monotonic() + 2
        while not all(map(dead, workers)):
            assert time.monotonic() < until, workers  # nobody writes any more
            time.sleep(0.05)
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
    assert "nothing to do" in shell.run("resume", "long").stderr
