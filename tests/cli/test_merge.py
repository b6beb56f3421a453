"""`sweepd merge`: what it shows, what it refuses, and that --dry-run writes nothing. It brings back
what files held that `sweepd doctor` names as damaged."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from fake_store import planned
from inprocess import sweepd
from questions import SIZE_FIELDS

from sweepd.store import tables
from sweepd.store.store import Store, SweepInfo

RESULTS = Path("sweepd-results")


def made(path: Path, seeds: int = 1) -> Store:
    store, trials = Store.create(str(path)), [planned(seed=seed) for seed in range(seeds)]
    info = SweepInfo(goal="acc > 0.9", size_fields=SIZE_FIELDS, task_fields={"lis": ("n",)})
    store.save_sweep("s", "name: s", info, trials)
    attempt = 1000 * store.new_launch({"sweep": "s", "host": path.name})
    for trial in trials:
        store.write_metrics([{"id": trial["id"], "attempt": attempt, "step": 1}])
        store.write_trials([{**trial, "attempt": attempt, "sweep": "s", "status": "completed"}])
    return store


@pytest.fixture(name="store")
def with_copy(folder: Path) -> Store:
    """The store of the current folder, which has a copy."""
    store = made(RESULTS, seeds=2)
    shutil.copytree(RESULTS, folder / "copy")
    return store


def merge(*arguments: str) -> str:
    return sweepd("merge", *arguments, exits=0).err


def cut(path: Path) -> bytes:
    """Damages a file, and returns what it held."""
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    return whole


def wrong() -> list[str]:
    """What the doctor finds wrong with the results."""
    told = sweepd("doctor", "--deep", "--json")
    assert told.code == (0 if all(check["ok"] for check in told.rows) else 3)
    kinds = ("results", "metrics")
    return [one["detail"] for one in told.rows if one["check"] in kinds and not one["ok"]]


@pytest.mark.usefixtures("folder")
def test_it_shows_what_comes_and_a_dry_run_writes_nothing() -> None:
    there = made(Path("there")).address
    assert f"would be brought from {there} to " in merge(there, "--dry-run")
    assert not RESULTS.exists()
    kinds = ("launches", "rows of metrics", "endings", "sweeps")
    brought = sweepd("merge", there, "--json").rows
    assert brought == [{"what": kind, "count": 1} for kind in kinds]
    assert Store.open(str(RESULTS)).sweeps() == ["s"]
    assert merge(there).endswith("nothing\n")


def test_what_it_refuses(folder: Path, store: Store) -> None:
    made(Path("there"))
    for arguments, complaint in [
        ((str(RESULTS),), "a store cannot be merged into itself"),
        ((str(folder),), "is not a sweepd results folder"),
        (("there",), "sweep s: both stores have one of this name, and they differ in their trials"),
        (("there", "--rename", "s"), "--rename s: give the old and the new name"),
        (("there", "--rename", "s=a/b"), "a name has 1 to 100 letters"),
    ]:
        assert complaint in sweepd("merge", *arguments, exits=2).err
    assert len(store.launches()) == 1
    assert store.lock_sweep("s", print, print)
    sweepd("merge", "there", "--rename", "s=t", exits=3)
    store.unlock_sweep("s")
    merge("there", "--rename", "s=t")
    assert sorted(store.sweeps()) == ["s", "t"]


def test_doctor_names_damaged_files_and_a_copy_brings_back_what_they_held(store: Store) -> None:
    assert not wrong()
    broken = [min((RESULTS / kind).iterdir()) for kind in ("trials", "metrics")]
    for path in broken:
        path.write_bytes(path.read_bytes() + b"x")
    told = wrong()
    assert sum("1 damaged files" in line for line in told) == 2
    for path in broken:
        assert sum(str(path) in line for line in told) == 1
    assert sum("sweepd merge COPY" in line for line in told) == 2
    merge("copy")
    broken[0].unlink()  # its rows came again; the file of metrics is whole again
    for kind in (Store.read_trials, Store.read_metrics):
        ours, theirs = (kind(one).table for one in (store, Store.open("copy")))
        assert sorted(ours["id"].to_pylist()) == sorted(theirs["id"].to_pylist())
    assert not wrong()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("file", ["plan.parquet", "sweep.json"])
def test_a_copy_brings_back_a_damaged_part_of_a_sweep(file: str) -> None:
    broken = RESULTS / "sweeps" / "s" / file
    cut(broken)
    told = wrong()
    assert sum(str(broken) in line for line in told) == 1 and "`sweepd merge COPY`" in told[-1]
    merge("copy")
    assert not wrong() and "nothing" in merge("copy")


def test_a_plan_that_a_copy_does_not_have_whole_is_left_as_it_is(store: Store) -> None:
    broken = RESULTS / "sweeps" / "s" / "sweep.json"
    cut(broken)
    plan = store.read_plans(["s"]).table.num_rows
    assert str(broken) in merge(made(Path("another")).address)
    assert store.read_plans(["s"]).table.num_rows == plan


@pytest.mark.parametrize(
    "files", [("plan.parquet",), ("sweep.json",), ("plan.parquet", "sweep.json")]
)
@pytest.mark.parametrize(("seeds", "goal"), [(3, "acc > 0.9"), (2, "acc > 0.99")])
def test_what_is_older_or_another_sweep_takes_no_damaged_one_s_place(
    store: Store, files: tuple[str, ...], seeds: int, goal: str
) -> None:
    """The sweep was saved again since, as a launch of another grid does."""
    info = replace(store.load_sweep("s"), goal=goal)
    trials = [planned(seed=seed) for seed in range(seeds)]
    store.save_sweep("s", f"name: s\n# {seeds}, {goal}", info, trials)
    folder = RESULTS / "sweeps" / "s"
    for file in files:
        cut(folder / file)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    told = merge("copy")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert all(str(folder / file) in told for file in files)


def test_a_damaged_compacted_file_comes_back_also_beside_its_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    store.compact()
    copy = shutil.copytree(RESULTS, "compacted")
    [broken] = (RESULTS / "metrics").glob("compacted-*")
    whole = cut(broken)
    merge(copy)
    assert broken.read_bytes() == whole and not wrong()
    both = (broken, Path(copy, "metrics", broken.name))
    for path in both:
        cut(path)
    told = merge(copy)
    assert all(str(path) in told for path in both)


def test_a_copy_brings_back_a_large_file_of_metrics(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damage changes neither size nor time, so that only `doctor --deep` finds it."""
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    broken = min((RESULTS / "metrics").iterdir())
    os.utime(broken, (0, 0))
    rows = store.read_metrics().table.num_rows
    assert Store.open(str(RESULTS)).live_metrics().scanned
    whole = broken.read_bytes()
    broken.write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    os.utime(broken, (0, 0))
    assert wrong()
    merge("copy")
    assert broken.read_bytes() == whole and not wrong()
    assert Store.open(str(RESULTS)).read_metrics().table.num_rows == rows
