"""`sweepd merge`: what it shows, what it refuses, and that --dry-run writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

from fake_store import planned
from questions import SIZE_FIELDS
from typer.testing import CliRunner, Result

from sweepd.cli import app
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store.store import Store, SweepInfo


def made(path: Path, seeds: int = 1) -> Store:
    store, trials = Store.create(str(path)), [planned(seed=seed) for seed in range(seeds)]
    info = SweepInfo(goal="acc > 0.9", size_fields=SIZE_FIELDS, task_fields={"lis": ("n",)})
    store.save_sweep("s", "name: s", info, trials)
    attempt = 1000 * store.new_launch({"sweep": "s", "host": path.name})
    for trial in trials:
        store.write_metrics([{"id": trial["id"], "attempt": attempt, "step": 1}])
        store.write_trials([{**trial, "attempt": attempt, "sweep": "s", "status": "completed"}])
    return store


def sweepd(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_it_shows_what_comes_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    there, here = str(made(tmp_path / "there").address), str(tmp_path / "here")
    dry = sweepd("merge", there, "--results", here, "--dry-run")
    assert dry.exit_code == 0 and not (tmp_path / "here").exists()
    assert f"would be brought from {there} to {here}: the above" in dry.stderr
    done = sweepd("merge", there, "--results", here, "--json")
    kinds = ("launches", "rows of metrics", "endings", "sweeps")
    assert json.loads(done.stdout) == [{"what": kind, "count": 1} for kind in kinds]
    assert Store.open(here).sweeps() == ["s"]
    again = sweepd("merge", there, "--results", here)
    assert again.exit_code == 0 and again.stderr.endswith("nothing\n")


def test_what_it_refuses(tmp_path: Path) -> None:
    there, here = made(tmp_path / "there").address, made(tmp_path / "here", seeds=2).address
    for arguments, complaint in [
        ((here,), "a store cannot be merged into itself"),
        ((str(tmp_path),), "is not a sweepd results folder"),
        ((there,), "sweep s: both stores have one of this name, and they differ in their trials"),
        ((there, "--rename", "s"), "--rename s: give the old and the new name"),
        ((there, "--rename", "s=a/b"), "a name has 1 to 100 letters"),
    ]:
        refused = sweepd("merge", *arguments, "--results", here)
        assert isinstance(refused.exception, UserError) and complaint in str(refused.exception)
    assert len(Store.open(here).launches()) == 1
    driver = Store.open(here)
    assert driver.lock_sweep("s", print, print)
    refused = sweepd("merge", there, "--results", here, "--rename", "s=t")
    driver.unlock_sweep("s")
    assert isinstance(refused.exception, EnvironmentFailure)
    assert sweepd("merge", there, "--results", here, "--rename", "s=t").exit_code == 0
    assert Store.open(here).sweeps() == ["t", "s"]  # as they were created
