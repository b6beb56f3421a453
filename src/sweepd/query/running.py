"""How far the trials that run now have got. This is what `status` asks of the metrics."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import duckdb
import pyarrow as pa

from sweepd.errors import EnvironmentFailure
from sweepd.query.cells_sql import quoted
from sweepd.query.metrics_sql import attach, copy
from sweepd.query.sandbox import interruptible, sandbox
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
"""SQL that selects the newest recorded step of each trial that runs now. The table of runs tells
which trials these are, so that the metrics of the others need not be read."""


class MetricsSource(Protocol):
    """What this module needs of a store."""

    def live_metrics(self, ids: Collection[str] | None = None) -> Live: ...


@interruptible()
def newest_steps(
    source: MetricsSource, planned: pa.Table, ended: pa.Table, own: Sequence[str] = ()
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
    copy(con, "raw.runs", live.runs())
    attach(con, live, failures, "raw.planned", own)
    scores = ", ".join(f"{quoted(name)}: {quoted(name)}" for name in ("acc", *own))
    try:
        return dict(con.execute(NEWEST.format(scores=scores)).fetchall())
    except duckdb.Error as error:
        raise EnvironmentFailure(f"the metrics cannot be read: {failures or error}") from error
