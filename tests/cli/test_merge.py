"""`sweepd merge`: what it shows, what it refuses, and that --dry-run writes nothing. It brings back
what files held that `sweepd doctor` names as damaged."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_store import planned
from questions import SIZE_FIELDS
from typer.testing import CliRunner, Result

from sweepd.cli import application
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store import tables
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
    return CliRunner().invoke(application(), list(arguments))


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


def test_doctor_names_damaged_files_and_a_copy_brings_back_what_they_held(tmp_path: Path) -> None:
    store, copy = made(tmp_path / "here", seeds=2), tmp_path / "copy"
    shutil.copytree(store.address, copy)
    assert all(check["ok"] for check in doctor(store))
    broken = [min((tmp_path / "here" / kind).iterdir()) for kind in ("trials", "metrics")]
    for path in broken:
        path.write_bytes(path.read_bytes() + b"x")
    told = [check["detail"] for check in doctor(store) if not check["ok"]]
    assert sum("1 damaged files" in line for line in told) == 2
    for path in broken:
        assert sum(str(path) in line for line in told) == 1
    assert sum("sweepd merge COPY" in line for line in told) == 2
    assert sweepd("merge", str(copy), "--results", store.address).exit_code == 0
    broken[0].unlink()  # its rows came again; the file of metrics is whole again
    for kind in (Store.read_trials, Store.read_metrics):
        ours, theirs = (kind(one).table for one in (store, Store.open(str(copy))))
        assert sorted(ours["id"].to_pylist()) == sorted(theirs["id"].to_pylist())
    assert all(check["ok"] for check in doctor(store))


@pytest.mark.parametrize("file", ["plan.parquet", "sweep.json"])
def test_a_copy_brings_back_a_damaged_part_of_a_sweep(tmp_path: Path, file: str) -> None:
    store, copy = made(tmp_path / "here", seeds=2), tmp_path / "copy"
    shutil.copytree(store.address, copy)
    broken = tmp_path / "here" / "sweeps" / "s" / file
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-20])
    told = [check["detail"] for check in doctor(store) if not check["ok"]]
    assert sum(str(broken) in line for line in told) == 1
    merge = f"sweepd merge COPY --results {store.address}"
    assert merge in told[-1]
    assert sweepd("merge", str(copy), "--results", store.address).exit_code == 0
    assert all(check["ok"] for check in doctor(store))
    assert "nothing" in sweepd("merge", str(copy), "--results", store.address).stderr


def test_a_plan_that_a_copy_does_not_have_whole_is_left_as_it_is(tmp_path: Path) -> None:
    store, copy = made(tmp_path / "here", seeds=2), tmp_path / "copy"
    made(copy, seeds=1)
    broken = tmp_path / "here" / "sweeps" / "s" / "sweep.json"
    broken.write_bytes(broken.read_bytes()[:-20])
    plan = store.read_plans(["s"]).table.num_rows
    merged = sweepd("merge", str(copy), "--results", store.address)
    assert str(broken) in merged.stderr and store.read_plans(["s"]).table.num_rows == plan


def relaunched(store: Store, seeds: int, **changes: Any) -> None:
    """Saves the sweep of a store again, as a launch of another grid does."""
    info = replace(store.load_sweep("s"), **changes)
    text = f"name: s\n# {seeds} seeds, {changes}"
    store.save_sweep("s", text, info, [planned(seed=seed) for seed in range(seeds)])


@pytest.mark.parametrize(
    "files", [("plan.parquet",), ("sweep.json",), ("plan.parquet", "sweep.json")]
)
@pytest.mark.parametrize("change", [{"seeds": 3}, {"seeds": 2, "goal": "acc > 0.99"}])
def test_what_is_older_or_another_sweep_takes_no_damaged_one_s_place(
    tmp_path: Path, files: tuple[str, ...], change: dict[str, Any]
) -> None:
    store, copy = made(tmp_path / "here", seeds=2), tmp_path / "copy"
    shutil.copytree(store.address, copy)
    relaunched(store, **change)
    folder = tmp_path / "here" / "sweeps" / "s"
    for file in files:
        (folder / file).write_bytes((folder / file).read_bytes()[:-20])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    merged = sweepd("merge", str(copy), "--results", store.address)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert all(str(folder / file) in merged.stderr for file in files)


def test_a_damaged_compacted_file_comes_back_also_beside_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    store, copy = made(tmp_path / "here", seeds=2), tmp_path / "copy"
    store.compact()
    shutil.copytree(store.address, copy)
    [broken] = (tmp_path / "here" / "metrics").glob("compacted-*")
    whole = broken.read_bytes()
    broken.write_bytes(whole[:-20])
    assert sweepd("merge", str(copy), "--results", store.address).exit_code == 0
    assert broken.read_bytes() == whole and all(check["ok"] for check in doctor(store))
    for path in (broken, copy / "metrics" / broken.name):
        path.write_bytes(whole[:-20])
    merged = sweepd("merge", str(copy), "--results", store.address)
    assert str(broken) in merged.stderr and str(copy / "metrics" / broken.name) in merged.stderr


def test_a_copy_brings_back_a_large_file_of_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damage changes neither size nor time, so that only `doctor --deep` finds it."""
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    store, copy = made(tmp_path / "here", seeds=2), tmp_path / "copy"
    shutil.copytree(store.address, copy)
    broken = min((tmp_path / "here" / "metrics").iterdir())
    os.utime(broken, (0, 0))
    rows = store.read_metrics().table.num_rows
    assert Store.open(store.address).live_metrics().scanned
    whole = broken.read_bytes()
    broken.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    os.utime(broken, (0, 0))
    assert not all(check["ok"] for check in doctor(store))
    assert sweepd("merge", str(copy), "--results", store.address).exit_code == 0
    assert broken.read_bytes() == whole and all(check["ok"] for check in doctor(store))
    assert Store.open(store.address).read_metrics().table.num_rows == rows


def doctor(store: Store) -> list[dict[str, Any]]:
    told = sweepd("doctor", "--deep", "--json", "--results", store.address)
    checks = [
        check for check in json.loads(told.stdout) if check["check"] in ("results", "metrics")
    ]
    assert told.exit_code == (0 if all(check["ok"] for check in json.loads(told.stdout)) else 3)
    return checks
