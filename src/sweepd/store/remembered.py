"""What was found out about large files, kept in the user's cache folder, so that a question need
not read and hash gigabytes which have not changed since the last one.

The folder is `$XDG_CACHE_HOME/sweepd`, or `~/.cache/sweepd`. It may be deleted at any time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sweepd.errors import SweepdError
from sweepd.store.local import LocalFolder
from sweepd.store.parquet import Examined, to_parquet
from sweepd.store.runs import RUNS
from sweepd.store.storage import DIGEST_LENGTH, File, digest, from_json

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
        self._place = f"{digest(address.encode())}/{below}"

    def recall(self, file: File) -> Examined | None:
        """What was found out about a file; None if nothing was, or if that can't be read."""
        try:
            stored = _cache().read(self._name(file))
            data = stored[:-DIGEST_LENGTH]
            if digest(data).encode() != stored[-DIGEST_LENGTH:]:
                return None
            runs = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
            known = from_json(runs.schema.metadata[KNOWN], {"rows": int, "replaces": [str]})
        except (OSError, ValueError, KeyError, RuntimeError, pa.ArrowException, SweepdError):
            return None  # whatever was wrong with it: the file itself is examined again
        return Examined(file, known["rows"], tuple(known["replaces"]), runs.cast(RUNS))

    def keep(self, found: Examined) -> None:
        """Remember a file, if its time tells every later change and the cache can be written."""
        if found.file.version is None and time.time() - found.file.written < SETTLED_SECONDS:
            return
        known = {KNOWN: json.dumps({"rows": found.rows, "replaces": found.replaces})}
        data = to_parquet(found.runs.replace_schema_metadata(known))
        with suppress(OSError, RuntimeError, SweepdError):  # then it is examined again next time
            _cache().put(self._name(found.file), data + digest(data).encode())

    def forget_others(self, files: Iterable[File]) -> None:
        """Drop what is known of all files but these."""
        with suppress(OSError, RuntimeError, SweepdError):
            cache, names = _cache(), {self._name(file) for file in files}
            kept = (f"{self._place}/{file.name}" for file in cache.files(self._place))
            cache.delete([name for name in kept if name not in names])

    def _name(self, file: File) -> str:
        told = json.dumps([file.name, file.size, file.written, file.version])
        return f"{self._place}/{digest(told.encode())}"


def _cache() -> LocalFolder:
    """RuntimeError for a user without a home, OSError if the folder can't be made."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "sweepd"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    return LocalFolder(root)
