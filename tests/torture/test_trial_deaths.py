"""A sweep whose trials kill, freeze, flood and starve their workers, all in one launch: every death
is one failed attempt, and every trial that can end does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import faulty
import pytest
from e2e.conftest import Shell

GRID = """
task:
- {name: faulty.py:Deadly, n: 2, value_range: 64, fault: FAULTS, marks: MARKS}
- {name: faulty.py:Rubbish, n: 2, value_range: 64, fault: [exception, exit, few rows]}
- {name: faulty.py:Flood, n: 2, value_range: 64}
model: {name: standard, d: 4, layers: 1, heads: 1}
train: {steps: 20, batch_size: 4}
evaluate: {check_samples: 8, verdict_samples: 8}
hang_seconds: 30
retries: 1
"""
WORDS = dict.fromkeys(("killed", "terminated", "segfault", "abort", "quit", "starved"), "died")
CGROUPS = {
    "/sys/fs/cgroup/memory": "memory.limit_in_bytes",
    "/sys/fs/cgroup": "memory.max",
}
HANGS = dict.fromkeys(("hang", "frozen"), "no step for 30 s")


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
    assert deaths.keys() == faulty.DEATHS.keys()
    if not cgroup:
        del deaths["starved"]
    text = GRID.replace("MARKS", str(tmp_path)).replace("FAULTS", f"[{', '.join(deaths)}]")
    shell.write("grid.yaml", text)
    shell.run("launch", "grid.yaml", "--yes", exits=1)
    columns = "id, task, fault, status, error"
    attempts = shell.sql(f"SELECT {columns} FROM attempts ORDER BY attempt")
    for fault, words in deaths.items():
        first, last = (row for row in attempts if row["fault"] == fault)
        assert (first["status"], last["status"]) == ("failed", "completed"), fault
        assert words in first["error"], fault
    for fault in ("exception", "exit", "few rows"):
        both = [row["status"] for row in attempts if row["fault"] == fault]
        assert both == ["failed", "failed"]
    [flood] = [row for row in attempts if row["task"].endswith("Flood")]
    assert flood["status"] == "completed"
    assert "is left out" in shell.run("logs", flood["id"]).stdout
