"""How the engine uses its slots, and what happens when several drivers want the same things."""

from __future__ import annotations

import os
import signal

from e2e.conftest import Running
from shell import ONE_AT_A_TIME, SharedShell
from waiting import wait_until

MODEL = """
model: {name: standard, d: 4, layers: 1, heads: 1}
evaluate: {check_samples: 8, verdict_samples: 8}
"""


def test_short_trials_keep_every_slot_busy(mine: SharedShell) -> None:
    """Tune's own order gives a freed actor to the oldest pending trial, whose actor is just
    starting, and kills that: with trials shorter than an actor's start, slots stay empty."""
    mine.write(
        "grid.yaml",
        f"task: {{name: mine.py:Slow, n: 2, value_range: 64}}\nseeds: {list(range(32))}\n"
        "resources: {cpus: 0.5}\ntrain: {steps: 1, batch_size: 4}" + MODEL,
    )
    mine.run("launch", "grid.yaml", "--yes")
    [row] = mine.sql("""
        WITH steady AS (SELECT * FROM attempts ORDER BY ended OFFSET 8)
        SELECT count(*) AS trials, count(DISTINCT status) AS statuses,
               sum(epoch(ended - started)) / epoch(max(ended) - min(started)) AS busy
        FROM steady
    """)
    assert (row["trials"], row["statuses"]) == (24, 1)
    assert row["busy"] > 0.4 * 2 * len(os.sched_getaffinity(0)), row  # with that order: about 1


def test_a_second_driver_of_a_sweep_is_refused(mine: SharedShell, running: Running) -> None:
    mine.write(
        "grid.yaml",
        "name: held\ntask: {name: mine.py:Slow, n: 2, value_range: 64}\nseeds: [0, 1, 2, 3]\n"
        f"train: {{steps: 16, batch_size: 4}}\nresources: {ONE_AT_A_TIME}" + MODEL,
    )
    first = running(mine.start("launch", "grid.yaml", "--yes"))
    results = mine.folder / "sweepd-results"
    wait_until(lambda: any(results.glob("launches/*.json")))
    refused = mine.run("launch", "grid.yaml", "--yes", exits=3).stderr
    assert "held" in refused and str(first.pid) in refused

    wait_until(lambda: any(results.glob("logs/*")) or first.poll() is not None)
    [row] = mine.rows("status")
    assert row["running"] is True
    mine.run("cancel", "held")
    _, told = first.communicate(timeout=60)
    assert first.returncode == 130 and "sweepd resume held" in told
    mine.run("resume", "held")
    [row] = mine.rows("status")
    assert (row["running"], row["completed"]) == (False, 4)


def test_a_trial_of_two_sweeps_runs_once(mine: SharedShell, running: Running) -> None:
    text = (
        "task: {name: mine.py:Slow, n: 2, value_range: 64}\n"
        "seeds: [0, 1, 2, 3, 4, 5]\ntrain: {steps: 3, batch_size: 4}" + MODEL
    )
    mine.write("one.yaml", text)
    mine.write("two.yaml", text.replace("seeds: [0, ", "seeds: [9, 0, "))
    other = running(mine.start("launch", "one.yaml", "--yes"))
    mine.run("launch", "two.yaml", "--yes")
    _, told = other.communicate(timeout=200)
    assert other.returncode == 0, told
    [row] = mine.sql("SELECT count(*) AS attempts, count(DISTINCT id) AS trials FROM attempts")
    assert row == {"attempts": 7, "trials": 7}
    for sweep in mine.rows("status"):
        assert sweep["completed"] == sweep["trials"]


def test_an_interrupt_before_anything_has_started(mine: SharedShell, running: Running) -> None:
    mine.write(
        "grid.yaml",
        "name: early\ntask: {name: mine.py:Slow, n: 2, value_range: 64}\n"
        "train: {steps: 2, batch_size: 4}" + MODEL,
    )
    process = running(mine.start("launch", "grid.yaml", "--yes"))
    wait_until(lambda: any((mine.folder / "sweepd-results").glob("launches/*.json")))
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode in (0, 130), told
    mine.run("resume", "early")
    [row] = mine.rows("status")
    assert row["completed"] == 1
