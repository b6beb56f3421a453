"""Merging two stores. No row is lost or doubled, and the answers stay the same. A merge that was
cut off goes on where it was. Also tested: what is moved as it is, what is refused, what is damaged,
and a merge between a laptop's disk and an object store. Covers `store/merging.py`."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fake_store import planned
from hypothesis import given, settings
from hypothesis import strategies as st
from questions import SIZE_FIELDS

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.query.answers import ask
from sweepd.statuses import RAN
from sweepd.store import garbage, merging, tables
from sweepd.store.endings import counting
from sweepd.store.storage import Damaged, digest, to_json
from sweepd.store.store import Store, SweepInfo

TRIALS = [planned(d=8 << (i // 2), seed=i % 2, check_every=1) for i in range(6)]
SWEEPS = {"first": TRIALS[:4], "second": TRIALS[2:], "third": TRIALS[:1]}
INFO = SweepInfo(goal="acc > 0.9", size_fields=SIZE_FIELDS, task_fields={"lis": ("n",)})


class Attempt(NamedTuple):
    trial: int
    status: str | None
    """None: its driver was killed."""


LAUNCHES = st.lists(
    st.tuples(
        st.sampled_from(sorted(SWEEPS)),
        st.lists(
            st.builds(
                Attempt,
                st.integers(0, 5),
                st.sampled_from([*RAN, "stopped", "failed", "interrupted", None]),
            ),
            max_size=3,
            unique_by=lambda attempt: attempt.trial,
        ),
    ),
    max_size=3,
)


def launched(store: Store, where: str, launches: Any) -> Store:
    """A store after some launches. The host tells attempts apart; what a trial comes to when it
    runs to its end does not depend on where it runs."""
    for sweep, attempts in launches:
        if sweep not in store.sweeps():
            store.save_sweep(sweep, f"name: {sweep}", INFO, SWEEPS[sweep])
        launch = store.new_launch({"sweep": sweep, "host": where})
        for i, status in attempts:
            host = f"{where} {launch}"
            who = {"id": TRIALS[i]["id"], "attempt": 1000 * launch + 1}
            seconds = float(len(where) * 100 + launch)
            store.write_metrics([{**who, "step": s, "seconds": seconds} for s in (1, 2)])
            if status:
                acc = 0.85 + 0.03 * i if status in RAN else None
                end = {"status": "solved" if status in RAN else status, "acc": acc, "host": host}
                store.write_trials([{**TRIALS[i], **who, **end, "sweep": sweep, "total": 100}])
    return store


def merged(ours: Store, theirs: Store, **renamed: str) -> tuple[Counter[str], list[Damaged]]:
    damaged: list[Damaged] = []
    brought: Counter[str] = Counter()
    for step in merging.merge(ours, theirs, renamed, damaged):
        brought[step.kind] += step.count
    return brought, damaged


def rows(store: Store) -> tuple[Counter[Any], Counter[Any]]:
    """Endings and rows of metrics, without the numbers of their attempts; as they lie, so that what
    is there twice counts twice."""
    names = [f"trials/{file.name}" for file in store.folder.files("trials")]
    ended = [pq.read_table(pa.BufferReader(store.folder.read(name))) for name in names]
    lying = store.live_metrics().table.to_pylist()
    return (
        Counter((r["id"], r["host"], r["status"]) for t in ended for r in t.to_pylist()),
        Counter((r["id"], r["step"], r["seconds"]) for r in lying),
    )


def counts(store: Store) -> dict[str, Mapping[str, Any]]:
    """The ending that counts, by trial."""
    return {row["id"]: row for row in counting(store.read_trials().table).to_pylist()}


def told(store: Store, sweep: str) -> Any:
    answer = ask(store, "min d where acc>0.9", code="all", sweeps=[sweep])
    return answer.rows


@settings(max_examples=6)
@given(LAUNCHES, LAUNCHES, LAUNCHES, st.sampled_from(sorted(SWEEPS)), st.integers(0, 12))
def test_nothing_is_lost_or_doubled_and_answers_stay(
    common: Any, here: Any, there: Any, asked: str, cut: int
) -> None:
    """The cluster's store began as a copy of the laptop's, or of an empty one."""
    with TemporaryDirectory() as folder:
        ours = launched(Store.create(f"{folder}/a"), "common", common)
        shutil.copytree(f"{folder}/a", f"{folder}/b")
        theirs = launched(Store.create(f"{folder}/b"), "cluster", there)
        launched(ours, "laptop", here)
        before = {store.address: (rows(store), counts(store)) for store in (ours, theirs)}
        answers = {s.address: told(s, asked) for s in (ours, theirs) if asked in s.sweeps()}
        created = {name: theirs.load_sweep(name).created for name in theirs.sweeps()}
        created |= {name: ours.load_sweep(name).created for name in ours.sweeps()}

        for _ in islice(merging.merge(ours, theirs, {}, []), cut):
            pass  # and is killed
        merged(ours, theirs)

        (mine, my_counts), (other, other_counts) = before[ours.address], before[theirs.address]
        assert rows(ours) == (mine[0] | other[0], mine[1] | other[1])
        after = counts(ours)
        for id_ in {*my_counts, *other_counts}:
            candidates = [c[id_] for c in (my_counts, other_counts) if id_ in c]
            ran = [c for c in candidates if c["status"] in RAN]
            expected = {c["host"] for c in ran or candidates}
            assert after[id_]["host"] in expected
        for address, answer in answers.items():
            own = before[address][1]
            if all(same(own.get(one["id"]), after.get(one["id"])) for one in SWEEPS[asked]):
                assert told(ours, asked) == answer
        assert {name: ours.load_sweep(name).created for name in ours.sweeps()} == created

        assert not merged(ours, theirs)[0]
        merged(theirs, ours)
        assert rows(theirs) == rows(ours)
        assert not merged(theirs, ours)[0] and not merged(ours, theirs)[0]


def same(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two endings say the same to a question."""
    return (one and (one["status"], one["acc"])) == (other and (other["status"], other["acc"]))


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Store, Store]:
    return Store.create(str(tmp_path / "ours")), Store.create(str(tmp_path / "theirs"))


ONE = [("first", [Attempt(0, "completed"), Attempt(1, "interrupted")])]


def metrics_files(store: Store) -> set[str]:
    return {file.name for file in store.folder.files("metrics")}


def test_files_are_copied_as_they_are(pair: tuple[Store, Store], tmp_path: Path) -> None:
    ours, theirs = pair
    launched(theirs, "cluster", ONE)
    merged(ours, theirs)
    assert metrics_files(ours) == metrics_files(theirs)

    laptop = launched(Store.create(str(tmp_path / "laptop")), "laptop", ONE)
    own, numbers = metrics_files(laptop), [launch["number"] for launch in laptop.launches()]
    merged(laptop, theirs)
    assert metrics_files(laptop) == own | metrics_files(theirs)
    numbers += [launch["number"] for launch in theirs.launches()]
    attempts = laptop.read_metrics().table["attempt"].to_pylist()
    assert Counter(attempts) == {1000 * number + 1: 4 for number in numbers}
    theirs.compact()
    laptop.compact()
    assert not merged(laptop, theirs)[0] and not merged(ours, theirs)[0]


def test_two_launches_of_one_number_are_refused(pair: tuple[Store, Store]) -> None:
    for store in pair:
        store.folder.put("launches/17.json", to_json({"sweep": "first", "host": store.address}))
    with pytest.raises(EnvironmentFailure, match=r"launch 17 of .*ours is another one"):
        merged(*pair)


def test_a_damaged_grid_or_launch_of_theirs_is_named_and_all_else_comes(
    pair: tuple[Store, Store],
) -> None:
    ours, theirs = launched(pair[0], "here", []), launched(pair[1], "there", [("first", [])])
    theirs = launched(theirs, "there", [("second", [Attempt(2, "completed")])])
    theirs.folder.put("sweeps/first/grid.yaml", b"name: other")
    theirs.folder.put(f"launches/{theirs.launch_numbers()[0]}.json", b'{"pid": "one"}')
    brought, damaged = merged(ours, theirs)
    assert ours.sweeps() == ["second"] and brought["launches"] == brought["endings"] == 1
    assert damaged[0].path.endswith("sweeps/first/grid.yaml")
    assert len(damaged) == 2


def test_a_replaced_file_that_has_no_digest_in_its_name_hides_none_of_ours(
    pair: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "SMALL_BYTES", 0)
    ours, theirs = pair
    for store, trial in ((ours, "a"), (theirs, "b")):
        store.write_metrics([{"id": trial, "attempt": 0, "step": 1}])
        [name] = metrics_files(store)
        store.folder.put("metrics/mine.parquet", store.folder.read(f"metrics/{name}"))
        store.folder.delete([f"metrics/{name}"])
    theirs.write_metrics([{"id": "c", "attempt": 0, "step": 1}])
    theirs.compact()
    merged(ours, theirs)
    assert sorted(ours.read_metrics().table["id"].to_pylist()) == ["a", "b", "c"]


def test_rows_that_a_damaged_large_file_of_ours_held_are_brought(
    pair: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end, which lists the files that it replaced, can still be read."""
    monkeypatch.setattr(tables, "SMALL_BYTES", -1)
    ours, theirs = pair
    for store in (ours, theirs):
        for trial in ("a" * 9, "b" * 9):
            store.write_metrics([{"id": trial, "attempt": 0, "step": 1, "loss": 0.5}])
    originals = metrics_files(theirs)
    ours.compact()
    garbage.delete(ours, garbage.find(ours, 0), 0)
    [large] = metrics_files(ours)
    data = bytearray(ours.folder.read(f"metrics/{large}"))
    data[9] ^= 1
    ours.folder.put(f"metrics/{large}", bytes(data))
    with pytest.raises(EnvironmentFailure, match="doctor --deep"):
        ours.read_metrics(["a" * 9, "b" * 9])
    _, damaged = merged(ours, theirs)
    assert [one.path for one in damaged] == [ours.folder.where(f"metrics/{large}")]
    assert set(originals) < set(metrics_files(ours))
    ours.folder.delete([f"metrics/{large}"])
    assert sorted(ours.read_metrics().table["id"].to_pylist()) == ["a" * 9, "b" * 9]


KEPT, OWN = "000000400-{}.keep.pt", "000000500-{}.pt"


def filled(store: Store) -> Store:
    """With everything that a store can hold."""
    launched(store, "cluster", ONE)
    for i in (0, 1):
        store.put_checkpoint("t", KEPT.format(TRIALS[i]["config"]), b"kept")
    store.put_checkpoint("t", OWN.format(TRIALS[5]["config"]), b"running")
    store.keep_source(b"class Mine: pass\n")
    store.note_inspected("c" * 64, {})
    store.append_log(TRIALS[0]["id"], "began\nended\n")
    store.flush_logs()
    return store


def test_what_is_damaged_is_named_and_skipped(pair: tuple[Store, Store]) -> None:
    ours, theirs = pair
    folder = filled(theirs).folder
    theirs.save_sweep("second", "name: second", INFO, SWEEPS["second"])
    broken = [
        next(f"{below}/{file.name}" for file in folder.files(below) if "/" not in file.name)
        for below in ("metrics", "trials", "code")
    ]
    broken += [f"checkpoints/t/{KEPT.format(TRIALS[0]['config'])}", "sweeps/second/plan.parquet"]
    for name in broken:
        folder.put(name, folder.read(name)[:-9] + b"unheard of")
    brought, damaged = merged(ours, theirs)
    assert {one.path for one in damaged} == {folder.where(name) for name in broken}
    assert brought == Counter(
        {"launches": 1, "rows of metrics": 2, "endings": 1, "checkpoints": 2, "sweeps": 1}
        | {"inspections": 1, "logs": 1}
    )


def test_two_sweeps_of_one_name(pair: tuple[Store, Store]) -> None:
    ours, theirs = pair
    launched(ours, "laptop", ONE)
    theirs.save_sweep("first", "name: first", INFO, SWEEPS["first"])
    assert "sweeps" not in merged(ours, theirs)[0]  # the same grid, launched twice
    theirs.save_sweep("first", "name: first", INFO, SWEEPS["second"])
    with pytest.raises(UserError, match=r"first: both stores .* trials.*--rename first=NEW"):
        merged(ours, theirs)
    assert merged(ours, theirs, first="second")[0] == {"sweeps": 1}
    assert ours.sweeps() == ["first", "second"]
    assert told(ours, "second") == told(theirs, "first")
    assert not merged(ours, theirs, first="second")[0]
    with pytest.raises(UserError, match="no sweep 'frist'"):
        merged(ours, theirs, frist="second")


def test_a_sweep_that_went_on_elsewhere_is_taken_over(tmp_path: Path) -> None:
    ours = launched(Store.create(str(tmp_path / "ours")), "laptop", [("third", [])])
    shutil.copytree(ours.address, tmp_path / "theirs")
    theirs = Store.create(str(tmp_path / "theirs"))
    theirs.save_sweep("third", "name: third", INFO, SWEEPS["first"])
    assert merged(ours, theirs)[0] == {"sweeps": 1}
    assert ours.read_plans(["third"]).table.num_rows == 4
    ours.save_sweep("third", "name: third", INFO, TRIALS)
    assert not merged(ours, theirs)[0]
    assert ours.read_plans(["third"]).table.num_rows == 6


def test_what_either_store_accepted_of_earlier_codes_stays_accepted(tmp_path: Path) -> None:
    """Also where theirs is the version to keep, since it plans more trials."""
    ours, theirs = Store.create(str(tmp_path / "ours")), str(tmp_path / "theirs")
    trials = [planned(seed=seed) for seed in range(2)]
    info = SweepInfo(goal="acc > 0.9", accepted_for={"a": ("old",)})
    ours.save_sweep("s", "name: s", info, trials[:1])
    shutil.copytree(ours.address, theirs)
    ours.save_sweep("s", "name: s", replace(info, accepted_for={"a": ("new", "old")}), trials[:1])
    more = replace(info, accepted_for={"a": ("old",), "c": ("new",)})
    Store.open(theirs).save_sweep("s", "name: s", more, trials)
    merged(ours, Store.open(theirs))
    found = ours.load_sweep("s")
    assert len(ours.read_plans(["s"]).table) == 2
    assert found.accepted_for == {"a": ("new", "old"), "c": ("new",)}


def test_a_store_that_a_driver_writes_is_refused(pair: tuple[Store, Store]) -> None:
    ours, theirs = pair
    launched(ours, "laptop", ONE)
    launched(theirs, "cluster", ONE)
    driver = Store.open(ours.address)
    assert driver.lock_sweep("first", print, print)
    assert not theirs.driven_elsewhere(["first"])
    with pytest.raises(EnvironmentFailure, match="a driver runs first"):
        merged(ours, theirs)
    driver.unlock_sweep("first")
    assert theirs.lock_sweep("first", print, print)  # the other is only read
    assert merged(ours, theirs)[0]["endings"] == 2
    assert driver.lock_sweep("first", print, print)


def test_logs_come_once_and_go_on(pair: tuple[Store, Store]) -> None:
    ours, theirs = pair
    theirs.append_log("t", "one\ntwo\n")
    merged(ours, theirs)
    theirs.append_log("t", "three\n")
    theirs.folder.put("logs/t/000001.log", b"four\n")
    merged(ours, theirs)
    assert sorted(ours.read_log("t").split()) == ["four", "one", "three", "two"]
    ours.append_log("t", "mine\n")
    merged(theirs, ours)
    assert sorted(theirs.read_log("t").split()) == ["four", "mine", "one", "three", "two"]
    assert not merged(ours, theirs)[0] and not merged(theirs, ours)[0]


def test_logs_that_begin_alike_both_come(pair: tuple[Store, Store], tmp_path: Path) -> None:
    """Two machines ran the same trial, and the class prints the same line first. What each wrote
    later replaces nothing of the other, and comes without what had come before."""
    ours, theirs = pair
    others = Store.create(str(tmp_path / "others"))
    for store, name in ((theirs, "theirs"), (others, "others")):
        store.append_log("t", f"loading\n{name}\n")
        merged(ours, store)
    theirs.append_log("t", "later\n")
    for store in (theirs, others, theirs):
        merged(ours, store)
    theirs.append_log("t", "last\n")
    merged(ours, theirs)
    lines = ours.read_log("t").splitlines()
    assert sorted(lines) == ["last", "later", "loading", "loading", "others", "theirs"]


@pytest.mark.parametrize("place", ["s3"], indirect=True)
def test_a_laptop_and_an_object_store(place: str, tmp_path: Path) -> None:
    cluster, laptop = filled(Store.create(place)), Store.create(str(tmp_path / "laptop"))
    expected = everything(cluster)
    merged(laptop, cluster)
    assert everything(laptop) == expected
    launched(laptop, "laptop", [("second", [Attempt(4, "completed")])])
    merged(cluster, laptop)
    assert not merged(laptop, cluster)[0]
    assert everything(cluster) == everything(laptop)
    assert told(cluster, "second") == told(laptop, "second")


def everything(store: Store) -> Any:
    """All that counts, wherever it lies."""
    folder = store.folder
    same = [
        (file.name, digest(folder.read(file.name)))
        for file in folder.files()
        if file.name.startswith(("checkpoints/", "code/", "checked/", "launches/", "sweeps/"))
    ]
    return rows(store), counts(store), same, store.read_log(TRIALS[0]["id"])


PROGRAM = json.dumps({"program": "python train.py {d}", "task": "lis", "metrics": {"acc": "up"}})


def of_program(store: Store, sweep: str, base: str, code: str, text: str, where: str) -> None:
    own = {"loop": {"standard": {"where": where, "defaults": {}}}}
    rows = [planned(d=8, code=code)]
    files = {code: {"train.py": text}}
    info = replace(INFO, base=base, own_classes=own, code_files=files)
    store.save_sweep(sweep, f"name: {sweep}", info, rows)
    store.write_trials([{**rows[0], "attempt": 1000, "sweep": sweep, "status": "completed"}])


@pytest.mark.parametrize(
    ("theirs", "fits"),
    [
        ({"base": "/bob", "code": "b", "text": "2"}, False),  # another program of that name
        ({"base": "/bob", "code": "a", "text": "1"}, True),  # the same one, copied
        ({"base": "/ann", "code": "b", "text": "2"}, True),  # the same file, edited since
        ({"base": "/bob", "code": "b", "text": "1", "where": "train.py:Mine"}, True),  # as a class
        ({"base": "/bob", "code": "b", "text": "1", "where": "train.py:Other"}, False),
    ],
)
def test_two_programs_or_classes_of_one_name_are_refused_as_at_a_launch(
    pair: tuple[Store, Store], theirs: dict[str, str], fits: bool
) -> None:
    is_class = "where" in theirs
    where = "train.py:Mine" if is_class else PROGRAM
    of_program(pair[0], "ann", "/ann", "a", "1", where)
    of_program(pair[1], "bob", **({"where": PROGRAM} | theirs))
    if fits:
        merged(*pair)
        assert pair[0].sweeps() == ["ann", "bob"]
        return
    for renamed in ({}, {"bob": "carl"}):
        with pytest.raises(UserError, match=r"standard is another .*/bob.* than that of sweep ann"):
            merged(pair[0], pair[1], **renamed)
    assert pair[0].sweeps() == ["ann"]


def test_fields_that_differ_in_their_capitals_are_refused(pair: tuple[Store, Store]) -> None:
    for store, axis in zip(pair, ("width", "Width"), strict=True):
        store.save_sweep(axis, f"name: {axis}", INFO, [{**planned(), axis: 1}])
    with pytest.raises(UserError, match=r"field or metric Width, and .* has width"):
        merged(*pair)
