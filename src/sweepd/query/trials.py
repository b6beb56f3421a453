"""The trials of cells one by one, and their learning curves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Any

from sweepd.query.cells_sql import MEASURED, lineage_sql, quoted
from sweepd.query.database import Views

TRIAL_COLUMNS = ("id", "seed", "status", *MEASURED, "step", "seconds", "error")
"""The columns of each trial that ended."""
Curve = Sequence[tuple[int, float]]
"""A learning curve, as steps and the score at each of them."""


def trials_of(views: Views) -> Mapping[int, Sequence[Mapping[str, Any]]]:
    """Returns the trials of each cell that ended, by the cell's number in `raw.cells`. Each has
    TRIAL_COLUMNS and the metrics of users' own tasks and loops. A score that is not finite is None,
    as that of a trial that diverged may be."""
    names = (*TRIAL_COLUMNS, *views.own)
    columns = ", ".join(f"endings.{quoted(name)}" for name in names)
    by_cell: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for cell, *values in views.fetch(
        f"SELECT cell, {columns} FROM raw.members JOIN raw.endings USING ({views.member}) "
        "ORDER BY cell, endings.seed"
    ):
        finite = (None if isinstance(v, float) and not isfinite(v) else v for v in values)
        by_cell[cell].append(dict(zip(names, finite, strict=True)))
    return by_cell


def curves(views: Views, ids: Collection[str], score: str, most: int) -> Mapping[str, Curve]:
    """Returns, by id, what was measured of these trials while they were trained: accuracies at
    checks, losses of training batches. The curve of a trial that continued another one's checkpoint
    begins with what that one had measured before.

    A curve has at most about `most` points, evenly spread. Its last point is always included. The
    metrics must have been read (`Views.prepare`).
    """
    if not ids:
        return {}
    wanted = ", ".join("'" + id_.replace("'", "''") + "'" for id_ in sorted(ids))
    rows = views.fetch(
        f"""
        WITH RECURSIVE {lineage_sql(f"trials WHERE id IN ({wanted})")}, measured AS (
            SELECT trial, step, {quoted(score)} AS score,
                row_number() OVER (PARTITION BY trial ORDER BY step DESC) - 1 AS back,
                count(*) OVER (PARTITION BY trial) AS total
            FROM lineage JOIN metrics ON metrics.id = maker AND (until IS NULL OR step < until)
            WHERE isfinite({quoted(score)})
        )
        SELECT trial, step, score FROM measured
        WHERE back % ceil(total / {most})::BIGINT = 0 ORDER BY trial, step
        """
    )
    by_id: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for trial, step, value in rows:
        by_id[trial].append((step, value))
    return by_id
