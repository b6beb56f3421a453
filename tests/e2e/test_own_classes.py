"""Models of the user's own, by the command line. Two have the same name, and one is broken. One
sweep goes on in a place where only its results are left."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from shell import ONE_AT_A_TIME, Shell
from waiting import wait_until

NET = """
import time
from dataclasses import dataclass
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Net(Standard):
    level: int = LEVEL

    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        inner = model.logits
        if self.level == 2:
            model.logits = lambda x: time.sleep(0.01) or inner(x)
        if self.level == 9:
            model.logits = lambda x: inner(x + x.mean(-2, keepdim=True))
        return model
"""
"""Takes its time at level 2, and sees the future at level 9."""
GRID = f"""
name: own
task:  {{name: lis, n: 6, value_range: 16}}
model: {{name: MODEL, d: 8, layers: 1, heads: 2}}
train: {{steps: 400, batch_size: 16}}
evaluate: {{check_every: 100, check_samples: 32, verdict_samples: 64}}
resources: {ONE_AT_A_TIME}
checkpoint_seconds: 0.5
"""


def test_a_sweep_runs_the_code_it_was_launched_with_wherever_it_goes_on(
    shell: Shell, running: Callable[[subprocess.Popen[str]], subprocess.Popen[str]], tmp_path: Path
) -> None:
    """A file is edited before the trial that names it starts, and then all files are gone."""
    shell.folder = tmp_path / "a"
    shell.folder.mkdir()
    shell.write("v1.py", NET.replace("LEVEL", "1"))
    shell.write("v2.py", NET.replace("LEVEL", "2"))
    shell.write("grid.yaml", GRID.replace("MODEL", "[v1.py:Net, v2.py:Net], as: [one, two]"))
    process = running(shell.start("launch", "grid.yaml", "--yes"))
    checkpoints = shell.folder / "sweepd-results/checkpoints"
    wait_until(lambda: any(checkpoints.glob("*/*.pt")), 300, process)
    for name in ("v1.py", "v2.py"):
        shell.write(name, "1 / 0")
    seen = {path.parent for path in checkpoints.glob("*/*.pt")}
    wait_until(lambda: {path.parent for path in checkpoints.glob("*/*.pt")} - seen, 300, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    rows = shell.sql("SELECT DISTINCT status, error FROM attempts ORDER BY status")
    assert rows == [{"status": name, "error": None} for name in ("completed", "interrupted")]

    moved = tmp_path / "b"
    moved.mkdir()
    shutil.move(shell.folder / "sweepd-results", moved)
    shutil.rmtree(shell.folder)
    there, shell.folder = shell.folder, moved
    told = shell.run("resume").stderr
    assert f"{there} lacks v1.py:Net: going on with the code that" in told
    rows = shell.sql("SELECT model, status FROM trials ORDER BY model")
    assert rows == [{"model": name, "status": "completed"} for name in ("one", "two")]
    assert "nothing to do" in shell.run("resume").stderr


def test_a_model_that_sees_the_future_is_refused(shell: Shell) -> None:
    shell.write("v1.py", NET.replace("LEVEL", "9"))
    shell.write("grid.yaml", GRID.replace("MODEL", "v1.py:Net"))
    told = shell.run("launch", "grid.yaml", "--yes", exits=2).stderr
    assert f"{shell.folder / 'v1.py'}:7: v1.py:Net is not causal: changing token" in told
    assert shell.sql("SELECT * FROM attempts") == []
    shell.run("plan", "grid.yaml")
