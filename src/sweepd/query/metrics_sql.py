"""The view `metrics`, which has for each trial and step the row of the newest attempt.

The rows lie in the table `raw.loaded` and in files that DuckDB scans. `raw.metrics` has all of
them, and some steps of a trial more than once. The store says for which trials rows must be
compared (`sweepd.store.runs`). All other rows count as they are. So a question over files without
repetitions costs no more than DuckDB's scan of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from sweepd.store.schema import METRICS, with_doubles
from sweepd.store.tables import Live


def copy(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Makes or replaces a table of the database with the rows of an Arrow table."""
    con.register("arrow", table)
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM arrow")
    con.unregister("arrow")


def lend(con: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    """Makes a view of the database that reads an Arrow table where it lies: of 60 columns, those
    that a question names. name: with its schema, unless that is `main`."""
    schema, _, view = name.rpartition(".")
    con.execute(f"USE {schema or 'main'}")
    con.from_arrow(table).create_view(view)
    con.execute("USE main")


def attach(
    con: duckdb.DuckDBPyConnection,
    live: Live,
    failures: list[Exception],
    among: str = "",
    own: Sequence[str] = (),
) -> None:
    """Makes or replaces `raw.metrics` and `metrics`, for all trials or for those in the table
    `among`.

    own: metrics of users' own tasks and loops, which are columns that only some files have.
    `failures` gets the reason when a scanned file cannot be read later.
    """
    copy(con, "raw.loaded", with_doubles(live.table, own))
    rows = "FROM raw.loaded"
    if live.scanned:
        from sweepd.query.scanning import ScannedFiles  # this import takes a while

        files = ScannedFiles(live.scanned.values(), failures)
        if files.protocol in con.list_filesystems():  # else DuckDB would still ask the former one
            con.unregister_filesystem(files.protocol)
        con.register_filesystem(files)
        columns = "*" if own else ", ".join(METRICS.fixed)
        read = f"read_parquet({list(files.files)}, union_by_name = {bool(own)})"
        rows += f" UNION ALL BY NAME SELECT {columns} FROM {read}"
    if among:
        rows = f"FROM ({rows}) SEMI JOIN {among} USING (id)"
    con.execute(f"CREATE OR REPLACE VIEW raw.metrics AS {rows}")
    repeats = live.overlapping.num_rows > 0
    if repeats:
        copy(con, "raw.overlapping", live.overlapping)
    con.execute(f"CREATE OR REPLACE VIEW metrics AS {_COMPARED if repeats else _AS_THEY_ARE}")


_AS_THEY_ARE = "FROM raw.metrics"
_COMPARED = """
    FROM raw.metrics ANTI JOIN raw.overlapping USING (id)
    UNION ALL
    (FROM raw.metrics SEMI JOIN raw.overlapping USING (id)
    QUALIFY row_number() OVER (PARTITION BY id, step ORDER BY attempt DESC, seconds) = 1)
"""
