"""Trials that fail, die or diverge. They are recorded as what they are and are tried again as often
as the grid says. They never end the whole sweep."""

from __future__ import annotations

import shutil
from pathlib import Path

import faulty
from e2e.conftest import meanwhile
from shell import ONE_AT_A_TIME, SharedShell
from waiting import wait_until

SETTINGS = """
model: {name: standard, d: 4, layers: 1, heads: 1}
evaluate: {check_samples: 16, verdict_samples: 16}
"""
ABSENT = """
import sys
if "default_worker" in sys.argv[0]:
    import only_on_the_driver
from dataclasses import dataclass
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Absent(LIS):
    \"\"\"Can be imported where a sweep is planned, and not where it runs.\"\"\"
"""
WORDS = {
    "Broken 3": "RuntimeError: n = 3 is cursed",
    "Hungry 2": "MemoryError",
    "Absent 2": "No module named 'only_on",
    "killed": "died",
    "hang": "no step for 8 s (hang_seconds); the last that it reported was 0",
}
"""What is told of the attempts that fail, by task and n or by what happens to the worker."""


def test_failures_are_recorded_with_their_text_and_the_sweep_goes_on(mine: SharedShell) -> None:
    """Trials raise errors, lack a module, or take their worker along. Each of these costs one
    attempt; the trial is tried again, as often as the grid says."""
    shutil.copy(faulty.__file__, mine.folder)
    mine.write("absent.py", ABSENT)
    mine.write(
        "grid.yaml",
        "task:\n- {name: mine.py:Broken, n: [2, 3], value_range: 64}\n"
        "- {name: mine.py:Hungry, n: 2, value_range: 64}\n"
        "- {name: absent.py:Absent, n: 2, value_range: 64}\n"
        "- {name: faulty.py:Deadly, n: 2, value_range: 64, fault: [killed, hang],"
        f" marks: {mine.folder}}}\n"
        "train: {steps: 20, batch_size: 4, lr: [1.0e-3, 1.0e38], warmup: 0, clip: 1.0e38}\n"
        f"hang_seconds: 8\nretries: 2\nresources: {ONE_AT_A_TIME}" + SETTINGS,
    )
    told = mine.run("launch", "grid.yaml", "--yes", exits=1).stderr
    assert WORDS["Broken 3"] in told and "sweepd logs" in told
    assert f"{WORDS['hang']}: its worker was killed" in told
    kind = "coalesce(fault, split_part(task, ':', 2) || ' ' || n) AS kind"
    attempts = mine.sql(f"SELECT id, {kind}, status, acc, error FROM attempts ORDER BY kind, lr")
    by_kind = {
        row["kind"]: [one for one in attempts if one["kind"] == row["kind"]] for row in attempts
    }
    for kind in ("Broken 3", "Hungry 2", "Absent 2"):
        assert [row["status"] for row in by_kind[kind]] == ["failed"] * 2 * 3
    for kind in ("killed", "hang"):
        assert sorted(row["status"] for row in by_kind[kind]) == ["completed", "diverged", "failed"]
    good, diverged = by_kind["Broken 2"]
    assert good["status"] == "completed" and good["acc"] is not None
    assert diverged["status"] == "diverged" and diverged["acc"] is None
    for kind, words in WORDS.items():
        for row in [row for row in by_kind[kind] if row["status"] == "failed"]:
            assert words in row["error"] and "\x1b" not in row["error"]
            assert words in mine.run("logs", row["id"]).stdout
    raised = by_kind["Broken 3"][0]
    assert raised["error"].startswith(f"{mine.folder}/mine.py:")
    log = mine.run("logs", raised["id"]).stdout
    assert "a word before the fall" in log and "Traceback" in log and "mine.py" in log

    [status] = mine.rows("status")
    assert (status["completed"], status["diverged"], status["failed"]) == (3, 3, 6)
    # Failed trials are tried again, and those that diverged are not.
    mine.run("launch", "grid.yaml", "--yes", exits=1)
    [row] = mine.sql("SELECT count(*) AS attempts FROM attempts")
    assert row["attempts"] == len(attempts) + 6 * 3


def test_results_that_are_deleted_in_mid_run_wait_on_this_machine(
    mine: SharedShell, rescue: Path
) -> None:
    results = mine.folder / "sweepd-results"
    mine.write(
        "grid.yaml",
        "task: {name: mine.py:Slow, n: 2, value_range: 64}\n"
        f"train: {{steps: 100, batch_size: 4}}\nresources: {ONE_AT_A_TIME}" + SETTINGS,
    )

    def delete() -> None:
        wait_until(lambda: list(results.glob("metrics/*")))
        shutil.rmtree(results)

    with meanwhile(delete):
        told = mine.run("launch", "grid.yaml", exits=3).stderr
    assert str(rescue) in told and "launch again" in told, told
    mine.write("go", "")
    assert "took in" in mine.run("launch", "grid.yaml").stderr


def test_a_store_that_cannot_be_written_any_more_ends_the_sweep_cleanly(
    mine: SharedShell,
) -> None:
    mine.write(
        "grid.yaml",
        "name: full\ntask: {name: mine.py:Slow, n: 2, value_range: 64}\nseeds: [0, 1]\n"
        f"checkpoint_seconds: 0.5\nresources: {ONE_AT_A_TIME}\n"
        "train: {steps: 900, batch_size: 4}" + SETTINGS,
    )
    metrics = mine.folder / "sweepd-results" / "metrics"
    aside = metrics.with_name("aside")

    def put_away() -> None:
        wait_until(lambda: any(metrics.glob("*.parquet")))
        metrics.rename(aside)
        metrics.symlink_to("/sys")  # where even root makes no file

    with meanwhile(put_away):
        told = mine.run("launch", "grid.yaml", "--yes", exits=3).stderr
    [message] = [line for line in told.splitlines() if line.startswith("sweepd: ")]
    assert f"cannot write {metrics}" in message
    assert message.endswith("launch again once that is mended")
    metrics.unlink()
    aside.rename(metrics)
    [row] = mine.rows("status")
    assert (row["running"], row["failed"], row["completed"]) == (False, 0, 0)
    [row] = mine.sql("SELECT count(*) AS steps FROM metrics")
    assert row["steps"] > 0
