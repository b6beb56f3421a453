"""A file system for DuckDB that holds the large files of metrics and nothing else.

DuckDB reads from it only the columns and row groups that a question needs, wherever the store lies.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from fsspec import AbstractFileSystem

from sweepd.errors import SweepdError
from sweepd.query.sandbox import SCANNED
from sweepd.store.parquet import Reader

WRITTEN = datetime(1970, 1, 1, tzinfo=UTC)
"""The time at which DuckDB is told that each file was last changed. It is always the same, since
the files never change."""


class Handle(Reader):
    """An open file. DuckDB raises errors of its own in place of those of a read, so `failures` gets
    the original ones."""

    def __init__(self, file: Reader, failures: list[Exception]) -> None:
        super().__init__(file.folder, file.path, file.size)
        self.failures = failures

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except (SweepdError, OSError) as error:
            self.failures.append(error)
            raise


class ScannedFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The scanned files, under the numbered paths `SCANNED`0, `SCANNED`1, … They can only be
    read."""

    protocol = SCANNED.partition(":")[0]
    cachable = False

    def __init__(self, files: Iterable[Reader], failures: list[Exception]) -> None:
        super().__init__()
        self.files = {f"{SCANNED}{number}": file for number, file in enumerate(files)}
        self.failures = failures

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path] if path in self.files else []

    def unstrip_protocol(self, name: str) -> str:
        return name

    def exists(self, path: str, **_: Any) -> bool:
        return path in self.files

    def open(self, path: str, mode: str = "rb", **_: Any) -> Handle:
        if mode != "rb" or path not in self.files:
            raise FileNotFoundError(path)
        return Handle(self.files[path], self.failures)

    def size(self, path: str) -> int:
        return self.files[path].size

    def modified(self, path: str) -> datetime:
        return WRITTEN
