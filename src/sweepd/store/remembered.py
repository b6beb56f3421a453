"""Remembers what was found out about large files (in `sweepd.cache`). So a question need not read
and hash gigabytes that have not changed since the last one."""

from __future__ import annotations

import json
import time
from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq

from sweepd import cache
from sweepd.store.parquet import Examined, to_parquet
from sweepd.store.storage import DIGEST_LENGTH, File, as_listed, digest, from_json

FORMAT = 1
"""The version of the format in which facts are kept. Facts in another format are not found."""
OVERLAPPING = "overlapping"
SETTLED_SECONDS = 2.0
"""The age in seconds from which a file's time tells every later change. The clocks of disks tick
coarsely."""


class Remembered:
    """What is known of the files of one folder of a store, by name, size, time and version.

    A file that differs in any of these from the one that was examined is not known. Neither is one
    that had only just been written when it was examined.
    """

    def __init__(self, address: str, below: str) -> None:
        self._folder = f"{digest(address.encode())}-{below}"

    def recall(self, file: File) -> Examined | None:
        """Returns what was found out about a file, without its runs. Returns None if nothing
        was."""
        data = cache.recall(f"{self._folder}/{_key(file)}")
        if data is None:
            return None
        known = from_json(data, {"rows": int, "replaces": [str]})
        return Examined(file, known["rows"], tuple(known["replaces"]), None)

    def recall_runs(self, file: File) -> pa.Table | None:
        data = cache.recall(f"{self._folder}/{_key(file)}.runs")
        return None if data is None else _table(data)

    def keep(self, found: Examined) -> None:
        """Remembers a file and its runs, if what the place says of the file tells every later
        change."""
        if not _is_settled(found.file):
            return
        name = f"{self._folder}/{_key(found.file)}"
        cache.keep(f"{name}.runs", to_parquet(found.runs))
        known = {"rows": found.rows, "replaces": found.replaces}
        cache.keep(name, json.dumps(known).encode())

    def recall_overlapping(self, files: Collection[File]) -> pa.Table | None:
        """Returns which trials have overlapping runs in these files together. Returns None if
        that is not known."""
        data = cache.recall(f"{self._folder}/{OVERLAPPING}")
        if data is None or data[:DIGEST_LENGTH] != _key(*files).encode():
            return None
        return _table(data[DIGEST_LENGTH:])

    def keep_overlapping(self, files: Collection[File], found: pa.Table) -> None:
        """Remembers which trials have overlapping runs in these files, in place of what was
        remembered of others."""
        if all(map(_is_settled, files)):
            data = _key(*files).encode() + to_parquet(found)
            cache.keep(f"{self._folder}/{OVERLAPPING}", data)

    def forget(self, files: Collection[File]) -> None:
        """Drops what is known of these files."""
        for file in files:
            cache.forget(f"{self._folder}/{_key(file)}")

    def forget_others(self, files: Collection[File]) -> None:
        """Drops what is known of all files except these."""
        kept = {OVERLAPPING}
        for file in files:
            kept |= {_key(file), f"{_key(file)}.runs"}
        cache.forget_others(self._folder, kept)


def _is_settled(file: File) -> bool:
    return file.version is not None or time.time() - file.written >= SETTLED_SECONDS


def _key(*files: File) -> str:
    return digest(json.dumps([FORMAT, as_listed(files)]).encode())


def _table(data: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
