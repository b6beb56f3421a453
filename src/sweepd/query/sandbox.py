"""The database in memory that answers questions. It reaches nothing outside itself."""

from __future__ import annotations

from threading import Thread

import duckdb

SCANNED = "sweepd://metrics/"
"""The start of the paths under which DuckDB finds the scanned files (`sweepd.query.scanning`)."""

_opening: list[Thread] = []
_opened: list[duckdb.DuckDBPyConnection] = []
"""The database that `open_ahead` has opened, until somebody takes it, and the thread that does."""


def open_ahead() -> None:
    """Begins to open the next `sandbox` in a thread. DuckDB takes some 20 ms for it, and Python can
    import meanwhile."""
    if not _opening and not _opened:
        _opening.append(Thread(target=lambda: _opened.append(_open()), daemon=True))
        _opening[0].start()


def sandbox() -> duckdb.DuckDBPyConnection:
    """Returns an empty database in memory. It reaches nothing outside itself but the files of
    metrics that `metrics_sql.attach` gives to it."""
    while _opening:
        _opening.pop().join()
    return _opened.pop() if _opened else _open()


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
    con.execute(f"SET allowed_directories = ['{SCANNED}']")
    con.execute("SET enable_external_access = false")
    con.execute("CREATE SCHEMA raw")
    return con
