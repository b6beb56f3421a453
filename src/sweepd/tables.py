"""Folders of Parquet files that appear whole, never change and are read together as one table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sweepd.errors import EnvironmentFailure
from sweepd.schema import Layout, Row
from sweepd.storage import LocalFolder

REPLACES = b"sweepd.replaces"
"""Parquet metadata of a compacted file: JSON list of the files in its folder that it replaces."""
COMPACTED, ROWS = "compacted", "rows"
"""How file names begin; a file of one trial's rows begins with the trial's id instead."""
_NAME = re.compile(r"(?P<prefix>.+)-(?P<digest>[0-9a-f]{32})\.parquet")
_TRIAL_ID = re.compile(r"[0-9a-f]{1,100}")
_READERS = 8
_LISTINGS = 5


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


class TableFolder:
    """The rows of one kind.

    A file's name ends in a digest of its bytes, so a reader knows a damaged file before parsing
    it, and no two files differ under one name. A file put there by other means is read too.
    """

    def __init__(self, folder: LocalFolder, layout: Layout) -> None:
        self.folder, self.layout = folder, layout

    def write(self, rows: Collection[Row]) -> None:
        """Add rows as one new file. EnvironmentFailure if that fails, ValueError for bad rows."""
        if rows:
            table = self.layout.table(list(rows))
            ids = set(table["id"].to_pylist())
            only = min(ids)
            self._put(only if len(ids) == 1 and _TRIAL_ID.fullmatch(only) else ROWS, table)

    def read(self, ids: Collection[str] | None = None) -> Read:
        """All rows, or those of the trials named."""
        tables, _, damaged = self._load(ids)
        table = self.layout.unique(self.layout.concat(tables.values()))
        if ids is not None:
            table = table.filter(pc.is_in(table["id"], pa.array(list(ids), pa.string())))
        return Read(table, tuple(damaged))

    def compact(self, at_least: int = 2) -> int:
        """Write the rows of all readable files as one that replaces them: how many files.

        With fewer files than `at_least`, nothing is done.
        The replaced files stay until `delete_replaced`. To be called by one process at a time;
        two at once only waste space.
        """
        if len(self._names()) < at_least:  # told without reading
            return 0
        tables, replaced, _ = self._load()
        if len(tables) < at_least:
            return 0
        table = self.layout.unique(self.layout.concat(tables.values()))
        names = json.dumps(sorted(replaced | set(tables)))
        table = table.sort_by([(name, "ascending") for name in self.layout.key])
        self._put(COMPACTED, table.replace_schema_metadata({REPLACES: names}))
        return len(tables)

    def delete_replaced(self, older_than_seconds: float) -> int:
        """Delete readable files that a compacted file, at least that old, replaces: how many.

        A reader that listed them meanwhile lists again; the age spares it most of that.
        """
        names = self._names()
        old = [name for name in names if self.folder.age(self._path(name)) >= older_than_seconds]
        try:
            _, replaced = self._load_compacted(old)
            doomed, _ = self._load_files(replaced.intersection(names))
        except FileNotFoundError:
            return 0  # another process is deleting them
        for name in doomed:
            self.folder.delete(self._path(name))
        return len(doomed)

    def _put(self, prefix: str, table: pa.Table) -> None:
        data = to_parquet(table)
        self.folder.put(self._path(f"{prefix}-{_digest(data)}.parquet"), data)

    def _path(self, name: str) -> str:
        return f"{self.layout.name}/{name}"

    def _names(self) -> list[str]:
        return [name for name in self.folder.names(self.layout.name) if name.endswith(".parquet")]

    def _load(
        self, ids: Collection[str] | None = None
    ) -> tuple[dict[str, pa.Table], set[str], list[Damaged]]:
        """Tables by file name, the listed files that they replace, and what is damaged."""
        prefixes = None if ids is None else {*ids, ROWS, COMPACTED}
        for _ in range(_LISTINGS):
            names = self._names()
            try:
                compacted, replaced = self._load_compacted(names)
                rest = (n for n in names if n not in replaced and n not in compacted)
                tables, damaged = self._load_files(n for n in rest if _may_hold(n, prefixes))
            except FileNotFoundError:
                continue  # replaced and deleted since it was listed
            live = {name: table for name, table in compacted.items() if name not in replaced}
            return live | tables, replaced.intersection(names), damaged
        raise EnvironmentFailure(f"{self.folder.path(self.layout.name)}: files keep disappearing")

    def _load_compacted(self, names: Iterable[str]) -> tuple[dict[str, pa.Table], set[str]]:
        """Readable compacted files among these, and all that they replace."""
        tables, _ = self._load_files(n for n in names if n.startswith(COMPACTED + "-"))
        replaced = {
            name
            for table in tables.values()
            for name in json.loads((table.schema.metadata or {}).get(REPLACES, b"[]"))
        }
        return tables, replaced

    def _load_files(self, names: Iterable[str]) -> tuple[dict[str, pa.Table], list[Damaged]]:
        """FileNotFoundError if one is gone."""
        names = list(names)
        with ThreadPoolExecutor(_READERS) as pool:
            results = list(pool.map(self._load_file, names))
        tables = {n: r for n, r in zip(names, results, strict=True) if not isinstance(r, Damaged)}
        return tables, [result for result in results if isinstance(result, Damaged)]

    def _load_file(self, name: str) -> pa.Table | Damaged:
        return load(self.folder, self._path(name), self.layout)


def load(folder: LocalFolder, name: str, layout: Layout) -> pa.Table | Damaged:
    """One file as a table of this layout. FileNotFoundError if there is none."""
    try:
        data = folder.read(name)
        match = _NAME.fullmatch(name)
        if match and match["digest"] != _digest(data):
            raise ValueError("truncated or changed: its digest is not the one in its name")
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        return layout.conform(file.read(use_threads=False))
    except FileNotFoundError:
        raise
    except (EnvironmentFailure, OSError, ValueError, pa.ArrowException) as error:
        return Damaged(str(folder.path(name)), str(error).partition("\n")[0])


def to_parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="snappy", write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _may_hold(name: str, prefixes: Collection[str] | None) -> bool:
    """Whether rows are wanted of a file so named: of all files if `prefixes` is None."""
    match = _NAME.fullmatch(name)
    return prefixes is None or match is None or match["prefix"] in prefixes
