"""One Parquet file of a store: written, read whole, scanned in parts, or checked to its end."""

from __future__ import annotations

import hashlib
import io
import re
import threading
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sweepd.errors import EnvironmentFailure
from sweepd.store.schema import FLOAT, INT, NULL, Layout
from sweepd.store.storage import DIGEST_LENGTH, Damaged, File, Folder, Unreachable, from_json

REPLACES = b"sweepd.replaces"
"""The key of the metadata of a compacted Parquet file under which it lists, as JSON, the files in
its folder that it replaces."""
NAME = re.compile(rf"(?P<prefix>.+)-(?P<digest>[0-9a-f]{{{DIGEST_LENGTH}}})\.parquet")
ROW_GROUP = 2**17
"""The number of rows of a row group. A reader who asks for one trial reads only the row groups that
hold it."""
CHUNK = 2**22
"""The number of bytes of a large file that are in memory at once."""
_NUMBERS = {NULL, INT, FLOAT}


@dataclass(frozen=True)
class Content:
    """What is in a file.

    rows: how many it has. replaces: the names of the files that it replaces. table: its rows, or
    None where only its end was read. axes: in that case, its columns besides the fixed ones.
    """

    file: File
    rows: int
    replaces: tuple[str, ...]
    table: pa.Table | None
    axes: tuple[str, ...] = ()


class Reader(io.RawIOBase):
    """A file of a folder of which only the parts are read that are asked for.

    Each thread has a place of its own in it. DuckDB's threads share an open file. Each seeks and
    then reads, and another may come between.
    """

    def __init__(self, folder: Folder, path: str, size: int) -> None:
        self.folder, self.path, self.size = folder, path, size
        self._own = threading.local()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(getattr(self._own, "place", 0))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.tell(), io.SEEK_END: self.size}[whence]
        self._own.place = max(0, start + offset)
        return self.tell()

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self.size - self.tell())
        wanted = left if size is None or size < 0 else min(size, left)
        if not wanted:
            return b""
        data = self.folder.read_part(self.path, self.tell(), wanted)
        self._own.place = self.tell() + len(data)
        return data


def to_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table, sink, compression="snappy", write_page_checksum=True, row_group_size=ROW_GROUP
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


def look(
    folder: Folder, below: str, file: File, layout: Layout, *, whole: bool, checked: bool = False
) -> Content | Damaged:
    """Returns what is in a file, or what is wrong with it. Raises FileNotFoundError if there is
    none, and Unreachable if the place can't be asked, since that is no damage.

    whole: whether its rows are read. Otherwise only its end is, if it is named by a digest, and if
    DuckDB can scan it, since its columns have the types of `layout`. checked: whether every byte
    is read all the same, of a large file in parts.
    """
    path = f"{below}/{file.name}"
    try:
        if not whole and NAME.fullmatch(path):
            reader = Reader(folder, path, file.size)
            state = hashlib.blake2b(digest_size=DIGEST_LENGTH // 2)
            while checked and (data := reader.read(CHUNK)):
                state.update(data)
            if checked:
                _check_digest(path, state)
            parquet = pq.ParquetFile(reader)
            schema = parquet.schema_arrow
            types = {field.name: field.type for field in schema}
            axes = {name: kind for name, kind in types.items() if name not in layout.fixed}
            if layout.fixed.items() <= types.items() and _NUMBERS.issuperset(axes.values()):
                rows = parquet.metadata.num_rows
                return Content(file, rows, _replaced(schema), None, tuple(axes))
        data = folder.read(path, file.version)
        _check_digest(path, hashlib.blake2b(data, digest_size=DIGEST_LENGTH // 2))
        parquet = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        table = layout.conform(parquet.read(use_threads=False))
        return Content(file, table.num_rows, _replaced(table.schema), table)
    except (FileNotFoundError, Unreachable):
        raise
    except (EnvironmentFailure, OSError, ValueError, pa.ArrowException) as error:
        return Damaged(folder.where(path), str(error).partition("\n")[0])


def _replaced(schema: pa.Schema) -> tuple[str, ...]:
    """Returns the names of the files whose rows a file with this schema holds. Raises ValueError
    if they can't be told."""
    return tuple(from_json((schema.metadata or {}).get(REPLACES, b"[]"), [str]))


def _check_digest(name: str, state: hashlib.blake2b) -> None:
    match = NAME.fullmatch(name)
    if match and match["digest"] != state.hexdigest():
        raise ValueError("truncated or changed: its digest is not the one in its name")
