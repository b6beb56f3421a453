"""A program as docs/program.md shows it, from a file to an answer, beside one that fails."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from shell import ONE_AT_A_TIME, Shell
from waiting import alive

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CHANGES = ["loop.classes=2", "loop.width=[0,8]", "seeds=[0]", "retries=0", "goal='acc > 0.5'"]
CHANGES += [f"resources={ONE_AT_A_TIME}"]
OPTIONS = [option for change in CHANGES for option in ("--set", change)]


@pytest.fixture(scope="module")
def swept(module_shell: Shell) -> Shell:
    for name in ("train.py", "train.yaml"):
        text = (EXAMPLES / name).read_text()
        fails = "\nif args.width == 0:\n    raise SystemExit('no width')\n"
        module_shell.write(name, text.replace("\n\ntorch.manual", f"{fails}\ntorch.manual"))
    module_shell.run("launch", "train.yaml", "--yes", *OPTIONS, exits=1)
    return module_shell


def test_its_trials(swept: Shell) -> None:
    bad, good = swept.sql("SELECT * FROM trials ORDER BY width")
    assert (good["status"], good["step"], good["size"]) == ("completed", 100, 2)
    assert good["correct"] == round(good["acc"] * 500) > 250
    assert bad["status"] == "failed" and bad["error"].startswith("it ended with exit code 1: no ")
    assert "no width" in swept.run("logs", bad["id"]).stdout
    steps = swept.sql(f"SELECT step FROM metrics WHERE id = '{good['id']}' ORDER BY step")
    assert [row["step"] for row in steps] == [20, 40, 60, 80, 100]


def test_it_is_asked_shown_and_repeated_as_any_other(swept: Shell) -> None:
    [row] = swept.rows("query", "min width where acc > 0.5")
    assert (row["size"], row["value"]) == (2, 8)
    [good] = swept.sql("SELECT id FROM trials WHERE status = 'completed'")
    swept.run("show", good["id"], "--out", "again")
    assert (swept.folder / "again" / "train.py").read_text().startswith('"""A script')
    [planned] = swept.rows("plan", "again/grid.yaml", "--results", "sweepd-results")
    assert (planned["trials"], planned["done"]) == (1, 1)


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
far = subprocess.Popen(["sleep", "600"], start_new_session=True)
print('{"step": 1, "acc": 0.5}')
open(sys.argv[1], "w").write(f"{os.getpid()} {far.pid}")
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says who descends from whom")
def test_nothing_outlives_a_worker_that_is_ended(tmp_path: Path) -> None:
    shell, told = Shell(tmp_path), tmp_path / "told"
    shell.write("stubborn.py", STUBBORN)
    block = f"{{program: python stubborn.py {told}, as: s, task: t, metrics: {{acc: up}}}}"
    shell.write("grid.yaml", f"name: s\nloop: {block}\ngoal: acc > 0.1\nretries: 0\n")
    launch = shell.start("launch", "grid.yaml", "--yes")
    while not (told.exists() and told.read_text()) and launch.poll() is None:
        time.sleep(0.05)
    program, far = map(int, told.read_text().split())
    above = [program]  # the program, its two guards, and Ray's worker
    for _ in range(3):
        stat = Path(f"/proc/{above[-1]}/stat").read_text()
        above.append(int(stat.rpartition(")")[2].split()[1]))
    os.kill(above[-1], signal.SIGTERM)
    until = time.monotonic() + 5
    while (left := [p for p in (far, *above) if alive(p)]) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []
    launch.communicate(timeout=shell.timeout)
    assert launch.returncode == 1  # the trial's worker was lost
