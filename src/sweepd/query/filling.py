"""Reads the plans and endings of a store into the database of a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from sweepd.query.cells_sql import ATTEMPTS, PLAN_ROW
from sweepd.query.loaded import ALL, load
from sweepd.query.metrics_sql import attach, lend
from sweepd.query.sandbox import Filled, fill, lock, sandbox
from sweepd.query.source import Selection
from sweepd.store.arrays import whole_numbers
from sweepd.store.schema import METRICS, with_doubles
from sweepd.store.sweeps import SweepInfo
from sweepd.store.tables import Live

SWEEPS = (
    "number BIGINT, name VARCHAR, created VARCHAR, goal VARCHAR, pass VARCHAR, search VARCHAR, "
    "extra_seeds BIGINT[], fresh_seeds BIGINT[], settles BOOLEAN"
)
FEW = 20_000
"""The number of plans and endings up to which one thread is enough, and a copy of the endings that
count is better than a view. With one thread, questions over 1000 and over 10,000 endings took less
time than with two."""


def filled(selection: Selection, needed: Set[str], seeds: str | None) -> Filled:
    """Returns a database with what these views need. seeds: a pass rule in place of the grids'."""
    tables = ALL
    if selection.whole_store and needed.isdisjoint({"cells", "sweeps"}):
        tables = () if needed == {"metrics"} else ("trials",)
    loaded = load(selection, tables)
    con, own = sandbox(), loaded.own
    few = loaded.plans.num_rows + loaded.trials.num_rows <= FEW
    rows = whole_numbers(np.arange(loaded.plans.num_rows))
    lend(con, "raw.planned", loaded.plans.append_column(PLAN_ROW, rows))
    lend(con, "trials", with_doubles(loaded.trials, own))
    lend(con, "raw.superseded", with_doubles(loaded.superseded, own))
    con.execute(ATTEMPTS)
    if "metrics" in needed:
        attach(con, Live.of(METRICS.concat([])), [], own=tuple(own))
    fill(con, "raw.sweeps", SWEEPS, _sweep_rows(selection.infos, seeds))
    lock(con, few, needed)
    return Filled(con, loaded.plan_axes, loaded.trial_axes, few, loaded.damaged)


def _sweep_rows(infos: Mapping[str, SweepInfo], seeds: str | None) -> Sequence[Sequence[Any]]:
    """Returns the rows of `raw.sweeps`, with the columns SWEEPS. `number` counts from the oldest
    sweep."""
    return [
        [number, name, info.created, info.goal, seeds or info.pass_rule, info.search,
         list(info.extra_seeds), list(info.fresh_seeds), bool(info.settle)]
        for number, (name, info) in enumerate(infos.items())
    ]  # fmt: skip
