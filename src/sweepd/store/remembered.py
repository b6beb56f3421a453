"""What was found out about large files, so that a question need not read and hash gigabytes that
have not changed since the last one (`sweepd.cache`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from sweepd import cache
from sweepd.store.parquet import Examined, to_parquet
from sweepd.store.runs import RUNS
from sweepd.store.storage import File, digest, from_json

FORMAT = 1
"""Of what is kept; another one is not found."""
KNOWN = b"sweepd.known"
"""Parquet metadata: JSON of what is known of a file besides its runs."""
SETTLED_SECONDS = 2.0
"""How old a file must be for its time to tell every later change: clocks of disks tick coarsely."""


class Remembered:
    """What is known of the files of one folder of a store, by name, size, time and version.

    A file that differs in any of these from the one that was examined is not known. Neither is one
    that had only just been written when it was examined.
    """

    def __init__(self, address: str, below: str) -> None:
        self._folder = f"{digest(address.encode())}-{below}"

    def recall(self, file: File) -> Examined | None:
        """What was found out about a file; None if nothing was."""
        data = cache.recall(f"{self._folder}/{_name(file)}")
        if data is None:
            return None
        runs = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
        known = from_json(runs.schema.metadata[KNOWN], {"rows": int, "replaces": [str]})
        return Examined(file, known["rows"], tuple(known["replaces"]), runs.cast(RUNS))

    def keep(self, found: Examined) -> None:
        """Remember a file, if its time tells every later change."""
        if found.file.version is None and time.time() - found.file.written < SETTLED_SECONDS:
            return
        known = {KNOWN: json.dumps({"rows": found.rows, "replaces": found.replaces})}
        data = to_parquet(found.runs.replace_schema_metadata(known))
        cache.keep(f"{self._folder}/{_name(found.file)}", data)

    def forget_others(self, files: Iterable[File]) -> None:
        """Drop what is known of all files but these."""
        cache.forget_others(self._folder, {_name(file) for file in files})


def _name(file: File) -> str:
    told = json.dumps([FORMAT, file.name, file.size, file.written, file.version])
    return digest(told.encode())
