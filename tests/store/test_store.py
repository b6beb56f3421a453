"""The results folder: how it is made and opened, and its sweeps, launches, checkpoints, logs and
locks. Its promises are the same wherever it is. So they are tested once on a local disk and once on
S3. Covers `store/names.py`.

Tables have their own tests (`test_tables.py`). So have locks, and the storage below the store.
"""

import errno
import json
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from object_store import Proxy
from reading import failing_reads
from waiting import python

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store import leases
from sweepd.store.names import TRIES, Checkpoint, attempt_number
from sweepd.store.store import Store, SweepInfo, _place

TRIAL = "ab" * 32


anywhere = pytest.mark.parametrize("place", ["local", "s3"], indirect=True)


@pytest.fixture
def store(place: str) -> Store:
    return Store.create(place)


def names(store: Store, below: str = "") -> list[str]:
    return [file.name for file in store.folder.files(below)]


# Making and opening


@anywhere
def test_create_makes_what_is_missing_and_opens_what_is_there(place: str) -> None:
    assert Store.find(place) is None
    store = Store.create(place)
    assert store.address == place
    assert names(store) == ["sweepd-store.json"]
    assert json.loads(store.folder.read("sweepd-store.json"))["format"] == 1
    store.write_trials([{"id": TRIAL, "attempt": 1000, "status": "failed"}])
    for again in (Store.create(place), Store.open(place), Store.find(place + "/")):
        assert again is not None and again.address == place
        assert again.read_trials().table.num_rows == 1


def test_a_local_address_may_be_a_url_or_relative_and_an_empty_folder_becomes_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Store.find(str(tmp_path)) is None
    assert Store.create(str(tmp_path)).read_trials().table.num_rows == 0
    assert Store.open(f"file://{tmp_path}").address == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    store = Store.open(".")
    monkeypatch.chdir("/")  # it holds where the process moves
    assert store.address == str(tmp_path)
    store.write_metrics([{"id": TRIAL, "attempt": 1000, "step": 1}])
    assert store.read_metrics().table.num_rows == 1


@anywhere
def test_a_folder_of_something_else_is_refused_and_left_alone(place: str) -> None:
    folder, _ = _place(place)
    folder.make()
    folder.put("thesis.tex", b"precious")
    for make in (Store.create, Store.open, Store.find):
        with pytest.raises(UserError, match="not a sweepd results folder"):
            make(place)
    assert [file.name for file in folder.files()] == ["thesis.tex"]


@anywhere
@pytest.mark.parametrize(
    "mark, complaint",
    [(b'{"format": 2}', "upgrade"), (b"", "damaged"), (b"[]", "damaged"), (b"{}", "damaged")],
)
def test_a_mark_that_is_newer_or_damaged_is_refused(
    place: str, mark: bytes, complaint: str
) -> None:
    folder, _ = _place(place)
    folder.make()
    folder.put("sweepd-store.json", mark)
    for make in (Store.create, Store.open):
        with pytest.raises(UserError, match=complaint):
            make(place)


def test_addresses_that_cannot_be_a_store(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for inside in (file, file / "below"):
        with pytest.raises(UserError, match="/file is a file"):
            Store.create(str(inside))
    for absent in (tmp_path / "nowhere", file, file / "below"):
        with pytest.raises(UserError, match="not a sweepd results folder"):
            Store.open(str(absent))
    with pytest.raises(UserError, match="not a sweepd results folder"):
        Store.find(str(file))
    for address in ("az://bucket/results", "s3://", "s3://bucket//a", "gs://bucket/../a"):
        with pytest.raises(UserError, match="://"):
            Store.create(address)
    with pytest.raises(UserError, match=r"full path, or \./~results"):
        Store.find("~results")


CREATE = (
    "import sys; from sweepd.store.store import Store; Store.create(sys.argv[1]).new_launch({})"
)


@anywhere
def test_processes_create_one_store_and_share_out_launch_numbers(place: str) -> None:
    processes = [python(CREATE, place) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    for process in processes:
        process.communicate()
    numbers = [launch["number"] for launch in Store.open(place).launches()]
    assert len(set(numbers)) == 4


# Sweeps

INFO = SweepInfo(goal="acc > 0.9")


def plan_row(id: str, **axes: object) -> dict[str, object]:
    return {"id": id, "task": "lis", "model": "standard", "size": 8, "seed": 0, **axes}


@anywhere
def test_a_sweep_is_saved_and_loaded(store: Store) -> None:
    info = SweepInfo(goal="acc > 0.9", tune=("train.lr",), base="/home/Zoë")
    store.save_sweep("first", "name: first # é\n", info, [plan_row(TRIAL, n=8)])
    saved = store.load_sweep("first")
    assert store.load_grid("first") == "name: first # é\n"
    assert datetime.fromisoformat(saved.created).tzinfo
    assert saved == replace(info, created=saved.created)

    store.save_sweep("first", "name: first\n", INFO, [])
    assert store.load_grid("first") == "name: first\n"
    assert store.load_sweep("first") == replace(INFO, created=saved.created)
    assert store.read_plans(["first"]).table.num_rows == 0


@anywhere
def test_sweeps_are_listed_as_they_were_created_also_where_an_unknown_one_is_refused(
    store: Store,
) -> None:
    assert store.sweeps() == []
    with pytest.raises(UserError, match=r"no sweep 'x'.*there are: none"):
        store.load_sweep("x")
    for name in ("z", "a", "m", "z"):
        store.save_sweep(name, "", INFO, [])
    assert store.sweeps() == ["z", "a", "m"]
    for ask in (store.load_sweep, lambda name: store.read_plans(["a", name])):
        with pytest.raises(UserError, match=r"no sweep 'x'.*there are: z, a, m"):
            ask("x")


@anywhere
@pytest.mark.parametrize("name", ["", ".x", "a/b", "../x", "x" * 101, "ä"])
def test_impossible_sweep_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(UserError, match="a name has"):
        store.save_sweep(name, "", INFO, [])
    with pytest.raises(UserError, match="a name has"):
        store.load_sweep(name)
    assert names(store) == ["sweepd-store.json"]


@anywhere
def test_a_sweep_whose_saving_was_cut_off_does_not_exist(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = store.folder.put

    def cut_off(name: str, data: bytes) -> None:
        if name.endswith("sweep.json"):
            raise EnvironmentFailure("disk full")
        put(name, data)

    monkeypatch.setattr(store.folder, "put", cut_off)
    with pytest.raises(EnvironmentFailure):
        store.save_sweep("x", "", INFO, [plan_row(TRIAL)])
    assert store.sweeps() == []
    assert store.read_plans().table.num_rows == 0


@anywhere
def test_plans_are_read_together_by_sweep(store: Store) -> None:
    store.save_sweep("one", "", INFO, [plan_row("a" * 8, n=8), plan_row("b" * 8, n=12)])
    store.save_sweep("two", "", INFO, [plan_row("a" * 8, n=8, value_range=0.5)])
    plans = store.read_plans().table
    rows = [tuple(row[k] for k in ("sweep", "id", "n", "value_range")) for row in plans.to_pylist()]
    one = [("one", "a" * 8, 8, None), ("one", "b" * 8, 12, None)]
    assert sorted(rows, key=str) == [*one, ("two", "a" * 8, 8, 0.5)]
    assert store.read_plans(["one"]).table.num_rows == 2
    assert store.read_plans([]).table.num_rows == 0


@anywhere
def test_damaged_sweeps_are_named_and_hide_no_other(store: Store) -> None:
    for name in ("good", "bad", "worse"):
        store.save_sweep(name, "", INFO, [plan_row(TRIAL)])
    assert store.read_plans().table.num_rows == 3
    store.folder.put("sweeps/bad/plan.parquet", b"PAR1")
    store.folder.put("sweeps/worse/sweep.json", b"{")
    store.folder.delete(["sweeps/worse/plan.parquet"])
    assert store.sweeps() == ["worse", "good", "bad"]
    read = store.read_plans()
    assert read.table["sweep"].to_pylist() == ["good"]
    assert [damaged.path for damaged in read.damaged] == [
        store.folder.where(f"sweeps/{name}/plan.parquet") for name in ("worse", "bad")
    ]
    with pytest.raises(EnvironmentFailure, match=r"worse/sweep\.json is damaged"):
        store.load_sweep("worse")
    store.save_sweep("worse", "", INFO, [])
    assert store.load_sweep("worse").goal == INFO.goal


def test_a_sweep_that_cannot_be_read_now_is_not_called_damaged(tmp_path: Path) -> None:
    """Whoever took it so would write it anew, without what it held."""
    store = Store.create(str(tmp_path / "results"))
    for name in ("one", "two"):
        store.save_sweep(name, "", INFO, [plan_row(TRIAL)])
    with failing_reads("sweeps/two/sweep.json", errno.EIO):
        for ask in (store.sweeps, store.readable_sweeps, lambda: store.read_plans(["one"])):
            with pytest.raises(EnvironmentFailure, match=r"two/sweep\.json: Input/output error"):
                ask()
    assert store.sweeps() == ["one", "two"]


# Launches


@anywhere
def test_launches_are_numbered_in_order(store: Store) -> None:
    """By the clock, and so apart from those of other stores; but never below the last one."""
    assert store.launches() == []
    began = time.time() * 1e6
    first, second = (store.new_launch({"sweep": name}) for name in ("a", "b"))
    assert began - 1 <= first < second <= time.time() * 1e6 + 1
    assert store.launches() == [{"sweep": "a", "number": first}, {"sweep": "b", "number": second}]
    store.folder.put(f"launches/{2 * second}.json", b"{")  # damaged, it keeps its number
    store.folder.put("launches/notes.txt", b"not a launch")
    assert store.new_launch({}) == 2 * second + 1
    *_, damaged, last = store.launches()
    assert damaged["number"] == 2 * second and damaged["damaged"]
    assert last == {"number": 2 * second + 1}
    assert attempt_number(2 * second + 1, TRIES - 1) < 2**63


# Checkpoints, logs, locks


@given(st.integers(0, 10**9), st.text("0123456789abcdef", min_size=1), st.booleans())
def test_names_of_checkpoints_are_read_as_written(step: int, trial: str, kept: bool) -> None:
    checkpoint = Checkpoint(step, trial, kept)
    assert Checkpoint.parse(checkpoint.name) == checkpoint
    for name in (f"{checkpoint.name}x", f"x{checkpoint.name}", checkpoint.name[:-3]):
        assert Checkpoint.parse(name) is None


@anywhere
def test_checkpoints_belong_to_a_trunk(store: Store) -> None:
    assert store.checkpoints("t1") == []
    store.put_checkpoint("t1", "000200-x.pt", b"\0" * 1000)
    store.put_checkpoint("t1", "000100-x.pt", b"old")
    store.put_checkpoint("t2", "000100-x.pt", b"other")
    store.put_checkpoint("t1", "000100-x.pt", b"new")
    assert store.checkpoints("t1") == ["000100-x.pt", "000200-x.pt"]
    assert store.get_checkpoint("t1", "000100-x.pt") == b"new"
    store.delete_checkpoint("t1", "000100-x.pt")
    store.delete_checkpoint("t1", "000100-x.pt")
    assert store.checkpoints("t1") == ["000200-x.pt"]
    with pytest.raises(FileNotFoundError):
        store.get_checkpoint("t1", "000100-x.pt")
    with pytest.raises(UserError):
        store.put_checkpoint("t1", "../../escape", b"")
    stored = store.folder.read("checkpoints/t1/000200-x.pt")
    for bad in (b"", stored[:-1], stored[1:], b"\1" + stored[1:]):
        store.folder.put("checkpoints/t1/000200-x.pt", bad)
        with pytest.raises(ValueError, match="truncated or changed"):
            store.get_checkpoint("t1", "000200-x.pt")


@anywhere
def test_logs(store: Store) -> None:
    another = Store.open(store.address)
    assert store.read_log(TRIAL) == ""
    store.append_log(TRIAL, "one\n")
    store.append_log(TRIAL, "two é\n")
    store.flush_logs()
    assert another.read_log(TRIAL) == "one\ntwo é\n"
    another.append_log(TRIAL, "three \udcff\n")
    another.write_trials(
        [{"id": TRIAL, "attempt": 1000, "status": "failed"}]
    )  # brings out what was noted before
    store.append_log(TRIAL, "four\n")
    store.put_checkpoint("t1", "000100-x.pt", b"")
    assert another.read_log(TRIAL) == "one\ntwo é\nthree ?\nfour\n"
    assert another.read_log("other") == ""


@pytest.mark.parametrize("place", ["local"], indirect=True)
def test_a_store_copied_to_another_kind_of_place_keeps_its_logs(
    store: Store, tmp_path: Path, s3: Proxy, bucket: str
) -> None:
    store.append_log(TRIAL, "on disk\n")
    there = Store.create(f"s3://{bucket}")
    for name in names(store):
        there.folder.put(name, store.folder.read(name))
    there.append_log(TRIAL, "in a bucket\n")
    there.flush_logs()
    back = Store.create(str(tmp_path / "back"))
    for name in names(there):
        back.folder.put(name, there.folder.read(name))
    assert there.read_log(TRIAL) == back.read_log(TRIAL) == "on disk\nin a bucket\n"
    back.append_log(TRIAL, "on disk again\n")
    assert sorted(back.read_log(TRIAL).splitlines()) == ["in a bucket", "on disk", "on disk again"]


HOLD = """
import sys
from sweepd.store import leases
from sweepd.store.store import Store
leases.RENEW_SECONDS = 0.3
store = Store.open(sys.argv[1])
held = store.claim(["t"]), store.lock_sweep("s", print, print)
store.mark_driven("s")
print(*held, flush=True)
import time; time.sleep(60)
"""


@anywhere
def test_claims_and_sweep_locks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "TERM_SECONDS", 2.0)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.3)
    monkeypatch.setattr(leases, "POLL_SECONDS", 0.5)
    notes: list[str] = []

    def lock(store: Store, name: str) -> bool:
        return store.lock_sweep(name, notes.append, notes.append)

    assert store.driven_elsewhere(["s", "t"]) == set()
    with python(HOLD, store.address) as other:
        assert other.stdout and other.stdout.readline() == "{'t'} True\n"
        assert store.driven_elsewhere(["s", "t"]) == {"s"} and store.cut_off(["s"], {"s"}) == set()
        assert store.claim(["s", "t", "u"]) == {"s", "u"}  # a trial is not a sweep
        assert lock(store, "t") and not lock(store, "s")
        other.kill()
    assert lock(store, "s") and store.claim(["t", "u"]) == {"t"}
    assert store.address.startswith("/") or all(str(other.pid) in note for note in notes)
    assert store.cut_off(["s", "t"], ()) == {"s"} and store.cut_off(["t"], ()) == set()
    store.unmark_driven("s")
    assert store.cut_off(["s", "t"], ()) == set()
    assert not lock(store, "s") and store.claim(["t"]) == set()
    store.release(["t", "u", "never held"])
    store.unlock_sweep("s")
    assert lock(store, "s") and store.claim(["t"]) == {"t"}
