"""Folders of Parquet files that appear whole, never change and are read together as one table."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sweepd.errors import EnvironmentFailure
from sweepd.store.schema import Layout, Row
from sweepd.store.storage import File, Folder, Unreachable, digest, from_json

REPLACES = b"sweepd.replaces"
"""Parquet metadata of a compacted file: JSON list of the files in its folder that it replaces."""
COMPACTED, ROWS = "compacted", "rows"
"""How file names begin; a file whose rows share one `Layout.filed_by`, a hash, begins with it."""
_NAME = re.compile(r"(?P<prefix>.+)-(?P<digest>[0-9a-f]{32})\.parquet")
_HASH = re.compile(r"[0-9a-f]{1,100}")
READERS = 16
"""Files read at once."""
TOGETHER = 1000
"""Files after which tables are put together: one of a row takes a thousand times its bytes."""
_LISTINGS = 5
REMEMBERED_BYTES = 2**28


@dataclass(frozen=True)
class Damaged:
    """A file that could not be read and was left as it is."""

    path: str
    reason: str


@dataclass(frozen=True)
class Read:
    """All rows that could be read, in no order, and the files that could not."""

    table: pa.Table
    damaged: tuple[Damaged, ...]


@dataclass
class _Found:
    """What is in files: tables, in parts, the names of the files whose rows they hold, and what is
    damaged."""

    tables: list[pa.Table]
    names: list[str]
    damaged: list[Damaged]


class Loader:
    """Reads Parquet files of one layout, several at once.

    What the place says is unchanged since it was last read (`File.version`) is not read again, up
    to `REMEMBERED_BYTES` in all.
    """

    def __init__(self, folder: Folder, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        self._remembered: dict[tuple[str, str], pa.Table | Damaged] = {}
        self._room = REMEMBERED_BYTES

    def load(self, below: str, files: Collection[File]) -> dict[str, pa.Table | Damaged]:
        """By the names of the files. FileNotFoundError if one is gone."""
        if not files:
            return {}
        with ThreadPoolExecutor(READERS) as pool:
            return dict(pool.map(lambda file: (file.name, self._load(below, file)), files))

    def _load(self, below: str, file: File) -> pa.Table | Damaged:
        path = f"{below}/{file.name}"
        key = (path, file.version) if file.version else None
        if key in self._remembered:
            return self._remembered[key]
        loaded = load(self.folder, path, self.layout)
        if key and isinstance(loaded, pa.Table) and loaded.nbytes <= self._room:
            self._room -= loaded.nbytes
            self._remembered[key] = loaded
        return loaded


class TableFolder:
    """The rows of one kind.

    A file's name ends in a digest of its bytes, so a reader knows a damaged file before parsing
    it, and no two files differ under one name. A file put there by other means is read too.
    """

    def __init__(self, folder: Folder, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        self._loader = Loader(folder, layout)
        self._compacted: dict[str, int] = {}
        """rows of the compacted files that this process compacts beside"""
        self._replaced: set[str] = set()
        """files that these replace"""

    def write(self, rows: Collection[Row]) -> None:
        """Add rows as one new file. EnvironmentFailure if that fails, ValueError for bad rows."""
        if rows:
            table = self.layout.table(list(rows))
            values = set(table[self.layout.filed_by].to_pylist())
            only = values.pop()
            named = not values and only is not None and _HASH.fullmatch(only)
            self._put(only if named else ROWS, table)

    def read(self, only: Collection[str] | None = None) -> Read:
        """All rows, or those whose `layout.filed_by` is among these."""
        found = self._load(only)
        table = self.layout.unique(self.layout.concat(found.tables))
        if only is not None:
            wanted = pa.array(list(only), pa.string())
            table = table.filter(pc.is_in(table[self.layout.filed_by], wanted))
        return Read(table, tuple(found.damaged))

    def compact(self, at_least: int = 2) -> int:
        """Write the rows of all readable files that were not compacted before as one file that
        replaces them: how many it replaces. With fewer than `at_least`, nothing is done.

        Compacted files go with them, the smallest first, while they hold at most twice the rows of
        those before. So each that is left is more than twice the next smaller one, and a row is
        rewritten only where its file grows by half. What is replaced stays until it is deleted
        (`replaced`). To be called by one process at a time; two at once only waste space.
        """
        files = self._files()
        known = self._compacted.keys() | self._replaced
        new = [file for file in files if file.name not in known]
        if len(new) < at_least:  # told without reading
            return 0
        try:
            tables, replaced = self._load_compacted(new)
            self._compacted |= {name: table.num_rows for name, table in tables.items()}
            self._replaced |= replaced
            known = tables.keys() | replaced
            fresh = [file for file in new if file.name not in known]
            if len(fresh) < at_least:
                return 0
            found = self._load_parts(fresh)
            if len(found.names) < at_least:
                return 0
            self._add_smaller(files, found)
        except FileNotFoundError:
            return 0  # another process is at it
        table = self.layout.unique(self.layout.concat(found.tables))
        table = table.sort_by([(name, "ascending") for name in self.layout.key])
        names = sorted(set(found.names))
        self._put(COMPACTED, table.replace_schema_metadata({REPLACES: json.dumps(names)}))
        return len(names)

    def _add_smaller(self, files: Collection[File], found: _Found) -> None:
        """Add the compacted ones of these files that are not much larger than all before, and the
        names of what they replace."""
        live = [f for f in files if f.name in self._compacted and f.name not in self._replaced]
        rows = sum(table.num_rows for table in found.tables)
        for file in sorted(live, key=lambda file: self._compacted[file.name]):
            if self._compacted[file.name] > 2 * rows:
                return
            tables, replaced = self._load_compacted([file])
            rows += self._compacted[file.name]
            found.tables += tables.values()
            found.names += tables
            found.names += (f.name for f in files if f.name in replaced)

    def replaced(self, written_until: float) -> list[File]:
        """Readable files that a readable compacted file, written until then, replaces.

        They may be deleted: a reader that listed them meanwhile lists again. The age spares it
        most of that.
        """
        files = self._files()
        try:
            _, names = self._load_compacted(f for f in files if f.written <= written_until)
            loaded = self._loader.load(self.layout.name, [f for f in files if f.name in names])
        except FileNotFoundError:
            return []  # another process is deleting them
        return [file for file in files if isinstance(loaded.get(file.name), pa.Table)]

    def _put(self, prefix: str, table: pa.Table) -> None:
        data = to_parquet(table)
        self.folder.put(f"{self.layout.name}/{prefix}-{digest(data)}.parquet", data)

    def _files(self) -> list[File]:
        found = self.folder.files(self.layout.name)
        return [f for f in found if f.name.endswith(".parquet") and "/" not in f.name]

    def _load(self, only: Collection[str] | None = None) -> _Found:
        prefixes = None if only is None else {*only, ROWS, COMPACTED}
        for _ in range(_LISTINGS):
            files = self._files()
            try:
                compacted, replaced = self._load_compacted(files)
                wanted = [
                    file
                    for file in files
                    if file.name not in replaced
                    and file.name not in compacted
                    and _may_hold(file.name, prefixes)
                ]
                valid = {name: table for name, table in compacted.items() if name not in replaced}
                found = self._load_parts(wanted)
            except FileNotFoundError:
                continue  # replaced and deleted since it was listed
            found.tables += valid.values()
            return found
        raise EnvironmentFailure(f"{self.folder.where(self.layout.name)}: files keep disappearing")

    def _load_parts(self, files: Sequence[File]) -> _Found:
        """What is in these files."""
        found = _Found([], [], [])
        for start in range(0, len(files), TOGETHER):
            loaded = self._loader.load(self.layout.name, files[start : start + TOGETHER])
            tables = {name: table for name, table in loaded.items() if isinstance(table, pa.Table)}
            found.names += tables
            found.tables.append(self.layout.concat(tables.values()))
            found.damaged += (one for one in loaded.values() if isinstance(one, Damaged))
        return found

    def _load_compacted(self, files: Iterable[File]) -> tuple[dict[str, pa.Table], set[str]]:
        """Readable compacted files among these, and the names of all that they replace."""
        compacted = [file for file in files if file.name.startswith(COMPACTED + "-")]
        loaded = self._loader.load(self.layout.name, compacted)
        tables = {name: table for name, table in loaded.items() if isinstance(table, pa.Table)}
        return tables, {name for table in tables.values() for name in _replaces(table)}


def load(folder: Folder, name: str, layout: Layout) -> pa.Table | Damaged:
    """One file as a table of this layout. FileNotFoundError if there is none.

    Unreachable if the place can't be asked: that is no damage.
    """
    try:
        data = folder.read(name)
        match = _NAME.fullmatch(name)
        if match and match["digest"] != digest(data):
            raise ValueError("truncated or changed: its digest is not the one in its name")
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        table = layout.conform(file.read(use_threads=False))
        _replaces(table)
        return table
    except (FileNotFoundError, Unreachable):
        raise
    except (EnvironmentFailure, OSError, ValueError, pa.ArrowException) as error:
        return Damaged(folder.where(name), str(error).partition("\n")[0])


def _replaces(table: pa.Table) -> list[str]:
    """The names of the files whose rows this one holds. ValueError if they can't be told."""
    names: list[str] = from_json((table.schema.metadata or {}).get(REPLACES, b"[]"), [str])
    return names


def to_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy", write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _may_hold(name: str, prefixes: Collection[str] | None) -> bool:
    """Whether rows are wanted of a file so named: of all files if `prefixes` is None."""
    match = _NAME.fullmatch(name)
    return prefixes is None or match is None or match["prefix"] in prefixes
