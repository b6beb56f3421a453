"""A sweep whose trials kill, freeze, flood and starve their workers, all in one launch. Every death
is one failed attempt, and every trial that can end ends."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import faulty
import psutil
import pytest
from shell import Shell
from waiting import wait_until

GRID = """
task:
- {name: faulty.py:Deadly, n: 2, value_range: 64, fault: FAULTS, marks: MARKS}
- {name: faulty.py:LateRubbish, n: 2, value_range: 64, fault: [exception, few rows]}
- {name: faulty.py:Flood, n: 2, value_range: 64}
model: {name: standard, d: 4, layers: 1, heads: 1}
train: {steps: 20, batch_size: 4}
evaluate: {check_samples: 8, verdict_samples: 8}
hang_seconds: 60
retries: 1
"""
WORDS = dict.fromkeys(("killed", "terminated", "segfault", "abort", "quit", "starved"), "died")
WORDS["exit"] = "SystemExit: 0"
CGROUPS = {
    "/sys/fs/cgroup/memory": "memory.limit_in_bytes",
    "/sys/fs/cgroup": "memory.max",
}
HANGS = dict.fromkeys(("hang", "frozen"), "no step for 60 s")


@pytest.fixture
def cgroup() -> Iterator[Path | None]:
    """A memory cgroup of 1 GiB, of either version; None where this user can't make one."""
    for root, limit in CGROUPS.items():
        group = Path(root, f"sweepd-{os.getpid()}")
        try:
            group.mkdir()
            (group / limit).write_text(str(2**30))
        except OSError:
            continue
        yield group
        group.rmdir()
        return
    yield None


def test_every_death_is_one_failed_attempt(tmp_path: Path, cgroup: Path | None) -> None:
    shell = Shell(tmp_path, environment={"STARVE_IN": str(cgroup)} if cgroup else {})
    shutil.copy(faulty.__file__, tmp_path)
    deaths = {**WORDS, **HANGS}
    assert {*deaths, "hoards"} == {*faulty.DEATHS}
    if not cgroup:
        del deaths["starved"]
    text = GRID.replace("MARKS", str(tmp_path)).replace("FAULTS", f"[{', '.join(deaths)}]")
    shell.write("grid.yaml", text)
    launch = shell.start("launch", "grid.yaml", "--yes")
    _, told = launch.communicate(timeout=900)
    assert launch.returncode == 1, told
    columns = "id, task, fault, status, error"
    attempts = shell.sql(f"SELECT {columns} FROM attempts ORDER BY attempt")
    for fault, words in deaths.items():
        first, last = (row for row in attempts if row["fault"] == fault)
        assert (first["status"], last["status"]) == ("failed", "completed"), fault
        assert words in first["error"], fault
    for fault in ("exception", "few rows"):
        both = [row["status"] for row in attempts if row["fault"] == fault]
        assert both == ["failed", "failed"]
    [flood] = [row for row in attempts if row["task"].endswith("Flood")]
    assert flood["status"] == "completed"
    assert "is left out" in shell.run("logs", flood["id"]).stdout


def test_ray_kills_a_worker_that_takes_too_much_memory(tmp_path: Path) -> None:
    """Ray is told that the machine may have so much more memory in use than now, of which other
    programs may free some meanwhile. It may also kill the worker that tries again, while the memory
    of the first is not free yet."""
    now, more = psutil.virtual_memory(), 3
    share = (now.total - now.available + more * 2**30) / now.total
    assert share < 0.9, "this machine has too little memory left for this test"
    shell = Shell(tmp_path, environment={
        "RAY_memory_usage_threshold": f"{share:.3f}",
        "HOARD_GIB": str(2 * more),
    })  # fmt: skip
    shutil.copy(faulty.__file__, tmp_path)
    lines = (
        GRID.replace("retries: 1", "retries: 5")
        .replace("hang_seconds: 60", "hang_seconds: 200")
        .replace("FAULTS", "hoards")
        .replace("MARKS", str(tmp_path))
        .splitlines(True)
    )
    shell.write("grid.yaml", "".join(line for line in lines if "Rubbish" not in line))
    launch = shell.start("launch", "grid.yaml", "--yes")
    _, told = launch.communicate(timeout=300)
    assert launch.returncode == 0, told
    attempts = shell.sql("SELECT id, fault, status, error FROM attempts ORDER BY attempt")
    first, *_, last = (row for row in attempts if row["fault"] == "hoards")
    assert (first["status"], last["status"]) == ("failed", "completed")
    assert re.match("Ray killed its worker, since .*GB of its node's .*GB", first["error"])
    assert "OOM kill reason" in shell.run("logs", first["id"]).stdout


def test_workers_that_hang_before_they_can_work(tmp_path: Path) -> None:
    """The workers open a store that does not answer, since its first file is a pipe."""
    shell = Shell(tmp_path)
    shell.write(
        "grid.yaml",
        "task: {name: lis, n: 2, value_range: 64}\nmodel: {name: standard, d: 4, heads: 1}\n"
        "train: {steps: 20, batch_size: 4}\nhang_seconds: 20\nretries: 9\n",
    )
    launch = shell.start("launch", "grid.yaml", "--yes")
    results = tmp_path / "sweepd-results"
    wait_until(lambda: any(results.glob("launches/*.json")), 400, launch)
    mark = results / "sweepd-store.json"
    aside = mark.rename(mark.with_name("aside"))
    os.mkfifo(mark)
    wait_until(lambda: any(results.glob("trials/*.parquet")), 400, launch)
    aside.replace(mark)
    _, told = launch.communicate(timeout=900)
    assert launch.returncode == 0, told
    first, *_, last = shell.sql("SELECT status, error FROM attempts ORDER BY attempt")
    assert first["status"] == "failed" and "died" in first["error"]
    assert last["status"] == "completed"
