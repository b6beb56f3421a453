"""`sweepd gc`, on a disk and on S3: what it deletes, what it never deletes, and that it asks first.
Covers `cli/housekeeping.py` and `store/garbage.py`."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from inprocess import Answer, sweepd
from waiting import python

from sweepd.errors import EnvironmentFailure
from sweepd.store import garbage
from sweepd.store.store import Store, SweepInfo

DRIVER = """
import sys
from sweepd.store.store import Store, SweepInfo
print(Store.open(sys.argv[1]).lock_sweep("running", print, print), flush=True)
sys.stdin.read()
"""
KEPT, OWN = "000000400-{}.keep.pt", "000000500-{}.pt"
COUNTS = {"replaced": 10, "leftover": 1, "ended": 2, "kept": 6}
"""How much garbage of each kind the `store` below has."""


def plan_row(id: str, trunk: str) -> dict[str, object]:
    where = {"task": "lis", "model": "standard", "size": 8, "seed": 0}
    return {"id": id, "trunk": trunk, "config": id, "steps": 400, **where}


@pytest.fixture(params=["local", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Two sweeps, of which one will be driven, with all kinds of what may be left."""
    if request.param == "local":
        store = Store.create(str(tmp_path / "results"))
    else:
        request.getfixturevalue("s3")
        store = Store.create(f"s3://{request.getfixturevalue('bucket')}/results")
    info = SweepInfo(goal="acc > 0.9")
    store.save_sweep("over", "", info, [plan_row("aa", "t1"), plan_row("ab", "t1")])
    store.save_sweep("running", "", info, [plan_row("ba", "t2")])
    for id, attempt, status in [
        ("aa", 1000, "completed"),
        ("ab", 1000, "failed"),
        ("ab", 2000, "interrupted"),
        ("ac", 1000, "stopped"),
        ("ba", 1000, "completed"),
    ]:
        store.write_metrics([{"id": id, "attempt": attempt, "step": 1}])
        store.write_trials([{"id": id, "attempt": attempt, "status": status, "config": id}])
    store.compact()
    for trunk, id in [("t1", "aa"), ("t1", "ab"), ("t1", "ac"), ("t1", "unknown"), ("t2", "ba")]:
        store.put_checkpoint(trunk, KEPT.format(id), bytes(1000))
        store.put_checkpoint(trunk, OWN.format(id), bytes(100))
    store.put_checkpoint("t1", "mine.pt", b"")
    store.folder.put("metrics/.aside-left", b"half")
    store.append_log("aa", "a word\n")
    store.flush_logs()
    return store


def left(store: Store) -> set[str]:
    files = store.folder.files()
    return {file.name for file in files if file.name.startswith("checkpoints/")}


def test_what_is_garbage_and_what_is_not(store: Store) -> None:
    trials, metrics = (read().table for read in (store.read_trials, store.read_metrics))
    before = {file.name for file in store.folder.files()}
    found = garbage.find(store, 0)
    kinds = {kind: {one.name for one in found if one.kind == kind} for kind in dict.fromkeys(
        one.kind for one in found)}  # fmt: skip
    assert {kind: len(names) for kind, names in kinds.items()} == COUNTS
    assert kinds["leftover"] == {"metrics/.aside-left"}
    assert kinds["ended"] == {"checkpoints/t1/000000500-aa.pt", "checkpoints/t2/000000500-ba.pt"}
    assert "checkpoints/t1/000000500-ac.pt" in kinds["kept"]  # it was stopped: it may train on
    assert sum(one.size for one in found if one.kind == "kept") > 5 * 1000 + 100

    assert set(garbage.delete(store, found, 0)) == set(found)
    assert left(store) == {
        f"checkpoints/t1/{name}" for name in ("000000500-ab.pt", "000000500-unknown.pt", "mine.pt")
    }
    gone = before - {file.name for file in store.folder.files()}
    assert gone == {one.name for one in found if one.kind != "leftover"}
    assert store.folder.asides() == [] and garbage.find(store, 0) == []
    again = Store.open(store.address)
    assert again.read_trials().table.sort_by("attempt").equals(trials.sort_by("attempt"))
    assert again.read_metrics().table.num_rows == metrics.num_rows
    assert again.read_log("aa") == "a word\n"


@pytest.mark.parametrize("on_demand", [True, False])
def test_what_a_sweep_may_still_train_for_longer_is_left(store: Store, on_demand: bool) -> None:
    """Longer trials start from the states of their trunk, whether a sweep that settles has planned
    them or a grid."""
    longer = {**plan_row("a-longer", "t1"), "steps": 800, "on_demand": on_demand}
    store.save_sweep("settles", "", SweepInfo(goal="acc > 0.9"), [longer])
    kept = {one.name for one in garbage.find(store, 0) if one.kind == "kept"}
    assert not any(".keep." in name and name.startswith("checkpoints/t1/") for name in kept)


def test_what_a_running_driver_may_use_is_left(store: Store) -> None:
    found = garbage.find(store, 0)
    with python(DRIVER, store.address) as driver:
        assert driver.stdout and driver.stdout.readline() == "True\n"
        assert not any("t2" in one.name for one in garbage.find(store, 0))
        deleted = garbage.delete(store, found, 0)  # which had been found before it started
        assert deleted and not any("t2" in one.name for one in deleted)
        store.folder.put("sweeps/running/plan.parquet", b"damaged")
        with pytest.raises(EnvironmentFailure, match=r"plan\.parquet: damaged, and its sweep runs"):
            garbage.find(store, 0)
        driver.kill()


def test_young_files_are_left_and_one_gc_runs_at_a_time(store: Store) -> None:
    assert garbage.find(store, 3600) == []
    other = Store.open(store.address)
    assert other.locks.acquire(["gc"]) == {"gc"}
    if store.address.startswith("s3"):
        with pytest.raises(EnvironmentFailure, match="another gc is running"):
            garbage.find(store, 0)
    other.locks.release(["gc"])
    assert garbage.find(store, 0)


def gc(store: Store, *arguments: str, exits: int = 0) -> Answer:
    return sweepd("gc", "--results", store.address, *arguments, exits=exits)


def test_the_command_shows_asks_and_deletes(store: Store) -> None:
    before = left(store)
    shown = gc(store, "--older-than", "0s", "--dry-run", "--json").rows
    assert {row["kind"]: row["files"] for row in shown} == COUNTS
    assert "confirm with --yes" in gc(store, "--older-than", "0s", exits=2).err
    assert "number" in gc(store, "--older-than", "soon", exits=2).err
    assert "nothing to delete" in gc(store).err  # all of it is younger than an hour
    assert left(store) == before
    assert "deleted 19 files" in gc(store, "--older-than", "0s", "--yes").err
    assert "nothing to delete" in gc(store, "--older-than", "0s").err


def read_to_the_end(person: int) -> Iterator[str]:
    """What stands on a terminal that nobody writes to any more. A busy machine brings it in
    pieces."""
    with suppress(OSError):  # how Linux says that nothing follows
        while piece := os.read(person, 10000):
            yield piece.decode()


@pytest.mark.parametrize("store", ["local"], indirect=True)
def test_a_person_is_asked(store: Store) -> None:
    before = left(store)
    for answer, remains in [("n", True), ("y", False)]:
        person, terminal = pty.openpty()
        program = str(Path(sys.executable).with_name("sweepd"))
        asked = subprocess.Popen(
            [program, "gc", "--results", store.address, "--older-than", "0s"],
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=terminal,
        )
        os.write(person, f"{answer}\n".encode())
        asked.wait()
        os.close(terminal)
        told = "".join(read_to_the_end(person))
        assert asked.returncode == 0 and "delete 19 files" in told, told
        assert (left(store) == before) is remains
