"""The database in memory that answers questions. It reaches nothing outside itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb

from sweepd.store.storage import Damaged

SCANNED = "sweepd://metrics/"
"""The start of the paths under which DuckDB finds the scanned files (`sweepd.query.scanning`)."""


INTERRUPTED = "Query interrupted"
"""What DuckDB says after Ctrl-C."""


@dataclass(frozen=True)
class Filled:
    """A database with what some views need. The fields are those of `database.Views`. left_out: how
    many trials its cells leave out, since another code made them."""

    connection: duckdb.DuckDBPyConnection
    plan_axes: tuple[str, ...]
    trial_axes: tuple[str, ...]
    few: bool
    damaged: tuple[Damaged, ...] = ()
    alike: Sequence[str] | None = None
    made: frozenset[str] = frozenset()
    left_out: int = 0


@contextmanager
def interruptible() -> Iterator[None]:
    """Within this block, Ctrl-C raises KeyboardInterrupt, as elsewhere. DuckDB makes a RuntimeError
    of it."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != INTERRUPTED:
            raise
        raise KeyboardInterrupt from None


_opening: list[Thread] = []
_opened: list[duckdb.DuckDBPyConnection] = []
"""The database that `open_ahead` has opened, until somebody takes it, and the thread that does."""


def open_ahead() -> None:
    """Begins to open the next `sandbox` in a thread. DuckDB takes some 20 ms for it, and Python can
    import meanwhile."""
    if not _opening and not _opened:
        _opening.append(Thread(target=lambda: _opened.append(_open()), daemon=True))
        _opening[0].start()


def sandbox(kept: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Returns a database in memory. It reaches nothing outside itself but the files of metrics that
    `metrics_sql.attach` gives to it, and, to read, the database in the file `kept`.

    Raises duckdb.Error if that is no such file.
    """
    while _opening:
        _opening.pop().join()
    con = _opened.pop() if _opened else _open()
    if kept:
        path = str(kept).replace("'", "''")
        con.execute(f"ATTACH '{path}' AS kept (READ_ONLY)")
    con.execute(f"SET allowed_directories = ['{SCANNED}']")
    con.execute("SET enable_external_access = false")
    return con


def lock(con: duckdb.DuckDBPyConnection, few: bool, needed: Set[str]) -> None:
    """Fixes the settings of a database for all that will be asked of it. few: whether it has few
    rows. needed: the views that will be asked."""
    if few and "metrics" not in needed:
        con.execute("SET threads = 1")
        # Compressed materialization pays off only for many rows.
        con.execute("SET disabled_optimizers = 'compressed_materialization'")
    con.execute("SET lock_configuration = true")


def fill(
    con: duckdb.DuckDBPyConnection, name: str, columns: str, rows: Sequence[Sequence[Any]]
) -> None:
    """Makes a small table from rows. A question about kept cells imports no Arrow for it."""
    con.execute(f"CREATE TABLE {name} ({columns})")
    if rows:
        con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def _open() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(
        ":memory:",
        config={
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
            "enable_external_file_cache": "false",
            "temp_directory": "",
            "memory_limit": "4GB",
        },
    )
    con.execute("SET parquet_metadata_cache = true")  # files never change
    con.execute("CREATE SCHEMA raw")
    return con
