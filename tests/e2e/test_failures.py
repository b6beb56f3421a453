"""Trials that fail, die or diverge. They are recorded as what they are and are tried again as often
as the grid says. They never end the whole sweep."""

import shutil
from pathlib import Path

import faulty
from shell import ONE_AT_A_TIME, SharedShell
from waiting import meanwhile, wait_until

WORDS = {
    "quit": "its process died: os._exit(0)",
    "killed": "its process was killed, as the kernel does where the memory",
    "hang": "no step for 8 s",
    "absent": "No module named 'only_on",
}
SETTINGS = """
model: {name: standard, d: 4, layers: 1, heads: 1}
evaluate: {check_samples: 16, verdict_samples: 16}
"""


def test_failures_are_recorded_with_their_text_and_the_sweep_goes_on(mine: SharedShell) -> None:
    mine.write(
        "grid.yaml",
        "task: [{name: mine.py:Broken, n: [2, 3], value_range: 64},\n"
        "       {name: mine.py:Hungry, n: 2, value_range: 64}]\n"
        "train: {steps: 50, batch_size: 4, lr: [1.0e-3, 1.0e38], warmup: 0, clip: 1.0e38}\n"
        f"resources: {ONE_AT_A_TIME}\nretries: 1" + SETTINGS,
    )
    told = mine.run("launch", "grid.yaml", "--yes", exits=1).stderr
    assert "n = 3 is cursed" in told and told.count("` shows why") == 3
    assert "\n1 more failed; `sweepd status grid` names them\n" in told
    attempts = mine.sql(
        "SELECT task, n, lr, status, acc, error FROM attempts ORDER BY task, n, lr, attempt"
    )
    ended = [(row["task"].split(":")[1], row["n"], row["status"]) for row in attempts]
    assert ended == [
        ("Broken", 2, "completed"),
        ("Broken", 2, "diverged"),
        *[("Broken", 3, "failed")] * 4,
        *[("Hungry", 2, "failed")] * 4,
    ]
    assert attempts[1]["acc"] is None
    assert attempts[2]["error"].startswith(f"{mine.folder}/mine.py:")
    assert attempts[2]["error"].endswith(": RuntimeError: n = 3 is cursed")
    assert "MemoryError" in attempts[-1]["error"]
    trial = mine.sql("SELECT id FROM trials WHERE n = 3")[0]
    log = mine.run("logs", trial["id"]).stdout
    assert "a word before the fall" in log and "Traceback" in log and "mine.py" in log

    [status] = mine.rows("status")
    assert (status["completed"], status["diverged"], status["failed"]) == (1, 1, 4)
    # Failed trials are tried again, and those that diverged are not.
    mine.run("launch", "grid.yaml", "--yes", "--set", "retries=0", exits=1)
    [row] = mine.sql("SELECT count(*) AS attempts FROM attempts")
    assert row["attempts"] == 10 + 4


def test_results_that_are_deleted_in_mid_run_wait_on_this_machine(
    mine: SharedShell, rescue: Path
) -> None:
    results = mine.folder / "sweepd-results"
    mine.write(
        "grid.yaml",
        "task: {name: mine.py:Slow, n: 2, value_range: 64, nap: 0.01, "
        f"mark: {mine.folder}/enough}}\n"
        f"train: {{steps: 1000, batch_size: 4}}\nresources: {ONE_AT_A_TIME}\n"
        "checkpoint_seconds: 0.5" + SETTINGS,
    )

    def delete() -> None:
        wait_until(lambda: list(results.glob("checkpoints/*/*")))
        shutil.rmtree(results)

    with meanwhile(delete):
        told = mine.run("launch", "grid.yaml", exits=3).stderr
    assert str(rescue) in told and "launch again" in told, told
    mine.write("enough", "")
    assert "took in" in mine.run("launch", "grid.yaml").stderr


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


def test_workers_that_die_hang_or_lack_a_module(mine: SharedShell) -> None:
    """Each costs one attempt; the trial is tried again, as often as the grid says."""
    shutil.copy(faulty.__file__, mine.folder)
    mine.write("absent.py", ABSENT)
    mine.write(
        "grid.yaml",
        f"task:\n- {{name: faulty.py:Deadly, n: 2, value_range: 64, fault: [quit, hang, killed],"
        f" marks: {mine.folder}}}\n- {{name: absent.py:Absent, n: 2, value_range: 64}}\n"
        "train: {steps: 20, batch_size: 4}\nhang_seconds: 8\nretries: 2" + SETTINGS,
    )
    told = mine.run("launch", "grid.yaml", "--yes", exits=1).stderr
    hung = "no step for 8 s (hang_seconds); the last that it reported was 0: its worker was killed"
    assert hung in told
    columns = "id, coalesce(fault, 'absent') AS fault, status, error"
    attempts = mine.sql(f"SELECT {columns} FROM attempts ORDER BY fault, attempt")
    by_fault = {name: [row for row in attempts if row["fault"] == name] for name in WORDS}
    for fault, words in WORDS.items():
        *first, last = by_fault[fault]
        assert first and all(row["status"] == "failed" for row in first)
        assert words in first[0]["error"] and "\x1b" not in first[0]["error"]
        assert first[0]["error"] in mine.run("logs", last["id"]).stdout
        assert last["status"] == ("failed" if fault == "absent" else "completed")
    assert len(by_fault["absent"]) == 3


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
