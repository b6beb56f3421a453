"""Parquet files that appear whole and never change, and folders of them that are read together as
one table. A file is read whole, scanned in parts, or checked to its end."""

import hashlib
import io
import json
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from sweepd.errors import EnvironmentFailure
from sweepd.listing import Row
from sweepd.store.schema import FLOAT, INT, METRICS, NULL, TEXT, Layout, column
from sweepd.store.storage import (
    DIGEST_KEY,
    DIGEST_LENGTH,
    MOST_BYTES,
    NO_DIGEST,
    Damaged,
    File,
    Folder,
    check_digest,
    digest,
    each,
    from_json,
    with_digest,
)

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
COMPACTED, ROWS = "compacted", "rows"
"""What file names say of their rows. Where these share one value of `Layout.filed_by`, if that is a
hash, a name has this hash instead of `rows`."""
LATE_SECONDS = 300.0
"""The seconds by which a file may come later than its name says, since it was long under way or the
clock of its writer is slow. One that is later still is compacted at the end of the launch."""
_HASH = re.compile(r"[0-9a-f]{1,100}")
TOGETHER, TOGETHER_BYTES = 250, 2**23
"""The number of files, and of bytes, after which the tables read so far are joined. A table of one
row takes a thousand times its bytes."""
MOST_ROWS = 2**21
"""The number of rows from which a compacted file is not written again. This bounds what compacting
takes."""
MOST_TABLE = 2**34
"""The most bytes of a Parquet file. To compare so many with their digest takes half a minute."""
MOST_VALUES = 2**28
"""The most rows times columns of a file that is read whole."""
SMALL_BYTES, ROOM_BYTES = 2**20, 2**26
"""The largest size of a file that is read whole even where it could be scanned, and the most bytes
that all such files may have together. To open a file costs more than to read a small one."""
_LISTINGS = 5


@dataclass(frozen=True)
class Content:
    """What is in a file.

    rows: how many it has. replaces: the names of the files that it replaces. table: its rows, or
    None where only its end was read. Then `axes` are its columns besides the fixed ones. wrong:
    what is wrong with rows that were left out of the table.
    """

    file: File
    rows: int
    replaces: tuple[str, ...]
    table: pa.Table | None
    axes: tuple[str, ...] = ()
    wrong: str = ""


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


def to_parquet(table: pa.Table, own_digest: bool = False) -> bytes:
    """Returns a table as a Parquet file. own_digest: whether it holds its digest, since its name
    does not. Its columns of floats have no least and greatest value, since NaN is left out of
    these, and readers that trust them do not find it."""
    sink = pa.BufferOutputStream()
    compared = [field.name for field in table.schema if field.type != FLOAT]
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="snappy",
        write_page_checksum=True,
        write_statistics=compared,
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP)
        if own_digest:
            writer.add_key_value_metadata({DIGEST_KEY: NO_DIGEST})
    data: bytes = sink.getvalue().to_pybytes()
    return with_digest(data) if own_digest else data


def look(
    folder: Folder, below: str, file: File, layout: Layout, *, whole: bool, checked: bool = False
) -> Content | Damaged:
    """Returns what is in a file, or what is wrong with it. Raises FileNotFoundError if there is
    none, and EnvironmentFailure if it cannot be read, since that is no damage.

    whole: whether its rows are read. Otherwise only its end is, if it is named by a digest, and if
    DuckDB can scan it, since its columns have the types of `layout`. checked: whether every byte
    is read all the same, of a large file in parts.
    """
    path = f"{below}/{file.name}"
    try:
        if file.size > MOST_TABLE:
            raise ValueError(f"larger than {MOST_TABLE:,} bytes")
        if not whole and NAME.fullmatch(path):
            reader = Reader(folder, path, file.size)
            if checked:
                state = hashlib.blake2b(digest_size=DIGEST_LENGTH // 2)
                while data := reader.read(CHUNK):
                    state.update(data)
                _check_name(path, state.hexdigest())
            parquet = pq.ParquetFile(reader)
            schema = parquet.schema_arrow
            layout.check_names(schema.names)
            types = {field.name: field.type for field in schema}
            axes = {name: kind for name, kind in types.items() if name not in layout.fixed}
            if layout.fixed.items() <= types.items() and _NUMBERS.issuperset(axes.values()):
                rows = parquet.metadata.num_rows
                return Content(file, rows, _replaced(schema), None, tuple(axes))
        data = folder.read(path, file.version)
        _check_name(path, digest(data))
        check_digest(data)
        parquet = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        _check_room(parquet.metadata)
        table, wrong = layout.sound(layout.conform(parquet.read(use_threads=False)))
        return Content(file, table.num_rows, _replaced(table.schema), table, wrong=wrong)
    except (FileNotFoundError, EnvironmentFailure):
        raise
    except (OSError, ValueError, pa.ArrowException) as error:  # Arrow's own OSErrors are of content
        return Damaged(folder.where(path), str(error).partition("\n")[0])


def _check_room(end: pq.FileMetaData) -> None:
    """Raises ValueError if the rows that a file says it has would fill the memory."""
    groups = (end.row_group(i) for i in range(end.num_row_groups))
    bytes_of_all = sum(group.total_byte_size for group in groups)
    if end.num_rows * end.num_columns > MOST_VALUES or bytes_of_all > MOST_BYTES:
        raise ValueError(f"too large: {end.num_rows:,} rows of {end.num_columns:,} columns")


def _replaced(schema: pa.Schema) -> tuple[str, ...]:
    """Returns the names of the files whose rows a file with this schema holds. Raises ValueError
    if they can't be told."""
    return tuple(from_json((schema.metadata or {}).get(REPLACES, b"[]"), [str]))


def _check_name(name: str, digits: str) -> None:
    match = NAME.fullmatch(name)
    if match and match["digest"] != digits:
        raise ValueError("truncated or changed: its digest is not the one in its name")


@dataclass(frozen=True)
class Read:
    """Rows, in no order, and the files that could not be read.

    table: the rows that were read, once per key. scanned: files whose rows stay where they lie, by
    name, of which only `live` leaves any. Some rows may lie in several. axes: columns that some of
    these have besides the fixed ones.
    """

    table: pa.Table
    damaged: tuple[Damaged, ...] = ()
    scanned: Mapping[str, Reader] = field(default_factory=dict)
    axes: frozenset[str] = frozenset()


class TableFolder:
    """The files that hold the rows of one kind.

    A file's name ends in a digest of its bytes. So a reader knows a damaged file before parsing
    it, and no two files differ under one name. That of a file which was not compacted begins with
    its second, so that new files can be listed alone. A file put there by other means is read too.
    """

    def __init__(self, folder: Folder, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        self._known: set[str] = set()
        """The names of the compacted files that this process has seen, and of those that they
        replace."""
        self._compacted_to = ""
        """A beginning of names. Of the files before it all were compacted that were there then."""

    def write(self, rows: Collection[Row]) -> None:
        """Adds rows as one new file. Raises EnvironmentFailure if that fails, and ValueError for
        bad rows."""
        if rows:
            table = self.layout.table(list(rows))
            values = set(table[self.layout.filed_by].to_pylist())
            only = values.pop()
            named = not values and only is not None and _HASH.fullmatch(only)
            data = to_parquet(table)
            name = f"{time.time():010.0f}-{only if named else ROWS}-{digest(data)}.parquet"
            self.add(name, data)

    def add(self, name: str, data: bytes) -> None:
        """Adds a file."""
        self.folder.put(f"{self.layout.name}/{name}", data)

    def pack(self, table: pa.Table, replaced: Sequence[str] = ()) -> tuple[str, bytes]:
        """Returns rows as a compacted file, which replaces the files of these names: its own name,
        which its content determines, and its bytes."""
        table = table.sort_by([(name, "ascending") for name in self.layout.key])
        data = to_parquet(table.replace_schema_metadata({REPLACES: json.dumps(list(replaced))}))
        return f"{COMPACTED}-{digest(data)}.parquet", data

    def read(self, only: Collection[str] | None = None) -> Read:
        """Returns all rows, or those whose `layout.filed_by` is among these. Of a large file,
        only the row groups that may hold these are then read."""
        live = self.live(only, whole=only is None)
        tables = [live.table]
        for reader in live.scanned.values() if only else ():
            try:  # only the row groups that may hold them are read
                filters = [(self.layout.filed_by, "in", list(only or ()))]
                rows = pq.read_table(reader, filters=filters, page_checksum_verification=True)
                tables.append(self.layout.conform(rows))
            except (OSError, ValueError, pa.ArrowException) as error:
                where = self.folder.where(reader.path)
                raise EnvironmentFailure(
                    f"{where} cannot be read: {error}; `sweepd doctor --deep` checks it"
                ) from error
        table = self.layout.unique(self.layout.concat(tables)) if len(tables) > 1 else live.table
        if only is not None:
            from pyarrow import compute  # which takes a while

            wanted = column([*only], TEXT)
            table = table.filter(compute.is_in(table[self.layout.filed_by], value_set=wanted))
        return Read(table, live.damaged)

    def live(self, only: Collection[str] | None = None, whole: bool = False) -> Read:
        """Returns all rows where they lie, or those of files that may hold some of these trials.
        So metrics take little memory, however many they are. whole: whether large files are read
        too. Raises EnvironmentFailure if files keep disappearing."""
        for _ in range(_LISTINGS):
            files = self._files()
            if only is not None:
                values = {*only, ROWS, COMPACTED, ""}
                files = [file for file in files if _filed_by(file) in values]
            every = {file.name for file in files} if whole else None
            tables: list[pa.Table] = []
            ends: list[Content] = []
            try:
                contents, damaged = self._look(_compacted(files), every)
                replaced = replaced_by(contents)
                contents = [it for it in contents if it.file.name not in replaced]
                kept = (file for file in files if file.name not in replaced)
                rest = [file for file in kept if not file.name.startswith(f"{COMPACTED}-")]
                # What was replaced takes no room from the small files that count.
                small = self._small(rest) if every is None else every
                looked = (self._look(batch, small) for batch in batches(rest))
                for part, broken in chain([(contents, [])], looked):
                    read = (it.table for it in part if it.table is not None)
                    tables.append(self.layout.concat(read))
                    ends += (it for it in part if it.table is None)
                    damaged += broken
            except FileNotFoundError:
                continue  # replaced and deleted since it was listed
            table = self.layout.unique(self.layout.concat(tables))
            below = self.layout.name
            scanned = {
                it.file.name: Reader(self.folder, f"{below}/{it.file.name}", it.file.size)
                for it in ends
            }
            axes = frozenset(name for it in ends for name in it.axes)
            return Read(table, tuple(damaged), scanned, axes)
        raise EnvironmentFailure(f"{self.folder.where(self.layout.name)}: files keep disappearing")

    def whole(self) -> tuple[list[Content], list[Damaged]]:
        """Returns what is in the files that are whole to their last byte, and all damaged ones.
        Every byte is read."""
        return self._look(self._files(), small=(), checked=True)

    def compact(self, at_least: int = 2, newer: bool = False) -> int:
        """Writes the rows of all readable files that were not compacted before as one file that
        replaces them, or as several of about `MOST_ROWS`. Returns how many they replace. With
        fewer than `at_least`, nothing is done.

        What is replaced stays until it is deleted (`replaced`). Only one process at a time should
        call this. Two at once waste space but do no harm.

        newer: list only the files that came since this process last compacted, which are few among
        millions.
        """
        began = time.time()
        files = self._files(self._compacted_to if newer else "")
        new = [file for file in files if file.name not in self._known]
        if len(new) < at_least:  # known without reading any file
            return 0
        tables: list[pa.Table] = []
        names: list[str] = []
        count = 0
        try:
            compacted, _ = self._look(_compacted(new))
            self._known |= {it.file.name for it in compacted} | replaced_by(compacted)
            new = [file for file in new if file.name not in self._known]
            if len(new) < at_least:
                return 0
            for batch in batches(sorted(new, key=_filed_by)):  # a trial's rows lie together
                contents, _ = self._look(batch, small={file.name for file in batch})
                contents = [it for it in contents if not it.wrong]  # whose other rows would be lost
                tables.append(self.layout.concat(it.table for it in contents))
                names += (it.file.name for it in contents)
                del contents  # whose tables would lie beside the joined one
                if sum(table.num_rows for table in tables) >= MOST_ROWS:
                    count += self._replace(tables, names)
                    tables, names = [], []
        except FileNotFoundError:
            return count  # another process is at it
        if count or len(names) >= at_least:
            count += self._replace(tables, names) if names else 0
            self._compacted_to = f"{began - LATE_SECONDS:010.0f}"
        return count

    def replaced(self, written_until: float) -> list[File]:
        """Returns the readable files that a readable compacted file, written until then, replaces.

        They may be deleted. A reader that has listed them and finds them gone lists again.
        Because of the age, few readers have to.
        """
        files = self._files()
        try:
            old = [file for file in _compacted(files) if file.written <= written_until]
            # Their bytes are compared with their digests: what they replace is nowhere else.
            compacted, _ = self._look(old, small=(), checked=True)
            names, readable = replaced_by(compacted), set[str]()
            for batch in batches(file for file in files if file.name in names):
                readable.update(it.file.name for it in self._look(batch)[0])
        except FileNotFoundError:
            return []  # another process is deleting them
        return [file for file in files if file.name in readable]

    def _files(self, after: str = "") -> list[File]:
        files = self.folder.files(self.layout.name, after)
        return [f for f in files if f.name.endswith(".parquet") and "/" not in f.name]

    def _replace(self, tables: list[pa.Table], names: Sequence[str]) -> int:
        """Writes these rows as one file in place of those of these names. Returns how many."""
        table = self.layout.unique(self.layout.concat(tables))
        tables.clear()  # the joined table takes as much memory again
        self.add(*self.pack(table, sorted(names)))
        return len(names)

    def _look(
        self, files: Collection[File], small: Collection[str] | None = None, checked: bool = False
    ) -> tuple[list[Content], list[Damaged]]:
        """Returns what is in each of a few files that are readable, and the damaged ones. small:
        the names of those that are read whole, and not only their ends (None: see `_small`).
        checked: as of `look`."""
        small = self._small(files) if small is None else small

        def one(file: File) -> Content | Damaged:
            below, whole = self.layout.name, file.name in small
            return look(self.folder, below, file, self.layout, whole=whole, checked=checked)

        contents = each(one, files)
        damaged = [it for it in contents if isinstance(it, Damaged)]
        readable = [it for it in contents if not isinstance(it, Damaged)]
        for it in readable:
            if it.wrong:
                where = self.folder.where(f"{self.layout.name}/{it.file.name}")
                damaged.append(Damaged(where, it.wrong))
        return readable, damaged

    def _small(self, files: Collection[File]) -> set[str]:
        """Returns the names of the small ones of these files, or of all files of endings."""
        if self.layout is not METRICS:
            return {file.name for file in files}
        room, small = ROOM_BYTES, set()
        for file in sorted(files, key=lambda file: file.size):
            room -= file.size
            if file.size > SMALL_BYTES or room < 0:
                break
            small.add(file.name)
        return small


def batches(files: Iterable[File]) -> Iterator[list[File]]:
    """Yields files in parts of at most TOGETHER. A part ends once it has TOGETHER_BYTES."""
    batch: list[File] = []
    for file in files:
        batch.append(file)
        if len(batch) == TOGETHER or sum(one.size for one in batch) >= TOGETHER_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _compacted(files: Iterable[File]) -> list[File]:
    return [file for file in files if file.name.startswith(f"{COMPACTED}-")]


def replaced_by(contents: Iterable[Content]) -> set[str]:
    """Returns the names of all files that these replace."""
    return {name for it in contents for name in it.replaces}


def _filed_by(file: File) -> str:
    """Returns what all rows of a file have in common, as its name says. It is `ROWS` where that is
    nothing, and "" where the name does not say it."""
    match = NAME.fullmatch(file.name)
    return match["prefix"].rpartition("-")[2] if match else ""
