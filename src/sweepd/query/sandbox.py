"""The database in memory that answers questions. It reaches nothing outside itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import pyarrow as pa

SCANNED = "sweepd://metrics/"
"""The start of the paths under which DuckDB finds the scanned files (`sweepd.query.metrics`)."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within this block, Ctrl-C raises KeyboardInterrupt, of which DuckDB makes a RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None


def sandbox() -> duckdb.DuckDBPyConnection:
    """Returns a database in memory. It reaches nothing but what `metrics.attach` gives to it."""
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
    con.execute(f"SET allowed_directories = ['{SCANNED}']")
    con.execute("SET enable_external_access = false")
    return con


def copy(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Makes or replaces a table of the database with the rows of an Arrow table."""
    con.register("arrow", table)
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM arrow")
    con.unregister("arrow")
