"""How the engine uses its slots, and what happens when several drivers want the same things. Covers
`run/tune_hooks.py`. Its rules are tested in tests/run/test_engine.py."""

import os
import signal
from pathlib import Path

from e2e.conftest import Running
from shell import ONE_AT_A_TIME, SharedShell, Shell
from waiting import meanwhile, wait_until

SETTINGS = """
model: {name: standard, d: 4, layers: 1, heads: 1}
evaluate: {check_samples: 8, verdict_samples: 8}
"""


def test_short_trials_keep_every_slot_busy(mine: SharedShell) -> None:
    """Tune's own order gives a freed actor to the oldest pending trial, whose actor is just
    starting, and kills that. Trials shorter than an actor's start would run one at a time."""
    (mine.folder / "late").mkdir()
    mine.write(
        "grid.yaml",
        "task: {name: mine.py:Slow, n: 2, value_range: 64}\n"
        f"seeds: {list(range(24))}\ntrain: {{steps: 1, batch_size: 4}}\n"
        f"resources: {{cpus: {len(os.sched_getaffinity(0)) / 2}}}" + SETTINGS,
    )
    mine.run("launch", "grid.yaml", "--yes")
    trials = mine.sql(
        "SELECT status, epoch(started) AS began, epoch(ended) AS ended FROM attempts ORDER BY began"
    )
    assert [trial["status"] for trial in trials] == ["completed"] * 24
    begins = [trial["began"] for trial in trials]
    at_once = [sum(t["began"] <= at < t["ended"] for t in trials) for at in begins]
    assert max(at_once) == 2, "the second actor never came up"
    full = begins[at_once.index(2)]
    trained = sum(max(0, min(t["ended"], begins[-1]) - max(t["began"], full)) for t in trials)
    assert trained > 1.3 * (begins[-1] - full)


def test_drivers_that_want_the_same_things(mine: SharedShell, running: Running) -> None:
    """The first driver is interrupted before any trial has started. The second one drives the same
    sweep, and a third is refused meanwhile. A driver of another sweep runs a trial of its own and
    waits for the one that both sweeps have, which runs once."""
    seeds = list(range(12))  # two minutes of naps: the first driver is at work till it is told
    held = (
        "name: held\ntask: {name: mine.py:Slow, n: 2, value_range: 64}\n"
        f"seeds: {seeds}\ntrain: {{steps: 16, batch_size: 4}}\ncheckpoint_seconds: 0.5\n"
        f"resources: {ONE_AT_A_TIME}" + SETTINGS
    )
    mine.write("grid.yaml", held)
    mine.write("two.yaml", held.replace("held", "two").replace(str(seeds), "[99, 1]"))
    results = mine.folder / "sweepd-results"

    def interrupt() -> None:
        wait_until(lambda: any(results.glob("launches/*.json")))
        os.kill(os.getpid(), signal.SIGINT)

    with meanwhile(interrupt):
        mine.run("launch", "grid.yaml", "--yes", exits=130)
    assert {row["status"] for row in mine.sql("SELECT status FROM attempts")} <= {"interrupted"}

    first = running(mine.start("resume", "held"))
    wait_until(lambda: len({*results.glob("launches/*.json")}) > 1, process=first)
    refused = mine.run("launch", "grid.yaml", "--yes", exits=3).stderr
    assert "held" in refused and str(first.pid) in refused
    wait_until(lambda: any(results.glob("checkpoints/*/*")), process=first)
    [row] = mine.rows("status")
    assert row["running"] is True

    told = mine.run("launch", "two.yaml", "--yes").stderr
    assert "waiting for 1 trials that another sweep is running" in told
    mine.run("cancel", "held")
    _, told = first.communicate(timeout=60)
    assert first.returncode == 130 and "sweepd resume held" in told
    mine.write("go", "")
    mine.run("resume", "held")
    for sweep in mine.rows("status"):
        assert sweep["running"] is False and sweep["completed"] == sweep["trials"]
    times = mine.sql(
        "SELECT count(*) AS times FROM attempts WHERE status = 'completed' GROUP BY id"
    )
    assert [row["times"] for row in times] == [1] * 13


def test_ray_starts_where_the_temporary_folder_has_a_long_path(tmp_path: Path) -> None:
    """As that of a Slurm job may be. Ray's sockets lie below it, and a socket's path is short."""
    far = tmp_path / ("job_" + "1" * 60)
    far.mkdir()
    shell = Shell(tmp_path, environment={"TMPDIR": str(far)})
    (tmp_path / "g.yaml").write_text(
        "task: {name: lookup, n: 4}\ntrain: {steps: 2}\n" + SETTINGS + f"resources: {ONE_AT_A_TIME}"
    )
    shell.run("launch", "g.yaml", "--yes")
    assert shell.sql("SELECT status FROM trials") == [{"status": "completed"}]
