"""The database in memory that answers questions. It reaches nothing outside itself."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import duckdb

SCANNED = "sweepd://metrics/"
"""The start of the paths under which DuckDB finds the scanned files (`sweepd.query.scanning`)."""

_ahead: list[Future[duckdb.DuckDBPyConnection]] = []
"""The database that `open_ahead` began to open, until somebody takes it."""


def open_ahead() -> None:
    """Begins to open the next `sandbox` in a thread. DuckDB takes some 20 ms for it, and Python can
    import meanwhile."""
    if not _ahead:
        opener = ThreadPoolExecutor(1)
        _ahead.append(opener.submit(_opened))
        opener.shutdown(wait=False)


def sandbox() -> duckdb.DuckDBPyConnection:
    """Returns an empty database in memory. It reaches nothing outside itself but the files of
    metrics that `metrics_sql.attach` gives to it."""
    return _ahead.pop().result() if _ahead else _opened()


def _opened() -> duckdb.DuckDBPyConnection:
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
