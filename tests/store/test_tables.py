"""Folders of Parquet files. A reader never sees a file that is half-written. Damaged files are
neither trusted nor touched. Compacting changes nothing for readers, wherever it is cut off."""

import math
import random
import signal
import tempfile
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import python

from sweepd.errors import EnvironmentFailure
from sweepd.store.local import LocalFolder
from sweepd.store.schema import METRICS, TRIALS
from sweepd.store.storage import File
from sweepd.store.tables import LATE_SECONDS, Content, Read, TableFolder, look, to_parquet

A, B, C = "aa" * 32, "bb" * 32, "cc" * 32

Rows = list[dict[str, Any]]


def folder_of(root: Path) -> TableFolder:
    return TableFolder(LocalFolder(root), METRICS)


def root_of(metrics: TableFolder) -> Path:
    assert isinstance(metrics.folder, LocalFolder)
    return metrics.folder.root


@pytest.fixture
def metrics(tmp_path: Path) -> TableFolder:
    return folder_of(tmp_path)


def steps(id: str, *numbers: int, **more: Any) -> Rows:
    return [{"id": id, "attempt": 1000, "step": step, "loss": step / 8, **more} for step in numbers]


def keys(read: Read) -> list[tuple[str, int]]:
    return sorted(zip(read.table["id"].to_pylist(), read.table["step"].to_pylist(), strict=True))


def contents(read: Read) -> pa.Table:
    """Order of rows and of axes aside."""
    table = read.table.select(sorted(read.table.column_names))
    return table.sort_by([("id", "ascending"), ("attempt", "ascending"), ("step", "ascending")])


def delete_replaced(metrics: TableFolder, written_until: float = math.inf) -> int:
    doomed = metrics.replaced(written_until)
    metrics.folder.delete([f"metrics/{file.name}" for file in doomed])
    return len(doomed)


def files(metrics: TableFolder) -> list[Path]:
    return sorted((root_of(metrics) / "metrics").iterdir())


# Writing and reading


def test_no_folder_reads_as_no_rows(metrics: TableFolder) -> None:
    assert metrics.read().table.equals(METRICS.table([]))
    metrics.write([])
    assert metrics.read().damaged == ()
    assert not (root_of(metrics) / "metrics").exists()


def test_trials_asked_for_are_read_from_their_files_alone_and_rows_once(
    metrics: TableFolder,
) -> None:
    for rows in (steps(A, 1), steps(A, 1), steps(B, 1), steps(A, 1, 2) + steps(C, 2)):
        metrics.write(rows)
    assert keys(metrics.read()) == [(A, 1), (A, 2), (B, 1), (C, 2)]
    for file in files(metrics):
        if B in file.name:
            file.write_bytes(b"never opened")
    read = metrics.read({A})
    assert keys(read) == [(A, 1), (A, 2)]
    assert read.damaged == ()
    assert keys(metrics.read(set())) == []
    metrics.compact()
    assert keys(metrics.read([C, A])) == [(A, 1), (A, 2), (C, 2)]


def test_ids_that_are_not_hashes_are_no_file_names(metrics: TableFolder) -> None:
    metrics.write(steps("../../escape", 1))
    assert [file.name.split("-")[1] for file in files(metrics)] == ["rows"]
    assert keys(metrics.read({"../../escape"})) == [("../../escape", 1)]


WRITER = """
import sys
from pathlib import Path
from sweepd.store.schema import METRICS
from sweepd.store.local import LocalFolder
from sweepd.store.tables import TableFolder
metrics = TableFolder(LocalFolder(Path(sys.argv[1])), METRICS)
for batch in range(10_000):
    metrics.write([{"id": sys.argv[2], "attempt": batch, "step": i} for i in range(50)])
    print(batch, flush=True)
"""


def test_writers_killed_at_any_moment_lose_nothing_and_leave_only_whole_files(
    metrics: TableFolder,
) -> None:
    rng = random.Random()  # the moments differ from run to run, the law does not
    ids = [f"{i:064x}" for i in range(4)]
    root = str(root_of(metrics))
    writers = [python(WRITER, root, id) for id in ids]
    for writer in writers:
        assert writer.stdout and writer.stdout.readline() == "0\n"
    done = {}
    for id, writer in zip(ids, writers, strict=True):
        time.sleep(rng.uniform(0, 0.05))
        metrics.compact()  # beside the writers, which never wait for it
        writer.send_signal(signal.SIGKILL)
        rest = writer.communicate()[0].splitlines()
        done[id] = int(rest[-1]) + 1 if rest else 1
    read = metrics.read()
    assert read.damaged == ()
    for id in ids:
        attempts = [row["attempt"] for row in read.table.to_pylist() if row["id"] == id]
        batches = set(attempts)
        assert len(attempts) == 50 * len(batches)
        # The last one may have appeared before the writer could say so.
        assert batches in (set(range(done[id])), set(range(done[id] + 1)))


# Damage


def one_damaged(read: Read, file: Path) -> str:
    ((damaged),) = read.damaged
    assert damaged.path == str(file)
    assert damaged.reason and "\n" not in damaged.reason
    return damaged.reason


@pytest.fixture
def two(metrics: TableFolder) -> tuple[TableFolder, Path]:
    """A folder with a good file, and the path of another, of trial B."""
    metrics.write(steps(A, 1, 2))
    metrics.write(steps(B, *range(100)))
    (victim,) = (file for file in files(metrics) if B in file.name)
    return metrics, victim


def test_any_flipped_bit_and_any_cut_is_noticed(two: tuple[TableFolder, Path]) -> None:
    metrics, victim = two
    good = victim.read_bytes()
    rng = random.Random(0)
    for _ in range(40):
        position = rng.randrange(len(good))
        flipped = bytearray(good)
        flipped[position] ^= 1 << rng.randrange(8)
        for bad in (bytes(flipped), good[:position]):
            victim.write_bytes(bad)
            read = metrics.read()
            assert "digest" in one_damaged(read, victim)
            assert keys(read) == [(A, 1), (A, 2)]
            assert victim.read_bytes() == bad
    victim.write_bytes(good)
    assert len(keys(metrics.read())) == 102


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.integers(0, 7))
def test_without_a_digest_in_the_name_page_checksums_guard_the_values(
    position: int, bit: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        table = METRICS.table([{"id": A, "attempt": 1, "step": i, "n": i % 7} for i in range(500)])
        data = to_parquet(table)
        chunk = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(2)  # step
        start, length = chunk.dictionary_page_offset, chunk.total_compressed_size
        header = 80  # a page's header is not under its checksum
        flipped = bytearray(data)
        flipped[start + header + position % (length - 2 * header)] ^= 1 << bit
        Path(name, "foreign.parquet").write_bytes(flipped)
        file = File("foreign.parquet", len(data), 0.0, None)
        folder = Path(name)
        read = look(LocalFolder(folder.parent), folder.name, file, METRICS, whole=True)
        assert not isinstance(read, Content) or table.equals(read.table)


def test_what_is_no_file_of_ours_is_named_and_a_folder_is_left_alone(metrics: TableFolder) -> None:
    metrics.write(steps(A, 1))
    for name in ("rows.parquet", f"rows-{'0' * 32}.parquet"):
        stranger = root_of(metrics) / "metrics" / name
        for data in (b"", b"PAR1", b"not parquet at all" * 100):
            stranger.write_bytes(data)
            one_damaged(metrics.read(), stranger)
            assert keys(metrics.read()) == [(A, 1)]
        pq.write_table(pa.table({"x": [1, 2]}), stranger)
        assert ("digest" if "-" in name else "no column acc") in one_damaged(
            metrics.read(), stranger
        )
        stranger.unlink()
    stranger.mkdir()
    (stranger / "part.parquet").write_bytes(b"another's")
    assert metrics.read().damaged == ()
    assert keys(metrics.read()) == [(A, 1)]


def test_rows_put_there_by_other_means_are_read(metrics: TableFolder) -> None:
    metrics.write(steps(A, 1))
    mine = root_of(metrics) / "metrics" / "mine.parquet"
    pq.write_table(METRICS.table(steps(B, 5)), mine)
    assert keys(metrics.read()) == [(A, 1), (B, 5)]
    assert metrics.compact() == 2
    assert delete_replaced(metrics) == 2
    assert keys(metrics.read()) == [(A, 1), (B, 5)]


def test_damaged_files_are_neither_compacted_nor_deleted(two: tuple[TableFolder, Path]) -> None:
    metrics, victim = two
    metrics.write(steps(C, 3))
    good = victim.read_bytes()
    victim.write_bytes(good[:-1])
    assert metrics.compact() == 2
    assert delete_replaced(metrics) == 2
    one_damaged(metrics.read(), victim)
    assert keys(metrics.read()) == [(A, 1), (A, 2), (C, 3)]
    victim.write_bytes(good)  # repaired by hand
    assert len(keys(metrics.read())) == 103
    metrics.write(steps(C, 4))
    assert metrics.compact() == 2
    victim.write_bytes(b"")
    assert metrics.read().damaged == ()  # its rows are elsewhere
    assert delete_replaced(metrics) == 1
    assert victim.exists()


def test_a_damaged_compacted_file_replaces_nothing(two: tuple[TableFolder, Path]) -> None:
    metrics, _ = two
    before = contents(metrics.read())
    metrics.compact()
    (compacted,) = (file for file in files(metrics) if file.name.startswith("compacted-"))
    compacted.write_bytes(compacted.read_bytes()[:-1])
    assert delete_replaced(metrics) == 0
    read = metrics.read()
    one_damaged(read, compacted)
    assert contents(read).equals(before)


# Compacting

KEY = {"id": st.sampled_from([A, B, C]), "step": st.integers(0, 9)}
AXES = {"n": [1, 2, 0.5, 3.0, "x", True, None, 2**53], "d": [8, 16, "wide"]}
ROW = st.fixed_dictionaries(KEY, optional={n: st.sampled_from(AXES[n]) for n in AXES})
ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.lists(ROW, min_size=1, max_size=3)),
    st.tuples(st.sampled_from(["compact", "delete"]), st.none()),
    st.tuples(st.just("delete some"), st.randoms()),
)


@settings(max_examples=60)
@given(st.lists(ACTIONS, max_size=12))
def test_compacting_changes_nothing_for_readers(actions: list[tuple[str, Any]]) -> None:
    """The folder is compared with a twin that is never compacted. "delete some" is a deletion that
    was cut off."""
    with tempfile.TemporaryDirectory() as name:
        metrics, twin = folder_of(Path(name, "a")), folder_of(Path(name, "b"))
        root_of(metrics).mkdir()
        root_of(twin).mkdir()
        attempt = 0
        for action, argument in actions:
            if action == "write":
                attempt += 1
                rows = [{**row, "attempt": attempt} for row in argument]
                rows = list({(row["id"], row["step"]): row for row in rows}.values())
                metrics.write(rows)
                twin.write(rows)
            elif action == "compact":
                metrics.compact()
            elif action == "delete":
                delete_replaced(metrics)
                assert delete_replaced(metrics) == 0
            else:
                replaced = [file.name for file in metrics.replaced(metrics.folder.now())]
                for file in argument.sample(replaced, len(replaced) // 2):
                    (root_of(metrics) / "metrics" / file).unlink()
            read = metrics.read()
            assert read.damaged == ()
            assert contents(read).equals(contents(twin.read()))


def test_compacting_leaves_one_file_and_waits_before_it_deletes(metrics: TableFolder) -> None:
    """What was compacted before does not count again, whoever compacted it."""
    for step in range(5):
        metrics.write(steps(A, step))
    assert metrics.compact() == 5
    assert metrics.compact() == 0
    assert delete_replaced(metrics, metrics.folder.now() - 3600) == 0
    assert len(files(metrics)) == 6
    metrics.write(steps(A, 5))
    other = folder_of(root_of(metrics))
    assert metrics.compact() == other.compact() == 0
    metrics.write(steps(A, 6))
    assert other.compact(at_least=3) == 0
    assert other.compact() == 2  # the five rows before stay where they are
    assert delete_replaced(metrics) == 7
    assert len(files(metrics)) == 2
    assert keys(metrics.read()) == [(A, step) for step in range(7)]


def test_a_compaction_that_cannot_be_written_changes_nothing(
    two: tuple[TableFolder, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, _ = two
    before = files(metrics)

    def fail(*_: object) -> None:
        raise EnvironmentFailure("disk full")

    monkeypatch.setattr(metrics.folder, "put", fail)
    with pytest.raises(EnvironmentFailure):
        metrics.compact()
    assert files(metrics) == before


def test_a_reader_that_listed_files_since_deleted_lists_again(
    two: tuple[TableFolder, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, _ = two
    expected = contents(metrics.read())
    listings = [metrics._files()]
    metrics.compact()
    delete_replaced(metrics)
    listings.append(metrics._files())
    monkeypatch.setattr(metrics, "_files", lambda: listings.pop(0))
    assert contents(metrics.read()).equals(expected)
    assert listings == []


def test_files_that_keep_disappearing_are_a_failure(
    metrics: TableFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = File("gone.parquet", 1, 0.0, None)
    monkeypatch.setattr(metrics, "_files", lambda *_: [gone])
    with pytest.raises(EnvironmentFailure, match="keep disappearing"):
        metrics.read()
    monkeypatch.setattr(metrics, "_files", lambda *_: [replace(gone, name="compacted-gone")])
    assert delete_replaced(metrics) == 0


def test_an_attempt_reported_lost_after_its_ending_counts_as_it_ended(tmp_path: Path) -> None:
    trials = TableFolder(LocalFolder(tmp_path), TRIALS)
    trial = {"id": A, "attempt": 1000}
    trials.write([{**trial, "status": "failed", "error": "lost"}])
    trials.write([{**trial, "status": "completed", "ended": datetime(2026, 1, 1)}])
    for _ in range(2):
        assert trials.read().table["status"].to_pylist() == ["completed"]
        trials.compact()


def test_only_new_files_are_listed_until_all_are(
    metrics: TableFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that comes later than its name says is left until all are listed."""
    metrics.write(steps(A, 1))
    metrics.write(steps(A, 2))
    assert metrics.compact(newer=True) == 2
    now = time.time()
    for step, ago in ((3, 2 * LATE_SECONDS), (4, LATE_SECONDS / 2), (5, 0)):
        monkeypatch.setattr("time.time", lambda ago=ago: now - ago)
        metrics.write(steps(A, step))
    assert metrics.compact(3, newer=True) == 0
    assert metrics.compact(2, newer=True) == 2
    assert keys(metrics.read()) == [(A, step) for step in range(1, 6)]
    assert metrics.compact(1) == 1


@pytest.mark.parametrize("most_rows", [1, 2**21])
def test_many_files_are_put_together_in_parts(
    metrics: TableFolder, monkeypatch: pytest.MonkeyPatch, most_rows: int
) -> None:
    monkeypatch.setattr("sweepd.store.tables.TOGETHER", 2)
    monkeypatch.setattr("sweepd.store.tables.MOST_ROWS", most_rows)
    for step in range(5):
        metrics.write(steps(A, step, acc=step / 8 if step % 2 else None))
    for compacted in (5, 0):
        assert keys(metrics.read()) == [(A, step) for step in range(5)]
        assert metrics.compact() == compacted
    assert delete_replaced(metrics) == 5 and keys(metrics.read()) == [(A, i) for i in range(5)]
    assert len(files(metrics)) == (3 if most_rows == 1 else 1)
