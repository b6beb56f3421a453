"""Interruption by real signals, of a sweep of the user's own models. Ctrl-C and kill -9 lose
nothing. The sweep runs the code that it was launched with: a file is edited before the trial that
names it starts, and later only the results are left, in another place. It ends with bitwise the
numbers of a sweep that ran without interruption and without Ray. `torture/test_whole_program.py`
interrupts more often."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
from e2e.conftest import Running
from shell import ONE_AT_A_TIME, SharedShell
from trained import run
from waiting import wait_until

from sweepd.store.store import Store

NET = """
import sys
import time
from dataclasses import dataclass
from sweepd.models.MODULE import BASE

@dataclass(frozen=True)
class Net(BASE):
    dropout: float = 0.1

    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        inner, nap = model.logits, 0.04 * ("default_worker" in sys.argv[0])
        model.logits = lambda x: time.sleep(nap) or inner(x)
        return model
"""
"""Takes its time where a sweep trains it, but no core's."""
GRID = f"""
name: own
task:  {{name: lis, n: 6, value_range: 16}}
model: {{name: [v1.py:Net, v2.py:Net], as: [one, two], d: 8, layers: 1, heads: 2}}
train: {{steps: 120, batch_size: 16}}
evaluate: {{check_every: 40, check_samples: 16, verdict_samples: 32}}
resources: {ONE_AT_A_TIME}
checkpoint_seconds: 0.5
"""
NUMBERS = "SELECT id, step, loss, acc, chain_acc, lr, tokens FROM metrics ORDER BY ALL"
ENDINGS = (
    "SELECT id, model, status, acc, loss, correct, chain_correct, total, step FROM trials "
    "ORDER BY model"
)


def dead(process: psutil.Process) -> bool:
    """Whether it has ended, be it that nobody has taken note yet."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def kill(driver: subprocess.Popen[str]) -> None:
    """By kill -9, and with it all that it has started, Ray's agents too: nobody writes any more,
    and nobody holds its output open."""
    started = psutil.Process(driver.pid).children(recursive=True)
    assert {"raylet", "gcs_server"} <= {one.name() for one in started}
    assert sum(one.name().startswith("ray::") for one in started) > 2  # agents and workers
    driver.kill()
    wait_until(lambda: all(map(dead, started)), 2)
    assert driver.wait() == -signal.SIGKILL
    driver.communicate(timeout=2)


def raylet(driver: subprocess.Popen[str]) -> psutil.Process:
    started = psutil.Process(driver.pid).children(recursive=True)
    [process] = [one for one in started if one.name() == "raylet"]
    return process


def test_ray_that_dies_while_it_starts_is_told_at_once(
    shell: SharedShell, running: Running
) -> None:
    """Its GCS is killed before it has a port."""
    shell.write("grid.yaml", GRID.replace("[v1.py:Net, v2.py:Net], as: [one, two]", "standard"))
    process = running(shell.start("launch", "grid.yaml", "--yes"))
    driver = psutil.Process(process.pid)

    def head() -> list[psutil.Process]:
        return [one for one in driver.children(recursive=True) if one.name() == "gcs_server"]

    wait_until(head, process=process)
    head()[0].kill()
    _, told = process.communicate(timeout=5)
    assert process.returncode == 3 and "Ray's gcs_server has died (-9); `sweepd resume" in told


def test_resume_equals_no_interruption_wherever_a_sweep_goes_on(
    shell: SharedShell, running: Running, tmp_path: Path
) -> None:
    """SIGTERM interrupts the sweep. It is resumed elsewhere, and killed when it has gone on. Then
    it is resumed again."""
    shell.folder = tmp_path / "a"
    shell.folder.mkdir()
    shell.write("v1.py", NET.replace("MODULE", "standard").replace("BASE", "Standard"))
    shell.write("v2.py", NET.replace("MODULE", "linear").replace("BASE", "Linear"))
    grid = shell.write("grid.yaml", GRID)
    run(Store.create(str(tmp_path / "undisturbed")), grid)
    undisturbed = ("--results", str(tmp_path / "undisturbed"))
    endings = shell.rows("sql", ENDINGS, *undisturbed)
    numbers = shell.rows("sql", NUMBERS, *undisturbed)
    assert [row["model"] for row in endings] == ["one", "two"] and numbers

    def checkpoints() -> set[Path]:
        return {*shell.folder.glob("sweepd-results/checkpoints/*/*.pt")}

    process = running(shell.start("launch", "grid.yaml", "--yes", process_group=0))
    wait_until(checkpoints, process=process)
    for name in ("v1.py", "v2.py"):
        shell.write(name, "1 / 0")
    first = {path.parent for path in checkpoints()}
    wait_until(lambda: {path.parent for path in checkpoints()} - first, process=process)
    # As `timeout`, systemd and Slurm do: to the launch and to its group, Ray's processes among
    # them. test_live presses Ctrl-C.
    os.kill(process.pid, signal.SIGTERM)
    os.killpg(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "sweepd resume own" in err, err
    rows = shell.sql("SELECT status, error FROM attempts ORDER BY status")
    assert rows == [{"status": name, "error": None} for name in ("completed", "interrupted")]

    gone, shell.folder = shell.folder, tmp_path / "b"
    shell.folder.mkdir()
    shutil.move(gone / "sweepd-results", shell.folder)
    shutil.rmtree(gone)
    saved = checkpoints()
    process = running(shell.start("resume"))
    wait_until(lambda: checkpoints() - saved, process=process)
    [folder] = {word for word in raylet(process).cmdline() if word.startswith("--temp_dir=")}
    kill(process)
    [row] = shell.rows("status")
    assert row["running"] is False
    for words in ((), ("own",)):
        assert "`sweepd resume own` continues it" in shell.run("status", *words).stderr
    recorded = {(row["id"], row["step"]) for row in shell.sql(NUMBERS)}
    told = shell.run_alone("resume").stderr
    assert f"{gone} lacks v1.py:Net: going on with the code that" in told
    assert not Path(folder.partition("=")[2]).exists()

    assert shell.sql(ENDINGS) == endings
    assert shell.sql(NUMBERS) == numbers
    assert recorded <= {(row["id"], row["step"]) for row in numbers}
    assert "nothing to do" in shell.run("resume").stderr
    assert "resume" not in shell.run("status").stderr
