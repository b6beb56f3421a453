"""Folders of Parquet files that appear whole, never change and are read together as one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from sweepd.errors import EnvironmentFailure
from sweepd.listing import Row
from sweepd.store.parquet import (
    NAME,
    Footer,
    Reader,
    footer,
    load,
    read_groups,
    replaces,
    replacing,
    to_parquet,
    verify,
)
from sweepd.store.schema import METRICS, Layout, with_one_of
from sweepd.store.storage import READERS, Damaged, File, Folder, digest, each

COMPACTED, ROWS = "compacted", "rows"
"""The beginnings of file names. A file whose rows share one value of `Layout.filed_by`, if that is
a hash, begins with this hash instead of `rows`."""
_HASH = re.compile(r"[0-9a-f]{1,100}")
TOGETHER, TOGETHER_BYTES = 1000, 2**23
"""The number of files, and of bytes, after which the tables read so far are joined. A table of one
row takes a thousand times its bytes."""
MOST_ROWS = 2**21
"""The number of rows from which a compacted file is not written again. This bounds what compacting
takes."""
SMALL_BYTES, ROOM_BYTES = 2**20, 2**26
"""The largest size of a file that is read whole even where it could be scanned, and the most bytes
that all such files may have together. To open a file costs more than to read a small one."""
_LISTINGS = 5
_Content: TypeAlias = "pa.Table | Footer | Damaged"
_Choice = Callable[[Collection[File]], Collection[File]]
"""A function that chooses which of some files are read whole."""


@dataclass(frozen=True)
class Read:
    """All rows that could be read, in no order, and the files that could not."""

    table: pa.Table
    damaged: tuple[Damaged, ...]


@dataclass(frozen=True)
class Live:
    """All rows where they lie. Some rows may be there more than once.

    table: the rows of small files, once per key. scanned: the other files, by name. axes: columns
    that some of these have besides the fixed ones.
    """

    table: pa.Table
    scanned: Mapping[str, Reader] = field(default_factory=dict)
    axes: frozenset[str] = frozenset()
    damaged: tuple[Damaged, ...] = ()


@dataclass
class _Found:
    """The content of some files. tables: the rows that were read, in parts. footers: the files of
    which only the end was read. names: the names of all files whose rows these hold. damaged: the
    damaged files."""

    tables: list[pa.Table] = field(default_factory=list)
    footers: list[Footer] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    damaged: list[Damaged] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables)


class TableFolder:
    """The files that hold the rows of one kind.

    A file's name ends in a digest of its bytes. So a reader knows a damaged file before parsing
    it, and no two files differ under one name. A file put there by other means is read too.
    """

    def __init__(self, folder: Folder, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        self._compacted: dict[str, int] = {}
        """The number of rows of each compacted file that this process knows of, by name."""
        self._replaced: set[str] = set()
        """The names of the files that these replace."""

    def write(self, rows: Collection[Row]) -> None:
        """Adds rows as one new file. Raises EnvironmentFailure if that fails, and ValueError for
        bad rows."""
        if rows:
            table = self.layout.table(list(rows))
            values = set(table[self.layout.filed_by].to_pylist())
            only = values.pop()
            named = not values and only is not None and _HASH.fullmatch(only)
            self._put(only if named else ROWS, table)

    def add(self, name: str, data: bytes) -> None:
        """Adds a file that `pack` returned."""
        self.folder.put(f"{self.layout.name}/{name}", data)

    def pack(self, table: pa.Table, replaced: Sequence[str] = ()) -> tuple[str, bytes]:
        """Returns rows as a compacted file, which replaces the files of these names: its own name,
        which its content determines, and its bytes."""
        table = table.sort_by([(name, "ascending") for name in self.layout.key])
        data = to_parquet(replacing(table, list(replaced)))
        return f"{COMPACTED}-{digest(data)}.parquet", data

    def names(self, damaged: Collection[str]) -> set[str]:
        """Returns the names of all files whose rows are here. They are those that lie here, and
        those that these replace. `damaged` files hold nothing, even where their end can be read."""
        files = [file for file in self._files() if file.name not in damaged]
        compacted = self._look(_compacted(files), self._small)
        return {file.name for file in files} | _replaced_by(compacted)

    def read(self, only: Collection[str] | None = None) -> Read:
        """Returns all rows, or those whose `layout.filed_by` is among these. Of a large file,
        only the row groups that may hold these are then read."""
        found = self._find(only, list if only is None else self._small)
        for end in found.footers:
            found.tables.append(read_groups(self._reader(end.file), self.layout, only or ()))
        table = self.layout.unique(self.layout.concat(found.tables))
        if only is not None:
            table = with_one_of(table, self.layout.filed_by, only)
        return Read(table, tuple(found.damaged))

    def live(self, only: Collection[str] | None = None) -> Live:
        """Returns all rows where they lie, or those of files that may hold some of these trials.
        So metrics take little memory, however many they are."""
        found = self._find(only, self._small)
        table = self.layout.unique(self.layout.concat(found.tables))
        scanned = {end.file.name: self._reader(end.file) for end in found.footers}
        axes = frozenset(name for end in found.footers for name in end.axes)
        return Live(table, scanned, axes, tuple(found.damaged))

    def damaged(self) -> list[Damaged]:
        """Returns all damaged files. Every byte is read."""
        return [*self._broken(self._files()).values()]

    def whole(self) -> tuple[dict[File, pa.Table | Footer], list[Damaged]]:
        """Returns what is in the files that were found whole to their last byte, without those that
        such files replace, and the damaged ones."""
        files = self._files()
        damaged = self._broken(files)
        contents: dict[File, pa.Table | Footer] = {}
        for batch in batches(file for file in files if file.name not in damaged):
            looked = self._look(batch, lambda files: [])
            contents |= {file: looked[file.name] for file in batch}
        replaced = _replaced_by({file.name: it for file, it in contents.items()})
        rest = {file: it for file, it in contents.items() if file.name not in replaced}
        return rest, list(damaged.values())

    def compact(self, at_least: int = 2) -> int:
        """Writes the rows of all readable files that were not compacted before as one file that
        replaces them, or as several of about `MOST_ROWS`. Returns how many they replace. With
        fewer than `at_least`, nothing is done.

        Compacted files go with them, the smallest first, while they hold at most twice the rows
        of those before and there is room. So each that is left, up to the full ones, is more than
        twice the next smaller one, and a row is rewritten only where its file grows by half. What
        is replaced stays until it is deleted (`replaced`). Only one process at a time should call
        this. Two at once waste space but do no harm.
        """
        files = self._files()
        known = self._compacted.keys() | self._replaced
        new = [file for file in files if file.name not in known]
        if len(new) < at_least:  # known without reading any file
            return 0
        try:
            self._note_compacted(new)
            known = self._compacted.keys() | self._replaced
            fresh = [file for file in new if file.name not in known]
            return self._compact(files, fresh, at_least) if len(fresh) >= at_least else 0
        except FileNotFoundError:
            return 0  # another process is at it

    def replaced(self, written_until: float) -> list[File]:
        """Returns the readable files that a readable compacted file, written until then, replaces.

        They may be deleted. A reader that has listed them and finds them gone lists again.
        Because of the age, few readers have to.
        """
        files = self._files()
        try:
            old = [file for file in _compacted(files) if file.written <= written_until]
            # Their bytes are compared with their digests: what they replace is nowhere else.
            broken = self._broken(old)
            whole = [file for file in old if file.name not in broken]
            names = _replaced_by(self._look(whole, self._small))
            readable: set[str] = set()
            for batch in batches([file for file in files if file.name in names]):
                looked = self._look(batch, self._small)
                readable |= {n for n, it in looked.items() if not isinstance(it, Damaged)}
        except FileNotFoundError:
            return []  # another process is deleting them
        return [file for file in files if file.name in readable]

    def _put(self, prefix: str, table: pa.Table) -> None:
        data = to_parquet(table)
        self.folder.put(f"{self.layout.name}/{prefix}-{digest(data)}.parquet", data)

    def _files(self) -> list[File]:
        found = self.folder.files(self.layout.name)
        return [f for f in found if f.name.endswith(".parquet") and "/" not in f.name]

    def _reader(self, file: File) -> Reader:
        return Reader(self.folder, f"{self.layout.name}/{file.name}", file.size)

    def _compact(self, files: Collection[File], fresh: Sequence[File], at_least: int) -> int:
        found, replaced = _Found(), 0
        for batch in batches(fresh):  # in the order of their names: a trial's rows lie together
            self._add(found, self._load(batch))
            if found.rows >= MOST_ROWS:
                replaced += self._replace(found)
                found = _Found()
        if not replaced and len(found.names) < at_least:
            return 0
        self._add_smaller(files, found)
        return replaced + self._replace(found)

    def _add_smaller(self, files: Collection[File], found: _Found) -> None:
        """Adds those of these files that are compacted and not much larger than all before, and
        the names of what they replace."""
        live = [f for f in files if f.name in self._compacted and f.name not in self._replaced]
        for file in sorted(live, key=lambda file: self._compacted[file.name]):
            if self._compacted[file.name] > min(2 * found.rows, MOST_ROWS - found.rows):
                return
            looked = self._load([file])
            self._add(found, looked)
            replaced = _replaced_by(looked)
            found.names += (f.name for f in files if f.name in replaced)

    def _replace(self, found: _Found) -> int:
        """Writes what was found as one file that replaces those that hold it. Returns how many."""
        if not found.names:
            return 0
        table = self.layout.unique(self.layout.concat(found.tables))
        found.tables.clear()  # the joined table takes as much memory again
        names = sorted(set(found.names))
        self.add(*self.pack(table, names))
        return len(names)

    def _note_compacted(self, files: Iterable[File]) -> None:
        """Notes which of these files were compacted, and what they replace."""
        looked = self._look(_compacted(files), self._small)
        for name, it in looked.items():
            if not isinstance(it, Damaged):
                self._compacted[name] = it.rows if isinstance(it, Footer) else it.num_rows
        self._replaced |= _replaced_by(looked)

    def _find(self, only: Collection[str] | None, whole: _Choice) -> _Found:
        """Returns what is in all files, or in those that may hold rows of some trials. Those that
        `whole` chooses are read, of the others the end is. Raises EnvironmentFailure if files keep
        disappearing."""
        prefixes = None if only is None else {*only, ROWS}
        for _ in range(_LISTINGS):
            files, found = self._files(), _Found()
            try:
                compacted = self._look(_compacted(files), whole)
                replaced = _replaced_by(compacted)
                self._add(
                    found, {name: it for name, it in compacted.items() if name not in replaced}
                )
                rest = [f for f in files if f.name not in replaced and f.name not in compacted]
                rest = [file for file in rest if _may_hold(file.name, prefixes)]
                read = whole(rest)
                for batch in batches(read):
                    self._add(found, self._load(batch))
                self._add(found, self._ends(_others(rest, read)))
            except FileNotFoundError:
                continue  # replaced and deleted since it was listed
            return found
        raise EnvironmentFailure(f"{self.folder.where(self.layout.name)}: files keep disappearing")

    def _add(self, found: _Found, contents: Mapping[str, _Content]) -> None:
        tables = {name: it for name, it in contents.items() if isinstance(it, pa.Table)}
        footers = {name: it for name, it in contents.items() if isinstance(it, Footer)}
        found.tables.append(self.layout.concat(tables.values()))
        found.footers += footers.values()
        found.names += [*tables, *footers]
        found.damaged += (it for it in contents.values() if isinstance(it, Damaged))

    def _look(self, files: Sequence[File], whole: _Choice) -> dict[str, _Content]:
        """Returns what is in each of a few files, by name. Those that `whole` chooses are read
        whole."""
        read = whole(files)
        return {**self._load(read), **self._ends(_others(files, read))}

    def _load(self, files: Collection[File]) -> dict[str, pa.Table | Damaged]:
        def load_one(file: File) -> tuple[str, pa.Table | Damaged]:
            path = f"{self.layout.name}/{file.name}"
            return file.name, load(self.folder, path, self.layout, file.version)

        return dict(each(load_one, files, READERS))

    def _ends(self, files: Collection[File]) -> dict[str, _Content]:
        def end(file: File) -> tuple[str, _Content]:
            return file.name, footer(self.folder, self.layout.name, file, self.layout)

        return dict(each(end, files, READERS))

    def _broken(self, files: Collection[File]) -> dict[str, Damaged]:
        """Returns what is wrong with the damaged ones of these files. Every byte is read."""

        def verified(file: File) -> tuple[str, Damaged | None]:
            return file.name, verify(self.folder, self.layout.name, file, self.layout)

        return {name: wrong for name, wrong in each(verified, files, READERS) if wrong}

    def _small(self, files: Collection[File]) -> list[File]:
        """Returns those of these files that are read whole even where they need not be. They are
        the small ones, or all files of endings."""
        if self.layout is not METRICS:
            return list(files)
        room, small = ROOM_BYTES, []
        for file in sorted(files, key=lambda file: file.size):
            room -= file.size
            if file.size > SMALL_BYTES or room < 0:
                break
            small.append(file)
        return small


def _others(files: Iterable[File], than: Iterable[File]) -> list[File]:
    names = {file.name for file in than}
    return [file for file in files if file.name not in names]


def batches(files: Iterable[File]) -> Iterator[list[File]]:
    """Yields files in parts of at most TOGETHER. A part ends once it has TOGETHER_BYTES."""
    batch: list[File] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size
        if len(batch) == TOGETHER or size >= TOGETHER_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _compacted(files: Iterable[File]) -> list[File]:
    return [file for file in files if file.name.startswith(COMPACTED + "-")]


def _replaced_by(contents: Mapping[str, _Content]) -> set[str]:
    """Returns the names of all files that readable ones among these replace."""
    names: set[str] = set()
    for it in contents.values():
        if isinstance(it, Footer):
            names.update(it.replaces)
        elif isinstance(it, pa.Table):
            names.update(replaces(it.schema))
    return names


def _may_hold(name: str, prefixes: Collection[str] | None) -> bool:
    """Returns whether a file so named may hold wanted rows. If `prefixes` is None, those of all
    files are wanted."""
    match = NAME.fullmatch(name)
    return prefixes is None or match is None or match["prefix"] in prefixes
