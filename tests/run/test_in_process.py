"""`launch --in-process`: trials one after the other in the command's own process, without Ray."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from inprocess import sweepd
from waiting import wait_until

GRID = """
name: looked_at
task: {name: lis, n: [2, 3], value_range: 16}
model: {name: standard, d: [4, 8], layers: 1, heads: 2}
train: {steps: 40, batch_size: 4}
evaluate: {check_every: 10, check_samples: 8, verdict_samples: 16}
goal: acc >= 0
"""
LOOP = """
name: mine
loop: {name: "mine.py:Mine", d: [1, 2]}
goal: acc > 0.5
"""
MINE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    d: int
    n: int = 1
    steps: int = 4
    size_field = "n"
    task = "mine"
    metrics = {{"acc": "up"}}

    def start(self, seed, device):
        return Training(self)

class Training:
    def __init__(self, mine):
        self.mine, self.step = mine, 0

    def advance(self):
        self.step += 1
        {}
        return {{"acc": 1.0}}
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sweepd", *arguments]


def rows(folder: Path, question: str) -> list[dict[str, object]]:
    answer = sweepd("sql", question, "--results", str(folder / "sweepd-results"), "--json")
    return answer.rows


def test_every_trial_ends_and_ray_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(GRID)
    program = (
        "import sys, sweepd.cli\n"
        "sys.argv = ['sweepd', 'launch', 'grid.yaml', '--in-process']\n"
        "try:\n    sweepd.cli.main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'torch' in sys.modules and 'ray' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    assert rows(tmp_path, "SELECT DISTINCT status FROM trials") == [{"status": "completed"}]
    [metrics] = rows(tmp_path, "SELECT count(*) AS n FROM metrics")
    assert metrics["n"] == 4 * 4


def test_a_cluster_file_is_refused_beside_it(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "here.yaml").write_text("kind: local\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        refused = sweepd("launch", "grid.yaml", "--in-process", "--cluster", "here.yaml", exits=2)
    assert "leave out one" in refused.err


def debugged(folder: Path, typed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("launch", "mine.yaml", "--in-process"),
        cwd=folder,
        input=typed,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_breakpoint_stops_where_it_stands_and_leaving_the_debugger_interrupts(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.yaml").write_text(LOOP)
    (tmp_path / "mine.py").write_text(
        MINE.format("if self.step == 2 and self.mine.d == 1: breakpoint()")
    )
    left = debugged(tmp_path, "p 40 + self.step\nq\n")
    assert left.returncode == 130, left.stderr
    assert "42" in left.stdout and "the debugger was left" in left.stderr
    on = debugged(tmp_path, "c\n")
    assert on.returncode == 0, on.stderr
    assert (
        rows(tmp_path, "SELECT status, step FROM trials")
        == [{"status": "completed", "step": 4}] * 2
    )


def test_prints_and_tracebacks_reach_the_terminal_and_a_failure_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(LOOP)
    (tmp_path / "mine.py").write_text(
        MINE.format("print('seen', self.mine.d); 1 / (2 - self.mine.d)")
    )
    done = debugged(tmp_path, "")
    assert done.returncode == 1
    assert "seen 1" in done.stdout and "mine.py" in done.stderr and "Traceback" in done.stderr
    by_status = "SELECT status, error FROM trials ORDER BY ALL"
    completed, failed = rows(tmp_path, by_status)
    assert completed["status"] == "completed" and failed["status"] == "failed"
    assert "ZeroDivisionError" in str(failed["error"])


def test_a_rule_gives_up_on_trials(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(
        GRID + "stop: {plateau: {grace: 10, std: 1.0, checks: 2}}\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        sweepd("launch", "grid.yaml", "--in-process", exits=0)
    ended = rows(tmp_path, "SELECT DISTINCT status, step FROM trials")
    assert ended == [{"status": "stopped", "step": 20}]


def test_ctrl_c_saves_and_the_same_launch_goes_on_with_the_same_numbers(tmp_path: Path) -> None:
    long = GRID.replace("steps: 40", "steps: 400").replace("n: [2, 3]", "n: 3")
    for name in ("cut", "whole"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "grid.yaml").write_text(long)
    launch = command("launch", "grid.yaml", "--in-process")
    with subprocess.Popen(launch, cwd=tmp_path / "cut", stderr=subprocess.PIPE, text=True) as cut:
        store = tmp_path / "cut" / "sweepd-results"
        wait_until(lambda: any(store.glob("logs/*")) or any(store.glob("metrics/*")), 60)
        os.kill(cut.pid, signal.SIGINT)
        _, said = cut.communicate(timeout=60)
    assert cut.returncode == 130, said
    subprocess.run(launch, cwd=tmp_path / "cut", check=True)
    subprocess.run(launch, cwd=tmp_path / "whole", check=True)
    question = "SELECT id, step, loss, acc FROM metrics ORDER BY ALL"
    cut_rows, whole_rows = (
        json.dumps(rows(tmp_path / name, question)) for name in ("cut", "whole")
    )
    assert cut_rows == whole_rows
