"""The view `metrics`, which has for each trial and step the row of the newest attempt.

The rows lie in the table `raw.loaded` and in large files, which DuckDB scans: of them it reads only
the columns and row groups that a question needs, wherever the store lies. `raw.metrics` has all of
them, and some steps of a trial more than once. Rows are compared only of trials that may have a
step twice. All other rows count as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
from fsspec import AbstractFileSystem

from sweepd.errors import EnvironmentFailure, SweepdError
from sweepd.query.cells_sql import quoted
from sweepd.query.sandbox import SCANNED, copy, interruptible, sandbox
from sweepd.query.selection import Source
from sweepd.statuses import RAN
from sweepd.store.schema import FLOAT, METRICS, with_doubles
from sweepd.store.tables import Read, Reader


class Handle(Reader):
    """An open file. DuckDB hides what a read raises, so `failures` gets it."""

    def __init__(self, file: Reader, failures: list[Exception]) -> None:
        super().__init__(file.folder, file.path, file.size)
        self.failures = failures

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except (SweepdError, OSError) as error:
            self.failures.append(error)
            raise


class ScannedFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The scanned files, which can only be read, under the paths `SCANNED`0, `SCANNED`1, …"""

    protocol = SCANNED.partition(":")[0]
    cachable = False

    def __init__(self, files: Iterable[Reader], failures: list[Exception]) -> None:
        super().__init__()
        self.files = {f"{SCANNED}{number}": file for number, file in enumerate(files)}
        self.failures = failures

    def glob(self, path: str, **_: Any) -> list[str]:
        return [path] if path in self.files else []

    def unstrip_protocol(self, name: str) -> str:
        return name

    def exists(self, path: str, **_: Any) -> bool:
        return path in self.files

    def open(self, path: str, mode: str = "rb", **_: Any) -> Handle:
        if mode != "rb" or path not in self.files:
            raise FileNotFoundError(path)
        return Handle(self.files[path], self.failures)

    def size(self, path: str) -> int:
        return self.files[path].size

    def modified(self, path: str) -> datetime:
        return datetime(1970, 1, 1, tzinfo=UTC)  # always the same: the files never change


_FILE = quoted("file of the row")
_OPAQUE = "if(isnan({0}), 'nan'::DOUBLE, {0})"
"""SQL of a column of numbers without its least and greatest value in a file. NaN is left out of
these, and DuckDB trusts them, so that it would not find NaN (duckdb#25521). Files that earlier
versions wrote have them, and so may those of others. It takes 5 ns a row and column."""
_OVERLAPPING = f"""
    SELECT DISTINCT id FROM (
        SELECT id, first, max(last) OVER (
            PARTITION BY id ORDER BY first ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before
        FROM (
            SELECT id, min(step) AS first, max(step) AS last
            FROM raw.by_file GROUP BY id, attempt, {_FILE}
        )
    ) WHERE first <= before
"""
"""SQL of the trials that may have a step twice: the steps of two of their attempts, or those in two
files, overlap. In one file an attempt has each step once."""
_METRICS = """
    FROM raw.metrics ANTI JOIN raw.overlapping USING (id)
    UNION ALL
    (FROM raw.metrics SEMI JOIN raw.overlapping USING (id)
    QUALIFY row_number() OVER (PARTITION BY id, step ORDER BY attempt DESC, seconds) = 1)
"""


def attach(
    con: duckdb.DuckDBPyConnection,
    live: Read,
    failures: list[Exception],
    among: str = "",
    own: Sequence[str] = (),
) -> None:
    """Makes or replaces `raw.metrics` and `metrics`, for all trials or for those in the table
    `among`.

    own: metrics of users' own tasks and loops, which are columns that only some files have.
    `failures` gets the reason when a scanned file cannot be read, now or later.
    """
    copy(con, "raw.loaded", with_doubles(live.table, own))
    rows = f"SELECT '' AS {_FILE}, * FROM raw.loaded"
    if live.scanned:
        files = ScannedFiles(live.scanned.values(), failures)
        if files.protocol in con.list_filesystems():  # else DuckDB would still ask the former one
            con.unregister_filesystem(files.protocol)
        con.register_filesystem(files)
        columns = [_FILE, *(name for name, kind in METRICS.fixed.items() if kind != FLOAT)]
        floats = (name for name, kind in METRICS.fixed.items() if kind == FLOAT)
        for name in map(quoted, [*floats, *sorted(live.axes)]):
            columns.append(f"{_OPAQUE.format(f'{name}::DOUBLE')} AS {name}")
        rows += (
            f" UNION ALL BY NAME SELECT {', '.join(columns)} FROM read_parquet("
            f"{list(files.files)}, filename = {_FILE}, union_by_name = {bool(live.axes)})"
        )
    if among:
        rows = f"FROM ({rows}) SEMI JOIN {among} USING (id)"
    con.execute(f"CREATE OR REPLACE VIEW raw.by_file AS {rows}")
    con.execute(
        f"CREATE OR REPLACE VIEW raw.metrics AS SELECT * EXCLUDE ({_FILE}) FROM raw.by_file"
    )
    con.execute(f"CREATE OR REPLACE TABLE raw.overlapping AS {_OVERLAPPING}")
    [repeats] = con.execute("SELECT count(*) > 0 FROM raw.overlapping").fetchone() or [True]
    con.execute(f"CREATE OR REPLACE VIEW metrics AS {_METRICS if repeats else 'FROM raw.metrics'}")


@interruptible()
def newest_steps(
    source: Source, planned: pa.Table, ended: pa.Table, own: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Returns, by id, the newest recorded step of each planned trial whose newest attempt has not
    ended. A step has the keys `attempt`, `step`, `acc`, the metrics `own` of users' tasks and
    loops, and `seconds`. A trial of which an earlier attempt was completed, solved or diverged is
    left out.

    planned: trials, with their `id`. ended: endings, with `id`, `attempt` and `status`. Raises
    EnvironmentFailure if a file cannot be read.
    """
    con, failures = sandbox(), list[Exception]()
    copy(con, "raw.planned", planned.select(["id"]))
    copy(con, "raw.ended", ended.select(["id", "attempt", "status"]))
    live = source.live_metrics(planned["id"].to_pylist())
    scores = ", ".join(f"{quoted(name)}: {quoted(name)}" for name in ("acc", *own))
    try:
        attach(con, live, failures, "raw.planned", own)
        newest = con.execute(f"""
            SELECT id, max({{attempt: attempt, step: step, {scores}, seconds: seconds}})
            FROM raw.metrics SEMI JOIN (
                SELECT id
                FROM (SELECT id, max(attempt) AS attempt FROM raw.metrics GROUP BY id) AS ran
                    LEFT JOIN raw.ended USING (id)
                GROUP BY id HAVING max(ran.attempt) > coalesce(max(ended.attempt), -1)
                    AND NOT coalesce(bool_or(status IN {RAN}), false)
            ) USING (id) GROUP BY id
        """)
        return dict(newest.fetchall())
    except duckdb.Error as error:
        raise EnvironmentFailure(f"the metrics cannot be read: {failures or error}") from error
