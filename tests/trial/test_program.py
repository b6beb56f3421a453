"""A program as an attempt runs it: its rows, its output, its end, its folder, and what becomes of
it and of all that it started when the attempt is cut off."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from faults import finish
from waiting import alive

from sweepd.grid.placement import Resources
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.store.store import Store
from sweepd.trial import program as programs
from sweepd.trial.attempt import Attempt
from sweepd.trial.workplace import guarded

PYTHON = sys.executable
GRID = """
loop:
  program: PYTHON mine.py {width} {seed} {dir} {cpus} {gpus}
  as: mine
  task: digits
  metrics: {acc: up, loss: down}
  width: 8
goal: acc > 0.5
"""
ROW = 'print(\'{"step": %s, "acc": %s, "loss": 1.0}\')\n'


def attempt(
    folder: Path,
    text: str,
    number: int = 1001,
    hang_seconds: float = 0.0,
    grid: str = GRID,
    gpus: int = 0,
) -> Attempt:
    """An attempt that has begun, of a program with this text."""
    (folder / "mine.py").write_text(text)
    [trial] = plan(parse_grid(grid.replace("PYTHON", PYTHON), "grid.yaml", [], folder)).trials
    made = Attempt(
        Store.create(str(folder / "results")),
        trial,
        number,
        "s",
        folder,
        "cuda" if gpus else "cpu",
        30.0,
        Resources(2, gpus),
        hang_seconds,
    )
    made.begin()
    return made


def ran(folder: Path, text: str, number: int = 1001, **options: Any) -> dict[str, Any]:
    """The row of an attempt that has come to its end."""
    made = finish(attempt(folder, text, number, **options), 9.0)
    assert made.ending is not None
    return made.ending


def log(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("results/logs/**/*") if path.is_file())


def test_its_rows_are_its_curve_and_all_else_is_its_log(tmp_path: Path) -> None:
    text = """
import os, sys
print(sys.argv[1:3] + sys.argv[4:], os.path.isdir(sys.argv[3]), os.environ["CUDA_VISIBLE_DEVICES"])
print('{"no": "row"}', file=sys.stdout)
print("{'step': 1}", file=sys.stderr)
print('{"step": 1, "acc": 0.25, "loss": 2.0}')
print('\\r99%\\r {"step": 2, "acc": 0.5, "loss": 1}')
"""
    row = ran(tmp_path, text)
    assert (row["status"], row["step"], row["acc"], row["loss"]) == ("completed", 2, 0.5, 1)
    told = Store.open(str(tmp_path / "results")).read_metrics().table.to_pylist()
    assert [(one["step"], one["acc"]) for one in told] == [(1, 0.25), (2, 0.5)]
    for line in ("['8', '0', '2', '0'] True \n", '{"no": "row"}\n', "{'step': 1}\n"):
        assert line in log(tmp_path)


def test_any_python_reports(tmp_path: Path) -> None:
    text = (
        "import numpy, sweepd\nsweepd.report(step=3, acc=numpy.float32(0.5), loss=numpy.ones(()))"
    )
    row = ran(tmp_path, text)
    assert (row["status"], row["step"], row["acc"], row["loss"]) == ("completed", 3, 0.5, 1)
    subprocess.run([PYTHON, "-c", text], check=True)  # outside of a sweep it does nothing


def test_its_cards_need_not_be_known_to_this_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    text = "import os, sys\nprint(sys.argv[5], os.environ['CUDA_VISIBLE_DEVICES'])\n"
    assert ran(tmp_path, text + ROW % (1, 0.5), gpus=2)["status"] == "completed"
    assert "2 4,7\n" in log(tmp_path)


def test_a_test_score_counts_whatever_comes_after(tmp_path: Path) -> None:
    held_out = 'print(\'{"step": 1, "acc": 0.5, "loss": 1, "test": true, "total": 10}\')\n'
    row = ran(tmp_path, ROW % (1, 0.9) + held_out + ROW % (2, 0.8))
    assert (row["acc"], row["correct"], row["total"], row["step"]) == (0.5, 5, 10, 2)


def test_an_end_before_its_steps_is_noted_and_so_is_what_only_looks_like_a_row(
    tmp_path: Path,
) -> None:
    grid = GRID.replace("{gpus}", "{gpus} {steps}").replace("  width: 8", "  width: 8\n  steps: 9")
    row = ran(tmp_path, ROW % (1, 0.5) + "print({'step': 9, 'acc': 1.0})", grid=grid)
    assert row["status"] == "completed" and row["step"] == 1
    assert row["error"].startswith("it ended with exit code 0 at step 1 of 9; a line of its output")
    assert ran(tmp_path, ROW % (9, 0.5), 1002, grid=grid)["error"] is None


def test_who_diverges_shows_the_last_good_row(tmp_path: Path) -> None:
    error = ran(tmp_path, ROW % (1, 0.25) + ROW % (2, "NaN"))["error"]
    assert error.endswith("acc = nan at step 2; the last good row: step 1: acc 0.25, loss 1")


def test_breakpoint_is_pythons_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONBREAKPOINT", "ray.util.rpdb.set_trace")
    error = ran(tmp_path, ROW % (1, 0.5) + "breakpoint()\nprint()")["error"]
    assert "it ended with exit code 1" in error and "bdb.BdbQuit" in error


def test_its_files_are_kept_and_nothing_is_left(tmp_path: Path) -> None:
    text = "import os, pathlib, sys\nprint('at', os.getcwd(), os.environ['PWD'], sys.argv[3])\n"
    text += "os.mkdir('out'); open('out/a.csv', 'w').write('1')\n"
    text += "pathlib.Path(__file__).with_name('b.csv').write_text('2')\n"
    text += f"open('large', 'wb').write(b'x' * {2**20 + 1})\n" + ROW % (1, 0.5)
    row = ran(tmp_path, text)
    kept = tmp_path / "results" / "files" / row["id"]
    assert {p.name: p.read_text() for p in kept.rglob("*.*")} == {"a.csv": "1", "b.csv": "2"}
    assert "kept of what it wrote: b.csv, out/a.csv\ndeleted of what it wrote: large\n" in log(
        tmp_path
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.py", "results"]
    [at] = [line.split()[1:] for line in log(tmp_path).splitlines() if line.startswith("at ")]
    assert at[0] == at[1] and at[0].endswith(str(tmp_path)) and not Path(at[0]).exists()
    grid = GRID.replace("  task:", "  keep: [large]\n  task:")
    ran(tmp_path, text, 1002, grid=grid)  # has the same paths
    assert (kept / "large").stat().st_size == 2**20 + 1
    assert log(tmp_path).count(f"at {' '.join(at)}") == 2


def test_what_was_rounded_out_of_its_range_is_its_end(tmp_path: Path) -> None:
    text = ROW % (1, 1.0000001) + 'print(\'{"step": 2, "acc": -1e-9, "loss": -1e-8}\')'
    row = ran(tmp_path, text)
    assert (row["status"], row["acc"], row["loss"]) == ("completed", 0, 0)


def test_a_live_bar_is_no_silence(tmp_path: Path) -> None:
    text = "import sys, time\nfor i in range(15): sys.stdout.write(f'\\r{i}'); time.sleep(0.1)\n"
    assert ran(tmp_path, text + ROW % (1, 0.5), hang_seconds=1.0)["status"] == "completed"


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        (
            "",
            "failed",
            'it printed no row; print one a line on stdout, as {"step": 1, "acc": …, "loss": …}',
        ),
        ('print(\'{"step": 1, "acc": 0.5}\')', "failed", "did not report loss"),
        (
            'print(\'{"step": 1, "acc": 0.5, "loss": 1, "f1": 1}\')',
            "failed",
            "reported 'f1' (str), which its `metrics` do not name",
        ),
        ('print(\'{"step": 1, "acc": 2, "loss": 1}\')', "failed", "it lies between 0 and 1"),
        ('print(\'{"step": "x", "acc": 0, "loss": 1}\')', "failed", "must be a whole number"),
        (ROW % (2, 0.5) + ROW % (1, 0.5), "failed", "comes after step 2"),
        (ROW % (1, "NaN"), "diverged", "reported acc = nan at step 1"),
        (ROW % (1, "Infinity"), "diverged", "reported acc = inf at step 1"),
        ('print(\'{"step": 1, "acc": 1, "loss": -nan}\')', "diverged", "loss = nan at step 1"),
        ('print(\'{"step": 1, {"step": 1\')', "failed", '{"step": 1, {"step": 1 cannot be taken: '),
        ("raise SystemExit('oh')", "failed", "it ended with exit code 1: oh\noh"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "failed",
            "exit code 137, by SIGKILL: memory may have run out",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, status: str, says: str) -> None:
    row = ran(tmp_path, text)
    assert row["status"] == status and says in row["error"], row["error"]


def test_a_failure_has_the_last_fifty_lines(tmp_path: Path) -> None:
    error = ran(tmp_path, "for i in range(99): print(i)\nraise SystemExit(3)")["error"]
    assert error == "\n".join(["it ended with exit code 3: 98", *map(str, range(49, 99))])


SAVES = """
import pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[3])
at = folder / "at"
start = int(at.read_text()) if at.exists() else 0
print("from", start)
def save(*_):
    at.write_text(str(step)); MARK
    sys.exit(1)
signal.signal(signal.SIGTERM, save)
for step in range(start + 1, 6):
    print('{"step": %d, "acc": 0.5, "loss": 1}' % step)
    time.sleep(60 if step == start + 2 and step < 5 else 0)
"""


@pytest.mark.parametrize("mark", ["pass", "(folder / 'checkpoint').touch()"])
def test_it_goes_on_from_what_it_saved_at_sigterm(tmp_path: Path, mark: str) -> None:
    text = SAVES.replace("MARK", mark)
    first = attempt(tmp_path, text)
    while first.report()["step"] != 2:
        first.advance(0.1)
    first.interrupt()
    assert first.ending and (first.ending["status"], first.ending["error"]) == ("interrupted", None)
    assert first.store.checkpoints(first.trial.trunk)
    again = attempt(tmp_path, text, 1002)
    assert again.start == 2
    while again.report()["step"] != 4:
        again.advance(0.1)
    again.interrupt()
    assert ran(tmp_path, text, 1003)["step"] == 5
    assert all(f"from {step}\n" in log(tmp_path) for step in (0, 2, 4))
    told = again.store.read_metrics().table.to_pylist()
    assert sorted(one["step"] for one in told) == [1, 2, 3, 4, 5]


def test_what_it_has_marked_survives_the_end_of_its_worker(tmp_path: Path) -> None:
    text = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[3])
print("found", *sorted(p.name for p in folder.iterdir()))
print('{"step": 1, "acc": 0.5, "loss": 1}')
(folder / "state").write_text("1"); (folder / "checkpoint").touch()
for step in range(2, 200):
    time.sleep(0.02)
    (folder / "unmarked").touch()
    print('{"step": %d, "acc": 0.5, "loss": 1}' % step)
    if len(list(folder.iterdir())) > 2 and step > 100: break
"""
    first = attempt(tmp_path, text)
    while not first.store.checkpoints(first.trial.trunk):
        first.advance(0.1)
    first.training.close()  # type: ignore[union-attr]  # no ending is written, as when it is killed
    row = ran(tmp_path, text, 1002)
    assert row["status"] == "completed" and "found checkpoint state" in log(tmp_path)
    told = first.store.read_metrics().table.to_pylist()
    assert {one["step"] for one in told if one["attempt"] == 1002} >= {1, 2, 3}


@pytest.mark.parametrize(("mark", "start"), [("done", 2), ("checkpoint", 0)])
def test_a_longer_run_goes_on_where_a_shorter_one_was_done(
    tmp_path: Path, mark: str, start: int
) -> None:
    text = f"""
import pathlib, sys
folder = pathlib.Path(sys.argv[3])
at = folder / "at"
first = int(at.read_text()) + 1 if at.exists() else 1
assert not (folder / "done").exists()
for step in range(first, int(sys.argv[6]) + 1):
    print('{{"step": %d, "acc": 0.5, "loss": 1}}' % step)
at.write_text(str(step)); (folder / "{mark}").touch()
"""
    grid = GRID.replace("{gpus}", "{gpus} {steps}").replace("  width: 8", "  width: 8\n  steps: 2")
    assert ran(tmp_path, text, grid=grid)["step"] == 2
    longer = attempt(tmp_path, text, 1002, grid=grid.replace("steps: 2", "steps: 4"))
    assert longer.start == start
    ending = finish(longer, 9.0).ending
    assert ending and (ending["status"], ending["step"]) == ("completed", 4)
    assert (ending["parent"] is None) == (start == 0)


def test_who_keeps_nothing_starts_anew_and_the_row_says_so(tmp_path: Path) -> None:
    made = attempt(tmp_path, ROW % (1, 0.5) + "import time; time.sleep(60)")
    while not made.report()["step"]:
        made.advance(0.1)
    made.interrupt()
    assert made.ending and "it will start again" in made.ending["error"]


ORPHANS = """
import os, pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
far = subprocess.Popen(["sleep", "600"], start_new_session=True)
print('{"step": %d, "acc": 0.5, "loss": 1}' % far.pid)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says who descends from whom")
def test_who_ignores_sigterm_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "GRACE_SECONDS", 0.2)
    made = attempt(tmp_path, ORPHANS)
    while not (started := made.report()["step"]):
        made.advance(0.1)
    assert alive(started)
    made.interrupt()
    assert made.status == "interrupted" and not alive(started)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says who descends from whom")
def test_nothing_of_it_outlives_its_worker(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (tmp_path / "mine.py").write_text(ORPHANS)
    command = guarded(30, scratch, tmp_path, (), (), [PYTHON, "-u", str(tmp_path / "mine.py")])
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin and process.stdout
    started = int(process.stdout.readline().split()[1].rstrip(b","))
    assert alive(started)
    process.stdin.close()
    assert process.wait(20) == 128 + signal.SIGKILL
    assert not alive(started) and not scratch.exists()


def test_who_is_silent_for_too_long_is_ended(tmp_path: Path) -> None:
    before = time.monotonic()
    row = ran(tmp_path, ROW % (1, 0.5) + "import time; time.sleep(60)", hang_seconds=1.0)
    assert "printed nothing for 1 s (hang_seconds)" in row["error"]
    assert time.monotonic() - before < 20


def test_no_program_sees_the_settings_of_ray(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "RAY_ADDRESS", "there")
    text = "import os, sys\nif 'RAY_ADDRESS' in os.environ: sys.exit(9)\n"
    assert ran(tmp_path, text + ROW % (1, 0.5))["status"] == "completed"


WORKER = """
import sys
from pathlib import Path
from sweepd.grid.placement import Resources
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.trial.program import ProgramRun
folder = Path(sys.argv[1])
[trial] = plan(parse_grid((folder / "grid.yaml").read_text(), "grid.yaml", [], folder)).trials
run = ProgramRun(trial, folder, Resources(), 0.0, str(folder))
try:
    for row in run.advance():
        if row: print(run.place.folder, flush=True)
finally:
    run.close()
"""


def descendants(process: int) -> list[int]:
    """The processes below one, each before those that it started."""
    children = Path(f"/proc/{process}/task/{process}/children")
    below = [int(child) for child in children.read_text().split()]
    return below + [one for child in below for one in descendants(child)]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc says who descends from whom")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("victim", ["worker", "outer guard", "inner guard", "program", "orphan"])
def test_whoever_is_killed_takes_all_else_along(tmp_path: Path, victim: str, number: int) -> None:
    (tmp_path / "mine.py").write_text(ORPHANS)
    (tmp_path / "grid.yaml").write_text(GRID.replace("PYTHON", PYTHON))
    worker = subprocess.Popen([PYTHON, "-c", WORKER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert worker.stdout
    folder = Path(worker.stdout.readline().strip())
    names = ["worker", "outer guard", "inner guard", "program", "orphan"]
    tree = dict(zip(names, [worker.pid, *descendants(worker.pid)], strict=True))
    os.kill(tree[victim], number)
    if victim == "orphan" or (number == signal.SIGTERM and victim != "worker"):
        time.sleep(0.3)  # guards ignore SIGTERM, as this program does, which needs no orphan
        assert all(alive(process) for name, process in tree.items() if name != "orphan")
        worker.kill()
    until, left = time.monotonic() + 5, names
    while left and time.monotonic() < until:
        worker.poll()
        left = [name for name, process in tree.items() if alive(process)]
        time.sleep(0.02)
    assert left == [] and worker.wait() != 0
    assert not folder.exists() or victim not in ("worker", "orphan")
