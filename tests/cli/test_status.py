"""`sweepd status`. It shows how all sweeps stand, as the view `sweeps` counts them. For one sweep
it shows each trial."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fake_store import FakeStore, planned
from looped import METRICS, loop
from typer.testing import CliRunner

from sweepd.cli import application
from sweepd.statuses import STATUSES
from sweepd.store.store import Store, SweepInfo

GRID = "task: {name: lis, n: 8}"


def filled(address: str) -> None:
    """Two sweeps: of one, a trial failed and was then done; the other keeps seeds for close calls,
    of which one has ended, and an older code ran one of its trials too."""
    fake, store = FakeStore(), Store.create(address)
    first = [planned(d=d) for d in (8, 16, 32)]
    fake.end(first[0], "failed", attempt=1000, error="out of memory")
    fake.end(first[0], "completed", 0.9, attempt=2000)
    fake.end(first[1], "diverged")
    second = [planned(d=64, seed=seed) for seed in range(4)]
    fake.end(second[0], "completed", 0.9, sweep="second")
    fake.end(second[2], "interrupted", sweep="second")
    fake.end(planned(d=64, seed=1, code="old"), "completed", 0.8, sweep="second")
    info = SweepInfo(goal="acc > 0.9", size_fields={"lis": "n"})
    store.save_sweep("first", GRID, info, first)
    store.save_sweep("second", GRID, replace(info, extra_seeds=(1, 2, 3)), second)
    store.write_trials(fake.endings)


def rows(*command: str) -> list[dict[str, Any]]:
    found = CliRunner().invoke(application(), [*command, "--json"])
    assert found.exit_code == 0, found.output
    parsed: list[dict[str, Any]] = json.loads(found.stdout)
    return parsed


def test_sweeps_are_counted_as_the_view_counts_them(tmp_path: Path) -> None:
    results = ("--results", str(tmp_path))
    filled(str(tmp_path))
    status = rows("status", *results)
    assert [(row["sweep"], row["trials"], row["untried"]) for row in status] == [
        ("first", 3, 1),
        ("second", 2, 0),
    ]
    sweeps = rows("sql", "FROM sweeps", *results)
    same = ("trials", *STATUSES)
    assert [[row[name] for name in same] for row in status] == [
        [row[name] for name in same] for row in sweeps
    ]


def test_a_trial_shows_its_latest_ending(tmp_path: Path) -> None:
    filled(str(tmp_path))
    found = rows("status", "first", "--results", str(tmp_path))
    table = (
        CliRunner().invoke(application(), ["status", "first", "--results", str(tmp_path)]).stdout
    )
    shown = [line.split()[0] for line in table.splitlines()]
    assert shown == ["id", *(row["id"][:8] for row in found)]
    assert [(row["d"], row["status"], row["acc"], row["error"]) for row in found] == [
        (8, "completed", 0.9, None),
        (16, "diverged", None, None),
        (32, "untried", None, None),
    ]


def test_metrics_of_ones_own_are_columns(tmp_path: Path) -> None:
    fake, store = FakeStore(), Store.create(str(tmp_path))
    trials = [loop(2, hidden) for hidden in (4, 8)]
    fake.end(trials[0], "completed", f1=0.75, err=0.25, sweep="digits")
    info = SweepInfo(goal="f1 > 0.8", size_fields={"digits": "n"}, metrics=METRICS)
    store.save_sweep("digits", "loop: {name: mine.py:Run}", info, trials)
    store.write_trials(fake.endings)
    found = rows("status", "digits", "--results", str(tmp_path))
    assert [(row["hidden"], row["status"], row["f1"], row["err"]) for row in found] == [
        (4, "completed", 0.75, 0.25),
        (8, "untried", None, None),
    ]
