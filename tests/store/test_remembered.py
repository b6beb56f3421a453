"""What was found out about a large file is remembered as long as the file is the same, and no
longer. Besides, a compacted file does not grow beyond a limit. Covers `store/looking.py`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest

from sweepd import cache
from sweepd.store import looking, tables
from sweepd.store.local import LocalFolder
from sweepd.store.schema import METRICS
from sweepd.store.tables import Live, TableFolder

A, B = "aa" * 10, "bb" * 10


@pytest.fixture(autouse=True)
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All files count as large."""
    monkeypatch.setattr(looking, "SMALL_BYTES", -1)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def metrics(tmp_path: Path) -> TableFolder:
    folder = TableFolder(LocalFolder(tmp_path / "store"), METRICS)
    (tmp_path / "store").mkdir()
    folder.write([{"id": A, "attempt": 1000, "step": step} for step in range(100)])
    folder.write([{"id": B, "attempt": 1000, "step": step} for step in range(100)])
    return folder


@pytest.fixture
def files(metrics: TableFolder, tmp_path: Path) -> list[Path]:
    """Their files, an hour old."""
    found = sorted((tmp_path / "store" / "metrics").iterdir())
    for file in found:
        os.utime(file, ns=(time.time_ns() - 3600 * 10**9,) * 2)
    return found


def looked(metrics: TableFolder) -> tuple[Live, int]:
    """A fresh look at the files, and how many parts of them were read."""
    with patch.object(
        LocalFolder, "read_part", autospec=True, side_effect=LocalFolder.read_part
    ) as read:
        live = TableFolder(metrics.folder, METRICS).live()
    return live, read.call_count


def ids(live: Live) -> set[str]:
    assert live.table.num_rows == 0
    return set(live.runs()["id"].to_pylist())


def test_a_file_is_read_once(metrics: TableFolder, files: list[Path]) -> None:
    first, reads = looked(metrics)
    assert reads and ids(first) == {A, B}
    again, reads = looked(metrics)
    assert reads == 0
    assert again.runs().equals(first.runs()) and again.scanned.keys() == first.scanned.keys()


@pytest.mark.parametrize("same", ["size", "time"])
def test_a_file_that_changed_is_read_again(
    metrics: TableFolder, files: list[Path], same: str
) -> None:
    looked(metrics)
    before, data = files[0].stat(), bytearray(files[0].read_bytes())
    data[50] ^= 1
    files[0].write_bytes(data if same == "size" else data[:-1])
    if same == "time":
        os.utime(files[0], ns=(before.st_mtime_ns,) * 2)
    for _ in range(2):
        live, reads = looked(metrics)
        assert reads and ids(live) == {B}
        [damaged] = live.damaged
        assert damaged.path == str(files[0]) and "digest" in damaged.reason


def test_only_a_deep_look_sees_what_keeps_size_and_time(
    metrics: TableFolder, files: list[Path]
) -> None:
    looked(metrics)
    before, data = files[0].stat(), bytearray(files[0].read_bytes())
    data[50] ^= 1
    files[0].write_bytes(data)
    os.utime(files[0], ns=(before.st_mtime_ns,) * 2)
    assert looked(metrics)[0].damaged == ()
    [damaged] = metrics.damaged()
    assert damaged.path == str(files[0])


def test_one_trial_is_read_from_its_row_groups_alone(metrics: TableFolder, tmp_path: Path) -> None:
    with patch("sweepd.store.parquet.ROW_GROUP", 2000):
        ids = [f"{i:020x}" for i in range(20)]
        rows = [{"id": id, "attempt": 1000, "step": at} for id in ids for at in range(2000)]
        metrics.write(rows)
    [file] = (tmp_path / "store" / "metrics").glob("rows-*")
    os.utime(file, ns=(time.time_ns() - 3600 * 10**9,) * 2)
    metrics.live()
    parts: list[int] = []
    read_part = LocalFolder.read_part

    def counted(folder: LocalFolder, name: str, start: int, length: int) -> bytes:
        parts.append(length)
        return read_part(folder, name, start, length)

    with patch.object(LocalFolder, "read_part", counted):
        found = metrics.read([ids[7]]).table
    assert set(found["id"].to_pylist()) == {ids[7]} and found.num_rows == 2000
    assert sum(parts) < file.stat().st_size / 2


def test_a_file_just_written_is_not_remembered(metrics: TableFolder) -> None:
    """It may change again within a tick of the clock."""
    assert all(looked(metrics)[1] for _ in range(2))


def test_what_is_kept_of_files_that_are_gone_is_dropped(
    metrics: TableFolder, files: list[Path]
) -> None:
    def kept() -> Iterator[Path]:
        return (path for path in cache._root().rglob("*") if path.is_file())

    looked(metrics)
    before = len(list(kept()))
    files[0].unlink()
    looked(metrics)
    assert len(list(kept())) < before


def test_what_cannot_be_read_back_is_found_out_again(
    metrics: TableFolder, files: list[Path]
) -> None:
    first, _ = looked(metrics)
    for path in cache._root().rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1])
    again, reads = looked(metrics)
    assert reads and again.runs().equals(first.runs())


def test_full_compacted_files_are_left_as_they_are(
    metrics: TableFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 250)
    monkeypatch.setattr(tables, "TOGETHER", 1)
    folder = metrics.folder
    assert isinstance(folder, LocalFolder)

    def compacted() -> dict[str, int]:
        found = (folder.root / "metrics").glob("compacted-*")
        return {path.name: pq.read_metadata(path).num_rows for path in found}

    for start in range(100, 900, 100):
        metrics.write([{"id": A, "attempt": 1000, "step": start + i} for i in range(100)])
    assert metrics.compact() == 10
    assert sorted(compacted().values()) == [100, 300, 300, 300]
    before = {name for name, rows in compacted().items() if rows == 300}
    for start in range(900, 1100, 100):
        metrics.write([{"id": A, "attempt": 1000, "step": start + i} for i in range(100)])
    metrics.compact()
    assert before < compacted().keys()
    rows = metrics.read().table
    assert sorted(zip(rows["id"].to_pylist(), rows["step"].to_pylist(), strict=True)) == [
        *((A, step) for step in range(1100)),
        *((B, step) for step in range(100)),
    ]
