"""Cells and endings that a question has made, kept in the user's cache folder for the next one.

To make cells, a question reads every plan and every ending. The next one takes them from a file of
DuckDB's, of which it reads the columns that it needs. This holds as long as the store's listings
show no change (`Store.state`), and while the same trials count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from typing import Any

import duckdb

from sweepd import cache
from sweepd.query.source import Selection
from sweepd.store.storage import digest, from_json

FOLDER = "kept"
ROOMS = (".", "grid", "query", "store")
"""The folders of sweepd's whose code makes what is kept."""
MOST_BYTES = 2**28
"""The bytes that all that is kept may take together."""
SMALL_BLOCKS = 2**14
"""The size of DuckDB's blocks where there are few rows. The usual ones would leave most of a file
empty."""
Made = tuple[str, str, str, int]
"""A task, a model, a code, and how many trials of them ended."""
_SHAPE = {
    "state": str,
    "file": str,
    "plan_axes": [str],
    "trial_axes": [str],
    "few": bool,
    "tables": [str],
    "made": [[object]],
    "counted": [[object]],
}


@dataclass(frozen=True)
class Spot:
    """Where something is kept. name: says of what. state: says of which state of the store, and by
    which version of sweepd."""

    name: str
    state: str


@dataclass(frozen=True)
class Facts:
    """What is known of kept tables. plan_axes, trial_axes, few: as in `database.Views`. tables:
    their names. made, counted: of which trials cells were made, and which of them counted."""

    plan_axes: tuple[str, ...]
    trial_axes: tuple[str, ...]
    few: bool
    tables: tuple[str, ...]
    made: Sequence[Made]
    counted: Sequence[Made]


@dataclass(frozen=True)
class Kept:
    """Tables that were kept, in a file of DuckDB's."""

    path: Path
    facts: Facts


def spot(selection: Selection, *part: object) -> Spot | None:
    """Returns where a part of what these sweeps come to is kept. Returns None if it is not, since
    something is damaged, or may still change unseen."""
    state = None if selection.damaged else selection.source.state()
    if state is None:
        return None
    sweeps = None if selection.whole_store else sorted(selection.infos)
    name = json.dumps([selection.source.address, sweeps, part])
    return Spot(digest(name.encode()), digest(f"{_version()} {state}".encode()))


def recall(spot: Spot) -> Kept | None:
    """Returns what was kept of this state. Returns None if nothing was."""
    known = _facts(spot)
    if known is None or known["state"] != spot.state:
        return None
    path = cache.recall_file(known["file"])
    if path is None:
        return None
    cache.note_use(_facts_of(spot), known["file"])
    made, counted = ([tuple(one) for one in known[key]] for key in ("made", "counted"))
    axes = tuple(known["plan_axes"]), tuple(known["trial_axes"])
    return Kept(path, Facts(*axes, known["few"], tuple(known["tables"]), made, counted))


def keep(
    spot: Spot, con: duckdb.DuckDBPyConnection, columns: Mapping[str, str], facts: Facts
) -> None:
    """Keeps the tables of `facts`, in place of what was kept of an earlier state. Nothing happens
    where that is not possible. con: the database that has them. columns: those of each."""

    def write(path: Path) -> None:
        blocks: dict[str, Any] = {"default_block_size": SMALL_BLOCKS} if facts.few else {}
        with duckdb.connect(str(path), config=blocks) as out:
            for name in facts.tables:
                rows = con.sql(f"SELECT {columns[name]} FROM {name}")
                out.from_arrow(rows.to_arrow_table()).create(name.rpartition(".")[2])

    before = _facts(spot)
    try:
        file = cache.keep_file(FOLDER, write)
    except duckdb.Error:  # no room for it
        return
    if file is None:
        return
    told = {"state": spot.state, "file": file, **vars(facts)}
    cache.keep(_facts_of(spot), json.dumps(told).encode())
    if before and before["file"] != file:
        cache.forget(before["file"])
    cache.bound(FOLDER, MOST_BYTES)


def _facts(spot: Spot) -> dict[str, Any] | None:
    data = cache.recall(_facts_of(spot))
    if data is None:
        return None
    try:
        known = dict(from_json(data, _SHAPE))
    except ValueError:
        known = {}
    return known if known.keys() == _SHAPE.keys() else None  # else another version kept it


def _facts_of(spot: Spot) -> str:
    return f"{FOLDER}/{spot.name}.json"


@once
def _version() -> str:
    """Returns a text that differs wherever the code does that makes what is kept."""
    root = Path(__file__).parents[1]
    files = sorted(path for room in ROOMS for path in (root / room).glob("*.py"))
    stats = [(str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in files]
    return json.dumps([duckdb.__version__, stats])
