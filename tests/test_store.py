"""The results folder: making and opening it, sweeps, launches, checkpoints, logs and locks.

Tables have their own tests (`test_tables.py`), as have locks and the primitives below.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store import Store

TRIAL = "ab" * 32


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.create(str(tmp_path / "results"))


def python(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True
    )


# Making and opening


def test_create_makes_what_is_missing_and_opens_what_is_there(tmp_path):
    address = str(tmp_path / "a" / "b")
    store = Store.create(address)
    assert store.address == address
    assert json.loads((tmp_path / "a/b/sweepd-store.json").read_text()) == {"format": 1}
    store.write_trials([{"id": TRIAL, "attempt": 1000}])
    for again in (Store.create(address), Store.open(address), Store.open(f"file://{address}")):
        assert again.address == address
        assert again.read_trials().table.num_rows == 1


def test_an_empty_folder_becomes_a_store(tmp_path):
    assert Store.create(str(tmp_path)).read_trials().table.num_rows == 0


def test_a_relative_address_holds_when_the_process_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Store.create("results")
    monkeypatch.chdir("/")
    assert store.address == str(tmp_path / "results")
    store.write_metrics([{"id": TRIAL, "attempt": 1000, "step": 1}])
    assert store.read_metrics().table.num_rows == 1


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    for make in (Store.create, Store.open):
        with pytest.raises(UserError, match="not a sweepd results folder"):
            make(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    "mark, complaint",
    [('{"format": 2}', "upgrade"), ("", "damaged"), ("[]", "damaged"), ("{}", "damaged")],
)
def test_a_mark_that_is_newer_or_damaged_is_refused(tmp_path, mark, complaint):
    (tmp_path / "sweepd-store.json").write_text(mark)
    for make in (Store.create, Store.open):
        with pytest.raises(UserError, match=complaint):
            make(str(tmp_path))


def test_addresses_that_cannot_be_a_store(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match="is a file"):
        Store.create(str(file))
    with pytest.raises(EnvironmentFailure, match="file/below: Not a directory"):
        Store.create(str(file / "below"))
    for absent in (tmp_path / "nowhere", file, file / "below"):
        with pytest.raises(UserError, match="not a sweepd results folder"):
            Store.open(str(absent))
    with pytest.raises(UserError, match="s3://"):
        Store.create("s3://bucket/results")


def test_a_read_only_folder_is_read_but_not_created_in(store):
    store.write_trials([{"id": TRIAL, "attempt": 1000}])
    root = Path(store.address)
    root.chmod(0o555)
    try:
        if os.access(root, os.W_OK):
            pytest.skip("this user may write anywhere")
        assert Store.open(store.address).read_trials().table.num_rows == 1
        assert not store.claimed_elsewhere(TRIAL)
        with pytest.raises(EnvironmentFailure, match="Permission denied"):
            Store.create(store.address)
    finally:
        root.chmod(0o755)


def test_create_says_so_when_nothing_can_be_written(store, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(EnvironmentFailure, match=r"results/.*: Permission denied"):
        Store.create(store.address)
    Store.open(store.address)


CREATE = "import sys; from sweepd.store import Store; Store.create(sys.argv[1]).new_launch({})"


def test_processes_create_one_store_and_share_out_launch_numbers(tmp_path):
    processes = [python(CREATE, str(tmp_path / "results")) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4
    for process in processes:
        process.communicate()
    launches = Store.open(str(tmp_path / "results")).launches()
    assert [launch["number"] for launch in launches] == [1, 2, 3, 4]


def test_a_store_travels_to_another_process(store):
    store.write_trials([{"id": TRIAL, "attempt": 1000}])
    assert pickle.loads(pickle.dumps(store)).read_trials().table.num_rows == 1


def test_opening_and_reading_needs_neither_ray_nor_torch_nor_duckdb():
    code = "import sys, sweepd.store; print(sys.modules.keys() & {'ray', 'torch', 'duckdb'})"
    assert python(code).communicate()[0] == "set()\n"


# Tables, through the store


def test_compact_and_delete_replaced(store):
    for attempt in range(3):
        store.write_trials([{"id": TRIAL, "attempt": attempt, "n": 8}])
        store.write_metrics([{"id": TRIAL, "attempt": attempt, "step": 1, "loss": 0.5}])
    trials, metrics = store.read_trials().table, store.read_metrics().table
    assert store.compact("trials") == store.compact("metrics") == 3
    assert store.delete_replaced(older_than_seconds=0) == 6
    assert store.read_trials().table.sort_by("attempt") == trials.sort_by("attempt")
    assert store.read_metrics({TRIAL}).table.sort_by("attempt") == metrics.sort_by("attempt")


# Sweeps


def plan_row(id: str, **axes: object) -> dict[str, object]:
    return {"id": id, "task": "lis", "model": "standard", "size": 8, "seed": 0, **axes}


def test_a_sweep_is_saved_and_loaded(store):
    info = {"goal": "acc > 0.9", "tune": ["lr"], "who": "Zoë"}
    store.save_sweep("first", "name: first # é\n", info, [plan_row(TRIAL, n=8)])
    sweep = store.load_sweep("first")
    assert (sweep.name, sweep.grid_text) == ("first", "name: first # é\n")
    created = sweep.info.pop("created")
    assert datetime.fromisoformat(created).tzinfo
    assert sweep.info == {**info, "format": 1, "name": "first"}

    store.save_sweep("first", "name: first\n", {}, [])
    again = store.load_sweep("first")
    assert again.grid_text == "name: first\n"
    assert again.info == {"format": 1, "name": "first", "created": created}
    assert store.read_plans(["first"]).table.num_rows == 0


def test_sweeps_are_listed_as_they_were_created(store):
    assert store.sweeps() == []
    for name in ("z", "a", "m"):
        store.save_sweep(name, "", {}, [])
    store.save_sweep("z", "again", {}, [])
    assert store.sweeps() == ["z", "a", "m"]


def test_an_unknown_sweep_is_refused_with_those_that_exist(store):
    with pytest.raises(UserError, match=r"no sweep 'x'.*there are: none"):
        store.load_sweep("x")
    store.save_sweep("one", "", {}, [])
    store.save_sweep("two", "", {}, [])
    for ask in (store.load_sweep, lambda name: store.read_plans(["one", name])):
        with pytest.raises(UserError, match=r"no sweep 'x'.*there are: one, two"):
            ask("x")


@pytest.mark.parametrize("name", ["", ".x", "a/b", "../x", "x" * 101, "ä"])
def test_impossible_sweep_names_are_refused(store, name):
    with pytest.raises(UserError, match="a name has"):
        store.save_sweep(name, "", {}, [])
    with pytest.raises(UserError, match="a name has"):
        store.load_sweep(name)
    assert store._folder.names() == ["sweepd-store.json"]


def test_a_sweep_whose_saving_was_cut_off_does_not_exist(store, monkeypatch):
    put = store._folder.put

    def cut_off(name: str, data: bytes) -> None:
        if name.endswith("sweep.json"):
            raise EnvironmentFailure("disk full")
        put(name, data)

    monkeypatch.setattr(store._folder, "put", cut_off)
    with pytest.raises(EnvironmentFailure):
        store.save_sweep("x", "", {}, [plan_row(TRIAL)])
    assert store.sweeps() == []
    assert store.read_plans().table.num_rows == 0


def test_plans_are_read_together_by_sweep(store):
    store.save_sweep("one", "", {}, [plan_row("a" * 8, n=8), plan_row("b" * 8, n=12)])
    store.save_sweep("two", "", {}, [plan_row("a" * 8, n=8, value_range=0.5)])
    plans = store.read_plans().table
    rows = [tuple(row[k] for k in ("sweep", "id", "n", "value_range")) for row in plans.to_pylist()]
    one = [("one", "a" * 8, 8, None), ("one", "b" * 8, 12, None)]
    assert sorted(rows, key=str) == [*one, ("two", "a" * 8, 8, 0.5)]
    assert store.read_plans(["one"]).table.num_rows == 2
    assert store.read_plans([]).table.num_rows == 0


def test_damaged_sweeps_are_named_and_hide_no_other(store):
    for name in ("good", "bad", "worse"):
        store.save_sweep(name, "", {}, [plan_row(TRIAL)])
    sweeps = Path(store.address) / "sweeps"
    (sweeps / "bad" / "plan.parquet").write_bytes(b"PAR1")
    (sweeps / "worse" / "plan.parquet").unlink()
    (sweeps / "worse" / "sweep.json").write_text("{")
    assert store.sweeps() == ["worse", "good", "bad"]
    read = store.read_plans()
    assert read.table["sweep"].to_pylist() == ["good"]
    assert [damaged.path for damaged in read.damaged] == [
        str(sweeps / name / "plan.parquet") for name in ("worse", "bad")
    ]
    with pytest.raises(EnvironmentFailure, match=r"worse/sweep\.json is damaged"):
        store.load_sweep("worse")
    store.save_sweep("worse", "", {}, [])
    assert store.load_sweep("worse").info["name"] == "worse"


# Launches


def test_launches_are_numbered_in_order(store):
    assert store.launches() == []
    assert [store.new_launch({"sweep": name}) for name in ("a", "b")] == [1, 2]
    assert store.launches() == [{"sweep": "a", "number": 1}, {"sweep": "b", "number": 2}]


def test_a_damaged_launch_keeps_its_number(store):
    folder = Path(store.address) / "launches"
    store.new_launch({})
    (folder / "000001.json").write_text("{")
    (folder / "notes.txt").write_text("not a launch")
    (folder / "1000000.json").write_text("{}")
    assert store.new_launch({}) == 1000001
    first, *rest = store.launches()
    assert first["number"] == 1 and first["damaged"]
    assert [launch["number"] for launch in rest] == [1000000, 1000001]


# Checkpoints, logs, locks


def test_checkpoints_belong_to_a_trunk(store):
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


def test_logs(store):
    assert store.read_log(TRIAL) == ""
    store.append_log(TRIAL, "one\n")
    store.append_log(TRIAL, "two é\n")
    assert store.read_log(TRIAL) == "one\ntwo é\n"
    assert store.log_path(TRIAL).read_text("utf-8") == store.read_log(TRIAL)
    store.log_path(TRIAL).write_bytes(b"\xff")
    assert store.read_log(TRIAL) == "\ufffd"


HOLD = """
import sys
from sweepd.store import Store
store = Store.open(sys.argv[1])
print(store.claim("t"), store.lock_sweep("s"), flush=True)
import time; time.sleep(60)
"""


def test_claims_and_sweep_locks(store):
    assert not store.claimed_elsewhere("t") and not store.sweep_locked_elsewhere("s")
    with python(HOLD, store.address) as other:
        assert other.stdout and other.stdout.readline() == "True True\n"
        assert store.claimed_elsewhere("t") and store.sweep_locked_elsewhere("s")
        assert not store.claim("t") and not store.lock_sweep("s")
        assert store.claim("s") and store.lock_sweep("t")  # a trial is not a sweep
        other.kill()
    assert store.claim("t") and store.lock_sweep("s")
    assert not store.claim("t") and not Store.open(store.address).lock_sweep("s")
    store.release("t")
    store.unlock_sweep("s")
    assert store.claim("t") and store.lock_sweep("s")
