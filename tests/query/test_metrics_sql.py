"""The view `metrics` over real files: large files are scanned and small ones are read. The rows are
those of a slow twin that reads each file and compares all rows. A scan asks for parts of a file,
and reaches no other file. Covers `query/metrics.py`."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from fake_store import FakeStore, planned
from hypothesis import given, settings
from hypothesis import strategies as st
from object_store import Proxy

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.query.database import Views, connect
from sweepd.query.metrics import newest_steps
from sweepd.store import tables
from sweepd.store.bucket import ObjectFolder
from sweepd.store.local import LocalFolder
from sweepd.store.schema import METRICS, PLAN, TRIALS
from sweepd.store.store import Store, SweepInfo

A, B, C = "aa" * 10, "bb" * 10, "cc" * 10


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """All files count as large, whatever their size."""
    monkeypatch.setattr(tables, "SMALL_BYTES", -1)


def steps(id: str, *numbers: int, attempt: int = 1000, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": id, "attempt": attempt, "step": n, "loss": n / 8 + attempt, "seconds": 1.0, **more}
        for n in numbers
    ]


def views(store: Store) -> Views:
    found = connect(store, code="all", needed={"metrics"})
    found.prepare("metrics")
    return found


def slow_twin(root: Path) -> tuple[set[str], list[tuple[Any, ...]]]:
    """The names of damaged files, and id, step, attempt and loss of each row that counts."""
    damaged, parts, replaced = set[str](), {}, set[str]()
    for path in (root / "metrics").glob("*.parquet"):
        data = path.read_bytes()
        digest = hashlib.blake2b(data, digest_size=16).hexdigest()
        if not path.stem.endswith(digest):
            damaged.add(path.name)
            continue
        parts[path.name] = table = pq.read_table(path)
        told = (table.schema.metadata or {}).get(b"sweepd.replaces", b"[]")
        replaced.update(json.loads(told))
    counts: dict[tuple[str, int], tuple[Any, ...]] = {}
    for name in parts.keys() - replaced:
        for row in parts[name].to_pylist():
            key, newer = (row["id"], row["step"]), (row["attempt"], -row["seconds"])
            if key not in counts or counts[key][0] < newer:
                counts[key] = (newer, row["loss"])
    rows = [(id, step, newer[0], loss) for (id, step), (newer, loss) in counts.items()]
    return damaged - replaced, sorted(rows)


ACTIONS = st.one_of(
    st.tuples(
        st.just("write"),
        st.lists(
            st.fixed_dictionaries(
                {
                    "id": st.sampled_from([A, B, C]),
                    "attempt": st.sampled_from([1000, 2000]),
                    "step": st.integers(0, 9),
                    "seconds": st.sampled_from([1.0, 2.0]),
                },
                optional={"d": st.sampled_from([8, "wide"])},
            ),
            min_size=1,
            max_size=6,
            unique_by=lambda row: (row["id"], row["attempt"], row["step"]),
        ),
    ),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("damage"), st.integers(0, 100)),
)


@settings(max_examples=40)
@given(st.lists(ACTIONS, max_size=8), st.sampled_from([-1, 3000, 2**20]))
def test_the_view_is_that_of_the_slow_twin(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, Any]], small: int
) -> None:
    """All files are large, some are small, or all are small. Batches come in any order. Keys and
    steps are repeated, and some files have axes, are compacted or are damaged."""
    root = tmp_path_factory.mktemp("store")
    with patch.object(os, "fsync"):
        store = Store.create(str(root))
        for action, argument in actions:
            files = sorted((root / "metrics").glob("*.parquet"))
            if action == "write":
                # Two rows of one key and one time are one row, written twice.
                rows = [
                    {**row, "loss": row["step"] + row["attempt"] + row["seconds"]}
                    for row in argument
                ]
                store.write_metrics(rows)
            elif action == "compact":
                store.compact()
            elif files:
                victim = files[argument % len(files)]
                victim.write_bytes(victim.read_bytes()[:-1])
    damaged, expected = slow_twin(root)
    with patch.object(tables, "SMALL_BYTES", small):
        found = connect(store, code="all")
        answer = found.sql("SELECT id, step, attempt, loss FROM metrics ORDER BY ALL")
        assert {Path(one.path).name for one in answer.damaged} == damaged
        assert [tuple(row.values()) for row in answer.rows] == expected
        columns = [row["column_name"] for row in found.sql("DESCRIBE metrics").rows]
        assert [name for name in columns if name != "d"] == list(METRICS.fixed)
        each = [f"(SELECT count(*) FROM metrics WHERE id = '{id}')" for id in (A, B, C)]
        [counts] = found.sql(f"SELECT {', '.join(each)}").rows
        assert [*counts.values()] == [sum(row[0] == id for row in expected) for id in (A, B, C)]


def scanned(views: Views) -> int:
    """How many files the view leaves where they are."""
    sql = "SELECT sql FROM duckdb_views() WHERE schema_name = 'raw' AND view_name = 'by_file'"
    [(text,)] = views.connection.execute(sql).fetchall()
    return str(text).count("sweepd://")


def is_compared(views: Views) -> bool:
    sql = "SELECT sql FROM duckdb_views() WHERE view_name = 'metrics' AND schema_name = 'main'"
    [(text,)] = views.connection.execute(sql).fetchall()
    return "row_number" in str(text)


def test_rows_are_compared_only_where_steps_may_repeat(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    store.write_metrics(steps(A, 1, 2, 3))
    store.write_metrics(steps(A, 4, 5) + steps(B, 1))
    assert (scanned(views(store)), is_compared(views(store))) == (2, False)
    store.write_metrics(steps(B, 1, 2, attempt=2000))
    assert is_compared(views(store))
    rows = views(store).sql(
        "SELECT id, step, attempt FROM metrics WHERE id = 'bb' || repeat('b', 18)"
    )
    assert sorted((row["step"], row["attempt"]) for row in rows.rows) == [(1, 2000), (2, 2000)]


def test_only_files_of_ours_are_scanned(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    store.write_metrics(steps(A, 1))
    store.write_metrics(steps(B, 1, d=8))
    pq.write_table(METRICS.table(steps(C, 1)), tmp_path / "metrics" / "mine.parquet")
    found = views(store)
    assert scanned(found) == 2
    rows = found.sql("SELECT id, d FROM metrics ORDER BY id").rows
    assert [tuple(row.values()) for row in rows] == [(A, None), (B, 8), (C, None)]


def test_sweeps_see_their_own_metrics(tmp_path: Path) -> None:
    store, fake = Store.create(str(tmp_path)), FakeStore()
    mine, other = planned(d=16), planned(d=32)
    store.save_sweep("mine", "", SweepInfo(goal="acc > 0.9"), [mine])
    store.save_sweep("other", "", SweepInfo(goal="acc > 0.9"), [other])
    fake.end(mine, "completed", 0.9)
    store.write_trials(fake.endings)
    store.write_metrics(steps(mine["id"], 1, 2) + steps(other["id"], 1))
    found = connect(store, code="all", sweeps=["mine"]).sql("SELECT DISTINCT id FROM metrics")
    assert found.rows == [{"id": mine["id"]}]


HOSTILE = """
FROM read_parquet('{root}/metrics/*.parquet')
FROM read_blob('{root}/sweepd-store.json')
FROM read_blob('sweepd://metrics/../../sweepd-store.json')
FROM read_blob('sweepd://metrics/{root}/sweepd-store.json')
FROM read_blob('sweepd://metrics/1')
FROM read_blob('sweepd://other/0')
FROM read_blob('sweepd:///metrics/0')
COPY metrics TO 'sweepd://metrics/0'
COPY metrics TO 'sweepd://metrics/new'
SET allowed_directories = ['/']
SET enable_external_access = true
"""


@pytest.mark.parametrize("text", HOSTILE.strip().splitlines())
def test_a_scan_opens_no_door(tmp_path: Path, text: str) -> None:
    store = Store.create(str(tmp_path))
    store.write_metrics(steps(A, 1))
    found = views(store)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    try:
        assert found.sql(text.format(root=tmp_path)).rows == []
    except UserError as error:
        assert "format" not in str(error)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert found.sql("FROM glob('sweepd://metrics/*')").rows == []


def test_a_file_that_cannot_be_read_any_more_ends_the_question(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    store.write_metrics(steps(A, *range(100)))
    found = views(store)
    [file] = (tmp_path / "metrics").iterdir()
    data = file.read_bytes()
    file.unlink()
    with pytest.raises(EnvironmentFailure, match="ask again"):
        found.fetch("SELECT avg(loss) FROM metrics")
    file.write_bytes(data)
    assert found.fetch("SELECT count(loss) FROM metrics") == [(100,)]

    def refuse(*_: object) -> bytes:
        raise EnvironmentFailure("cannot read it: the disk is gone")

    with (
        patch.object(LocalFolder, "read_part", refuse),
        pytest.raises(EnvironmentFailure, match="the disk is gone"),
    ):
        found.fetch("SELECT avg(loss) FROM metrics")


def with_row_groups(address: str) -> Store:
    """A store with one file of 20 row groups, each of one trial."""
    store = Store.create(address)
    with patch("sweepd.store.tables.ROW_GROUP", 2000):
        store.write_metrics([row for i in range(20) for row in steps(f"{i:020x}", *range(2000))])
    return store


def test_threads_share_an_open_file(tmp_path: Path) -> None:
    """Each thread seeks and reads, and other threads do so in between."""
    found = views(with_row_groups(str(tmp_path)))
    for _ in range(5):
        [row] = found.sql("SELECT count(loss) AS n, sum(step) AS s FROM metrics").rows
        assert row == {"n": 40_000, "s": 20 * 1999 * 1000}


def test_an_object_store_is_asked_for_parts(s3: Proxy, bucket: str) -> None:
    store = with_row_groups(f"s3://{bucket}/results")
    found = views(store)
    assert scanned(found) == 1
    parts: list[int] = []
    read_part = ObjectFolder.read_part

    def counted(folder: ObjectFolder, name: str, start: int, length: int) -> bytes:
        parts.append(length)
        return read_part(folder, name, start, length)

    [file] = store.folder.files("metrics")
    with patch.object(ObjectFolder, "read_part", counted):
        one = f"SELECT count(*) AS n, sum(loss) AS s FROM metrics WHERE id = '{7:020x}'"
        answer = found.sql(one)
        assert answer.rows == [{"n": 2000, "s": sum(n / 8 + 1000 for n in range(2000))}]
        # The keys of all rows, and of one row group in twenty the rest: two columns of two hold
        # more than nothing but numbers that repeat.
        assert 0 < sum(parts) < 0.75 * file.size
        assert s3.count("GET", "/results/metrics/") > 0


def test_the_newest_step_of_what_runs(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    store.write_metrics(steps(A, 1, 2, acc=0.5) + steps(B, 1, 2))
    store.write_metrics(steps(B, 2, attempt=2000) + steps(C, 7))
    plan = PLAN.table([{"sweep": "s", "id": id} for id in (A, B)])
    ended = TRIALS.table([{"id": id, "attempt": 1000} for id in (A, B)])
    assert newest_steps(store, plan, ended) == {
        B: {"attempt": 2000, "step": 2, "acc": None, "seconds": 1.0}
    }
    found = newest_steps(store, plan, ended.slice(0, 0))
    assert {id: (row["attempt"], row["step"], row["acc"]) for id, row in found.items()} == {
        A: (1000, 2, 0.5),
        B: (2000, 2, None),
    }
