"""How far the trials are that run now: what `status` asks of the metrics."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from sweepd.errors import EnvironmentFailure
from sweepd.query.cells_sql import quoted
from sweepd.query.database import sandbox
from sweepd.query.metrics_sql import attach, copy
from sweepd.statuses import RAN
from sweepd.store.tables import Live

NEWEST = f"""
    SELECT id, max({{{{attempt: attempt, step: step, {{scores}}, seconds: seconds}}}})
    FROM raw.metrics SEMI JOIN (
        SELECT id FROM raw.runs LEFT JOIN raw.ended USING (id)
        GROUP BY id HAVING max(runs.attempt) > coalesce(max(ended.attempt), -1)
            AND NOT coalesce(bool_or(status IN {RAN}), false)
    ) USING (id) GROUP BY id
"""
"""The runs tell which trials run, so that the rows of all others are left where they lie."""


class Source(Protocol):
    """What is needed of a store."""

    def live_metrics(self, ids: Collection[str] | None = None) -> Live: ...


def newest_steps(
    source: Source, planned: pa.Table, ended: pa.Table, own: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """By id, the newest recorded step of each planned trial of which an attempt has not ended:
    `attempt`, `step`, `acc`, the metrics `own` of users' loops, and `seconds`.

    planned: trials, with their `id`. ended: endings, with `id`, `attempt` and `status`.
    EnvironmentFailure if a file cannot be read.
    """
    con, failures = sandbox(), list[Exception]()
    copy(con, "raw.planned", planned.select(["id"]))
    copy(con, "raw.ended", ended.select(["id", "attempt", "status"]))
    live = source.live_metrics(planned["id"].to_pylist())
    copy(con, "raw.runs", live.runs())
    attach(con, live, failures, "raw.planned", own)
    scores = ", ".join(f"{quoted(name)}: {quoted(name)}" for name in ("acc", *own))
    try:
        return dict(con.execute(NEWEST.format(scores=scores)).fetchall())
    except duckdb.Error as error:
        raise EnvironmentFailure(f"the metrics cannot be read: {failures or error}") from error
