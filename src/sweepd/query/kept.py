"""Cells and endings that a question has made, kept in the user's cache folder for the next one.

To make cells, a question reads every plan and every ending. The next one takes them from a file of
DuckDB's, of which it reads the columns that it needs. This holds as long as the store's listings
show no change (`Store.state`), and while the same trials count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb

from sweepd import cache
from sweepd.query.cells_sql import ATTEMPTS, MEASURED, OF_ENDINGS, OF_QUESTIONS, view_sql
from sweepd.query.sandbox import Filled, lock, sandbox
from sweepd.query.source import Selection
from sweepd.store.storage import digest, from_json

Kind = Literal["cells", "endings"]
Made = tuple[str, str, str, int]
"""A task, a model, a code, and how many trials of them ended."""
FOLDER = "kept"
TABLES: Mapping[Kind, Mapping[str, str]] = {"cells": OF_QUESTIONS, "endings": OF_ENDINGS}
"""By kind, the names of the tables that are kept, and the columns of each."""
VIEW: Mapping[Kind, str] = {"cells": view_sql(MEASURED), "endings": ATTEMPTS}
"""By kind, SQL of the view over them that users name."""
MOST_BYTES = 2**30
"""The bytes that all that is kept may take together, and four times what one file may take."""
SMALL_BLOCKS = 2**14
"""The size of DuckDB's blocks where there are few rows. The usual ones would leave most of a file
empty."""
_CODE = Path(__file__).parents[1]
ROOMS = (".", "grid", "query", "store")
"""The folders of sweepd's whose code makes what is kept."""
_SHAPE = {
    "state": str,
    "file": str,
    "kind": str,
    "plan_axes": [str],
    "trial_axes": [str],
    "few": bool,
    "made": [[object]],
    "counted": [[object]],
    "alike": [str],
}


@dataclass(frozen=True)
class Key:
    """Under which something is kept. name: says of what. state: says of which state of the store,
    and by which version of sweepd."""

    name: str
    state: str

    @property
    def facts(self) -> str:
        return f"{FOLDER}/{self.name}.json"


@dataclass(frozen=True)
class Facts:
    """What is to be known of kept tables. plan_axes, trial_axes, few, alike: as in
    `database.Views`. made, counted: of which trials cells were made, and which of them counted."""

    kind: Kind
    plan_axes: Sequence[str]
    trial_axes: Sequence[str]
    few: bool
    made: Sequence[Made] = ()
    counted: Sequence[Made] = ()
    alike: Sequence[str] = ()


def key(selection: Selection, state: str | None, *part: object) -> Key | None:
    """Returns the key of a part of what these sweeps come to. state: that of the store before the
    sweeps were looked at. Returns None if nothing is kept of it, since something is damaged, or may
    still change unseen."""
    if state is None or selection.damaged:
        return None
    sweeps = None if selection.whole_store else sorted(selection.infos)
    name = json.dumps([selection.source.address, sweeps, part])
    infos = {name: info.to_json() for name, info in selection.infos.items()}
    return Key(digest(name.encode()), digest(json.dumps([VERSION, state, infos]).encode()))


def recall(key: Key, needed: Set[str], counts: Callable[[Made], bool]) -> Filled | None:
    """Returns a database with what was kept under this key. Returns None if nothing was, if it is
    gone or was changed, or if by now other trials count. needed: the views that will be asked.
    counts: says whether trials count."""
    known = _known(key)
    if known is None or known["state"] != key.state or not known["file"]:
        return None
    made, counted = ([tuple(one) for one in known[name]] for name in ("made", "counted"))
    path = cache.recall_file(known["file"])
    if path is None or counted != [one for one in made if counts(one)]:
        return None
    kind, few = known["kind"], known["few"]
    try:
        con = sandbox(path)
        for name in TABLES[kind]:
            con.execute(f"CREATE VIEW {name} AS FROM kept.{_own_name(name)}")
        con.execute(VIEW[kind])
        lock(con, few, needed)
    except duckdb.Error:  # locked, say, where files can only be locked for one process
        return None
    cache.note_use(key.facts, known["file"])
    return Filled(
        con,
        tuple(known["plan_axes"]),
        tuple(known["trial_axes"]),
        few,
        alike=known["alike"],
        made=frozenset({kind} & {"cells"}),
        left_out=left_out(made, counted),
    )


def left_out(made: Iterable[Made], counted: Iterable[Made]) -> int:
    """Returns how many of these trials do not count."""
    return sum(one[3] for one in made) - sum(one[3] for one in counted)


def keep(key: Key, con: duckdb.DuckDBPyConnection, facts: Facts) -> None:
    """Keeps the tables of a database in place of what was kept of an earlier state. Nothing happens
    where there is no room for them. A file that is too large is not kept, which is noted."""
    before = _known(key)
    if before and before["state"] == key.state and not before["file"]:
        return  # too large the last time

    def write(path: Path) -> None:
        blocks: dict[str, Any] = {"default_block_size": SMALL_BLOCKS} if facts.few else {}
        with duckdb.connect(str(path), config=blocks) as out:
            for name, columns in TABLES[facts.kind].items():
                rows = con.sql(f"SELECT {columns} FROM {name}").to_arrow_table()
                out.from_arrow(rows).create(_own_name(name))
            out.execute("CHECKPOINT")  # on closing, DuckDB would not tell that it failed

    try:
        file = cache.keep_file(FOLDER, write, MOST_BYTES // 4)
    except (duckdb.OperationalError, duckdb.FatalException):  # the disk is full, or the memory
        return
    if file is None:
        return
    told = {"state": key.state, "file": file, **vars(facts)}
    cache.keep(key.facts, json.dumps(told).encode())
    if before and before["file"] not in ("", file):
        cache.forget(before["file"])
    cache.bound(FOLDER, MOST_BYTES)


def _known(key: Key) -> dict[str, Any] | None:
    data = cache.recall(key.facts)
    if data is None:
        return None
    try:
        known = dict(from_json(data, _SHAPE))
    except ValueError:
        known = {}
    return known if known.keys() == _SHAPE.keys() else None  # else another version kept it


def _own_name(table: str) -> str:
    """Returns the name that a table has in the file, which has no schemas."""
    return table.rpartition(".")[2]


def _version() -> str:
    """Returns a text that differs wherever the code does that makes what is kept. It knows files by
    their sizes and times, as Python knows for which of them it has compiled code."""
    told: list[Any] = [duckdb.__version__]
    for path in sorted(path for room in ROOMS for path in (_CODE / room).glob("*.py")):
        with suppress(OSError):  # an editor's own file, which may be gone
            stat = path.stat()
            told += [path.name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    return digest(json.dumps(told).encode())


VERSION = _version()
"""That of the code as it was imported."""
