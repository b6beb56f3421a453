"""Reads the plans and endings of a store into the database of a question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from sweepd.errors import UserError
from sweepd.grid.metrics import Better
from sweepd.grid.options import OF_CELLS
from sweepd.query.cells_sql import PLAN_ROW, SCORES
from sweepd.query.metrics import attach
from sweepd.query.sandbox import lend, sandbox
from sweepd.query.selection import Selection
from sweepd.store.endings import parted
from sweepd.store.schema import INT, METRICS, PLAN, TRIALS, column, with_doubles
from sweepd.store.storage import Damaged
from sweepd.store.sweeps import SweepInfo
from sweepd.store.tables import Live, Read

_OWN = frozenset({*OF_CELLS, *SCORES})
"""The columns of `raw.cells` that are neither axes nor columns of trials. No axis may have such a
name."""
SWEEPS = (
    "number BIGINT, name VARCHAR, created VARCHAR, goal VARCHAR, pass VARCHAR, search VARCHAR, "
    "extra_seeds BIGINT[], fresh_seeds BIGINT[], settles BOOLEAN"
)


@dataclass(frozen=True)
class Filled:
    """A database with what some views need. The fields are those of `database.Views`."""

    connection: duckdb.DuckDBPyConnection
    plan_axes: tuple[str, ...]
    trial_axes: tuple[str, ...]
    own: Mapping[str, Better]
    damaged: tuple[Damaged, ...]


def filled(selection: Selection, needed: Set[str], seeds: str | None) -> Filled:
    """Returns a database with the tables `raw.planned`, `trials` (of each trial that ended, the
    ending that counts), `raw.superseded` (the other endings) and `raw.sweeps`, and with the view
    `attempts`. Of the whole store, tables that the `needed` views do without stay empty.

    seeds: a pass rule in place of the grids'. Raises UserError where sweeps do not agree on a
    metric, and where a field has the name of a column that `cells` has already.
    """
    source, infos, whole_store = selection.source, selection.infos, selection.whole_store
    plans, trials = Read(PLAN.concat([]), ()), Read(TRIALS.concat([]), ())
    of_cells = not whole_store or bool(needed & {"cells", "sweeps"})
    of_trials = of_cells or needed != {"metrics"}
    # Only the plans tell a metric of a user's own from another sweep's field of that name.
    if of_cells or (of_trials and any(info.metrics for info in infos.values())):
        plans = source.read_plans(None if whole_store else list(infos))
    planned = plans.table
    if of_trials:
        trials = source.read_trials(None if whole_store else set(planned["config"].to_pylist()))
    ended = trials.table if whole_store else _without_others(trials.table, planned)

    plan_axes = _axes(planned, PLAN.fixed)
    own = selection.own_metrics(plan_axes)
    trial_axes = _axes(ended, TRIALS.fixed.keys() | own.keys())
    if taken := _OWN.intersection((*plan_axes, *trial_axes)):
        raise UserError(
            f"fields named {', '.join(sorted(taken))}: `cells` has such columns; rename them"
        )
    _refuse_two_spellings((*PLAN.fixed, *TRIALS.fixed, *plan_axes, *trial_axes, *own))

    con = sandbox()
    rows = column(range(planned.num_rows), INT)
    lend(con, "raw.planned", planned.append_column(PLAN_ROW, rows))
    counting, superseded = parted(ended)
    lend(con, "trials", with_doubles(counting, own))
    lend(con, "raw.superseded", with_doubles(superseded, own))
    con.execute("CREATE VIEW attempts AS FROM trials UNION ALL FROM raw.superseded")
    if "metrics" in needed:  # which `Views.prepare` replaces
        attach(con, Live(METRICS.concat([])), [], own=tuple(own))
    con.execute(f"CREATE TABLE raw.sweeps ({SWEEPS})")
    for row in _sweep_rows(infos, seeds):
        con.execute(f"INSERT INTO raw.sweeps VALUES ({', '.join('?' * len(row))})", row)
    # One thread notices Ctrl-C at once, where several may go on to the end of the question. Over
    # plans and endings it is about as fast. Only metrics have many more rows.
    if "metrics" not in needed:
        con.execute("SET threads = 1")
    con.execute("SET lock_configuration = true")
    damaged = (*selection.damaged, *plans.damaged, *trials.damaged)
    return Filled(con, plan_axes, trial_axes, own, damaged)


def _sweep_rows(infos: Mapping[str, SweepInfo], seeds: str | None) -> Sequence[Sequence[Any]]:
    """Returns the rows of `raw.sweeps`, with the columns SWEEPS. `number` counts from the oldest
    sweep."""
    return [
        [number, name, info.created, info.goal, seeds or info.pass_rule, info.search,
         list(info.extra_seeds), list(info.fresh_seeds), bool(info.settle)]
        for number, (name, info) in enumerate(infos.items())
    ]  # fmt: skip


def _axes(table: pa.Table, known: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in table.column_names if name not in known)


def _without_others(trials: pa.Table, plans: pa.Table) -> pa.Table:
    """Returns the endings of some sweeps without the fields of other sweeps, whose endings lay in
    the same files, where a field of these sweeps has such a name in another spelling."""
    spellings = {*trials.column_names, *plans.column_names}
    lower = Counter(map(str.lower, spellings))
    others = (name for name in trials.column_names if lower[name.lower()] > 1)
    return trials.drop([name for name in others if trials[name].null_count == trials.num_rows])


def _refuse_two_spellings(names: Iterable[str]) -> None:
    """Raises UserError where two names differ in case alone, which SQL does not tell apart."""
    spelled: dict[str, str] = {}
    for name in names:
        if (other := spelled.setdefault(name.lower(), name)) != name:
            raise UserError(
                f"{other} and {name}: fields and metrics of these names are one column to SQL; ask "
                "one sweep at a time (--sweep)"
            )
