"""What questions read of a store before they ask it: plans and endings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa

from sweepd.errors import UserError
from sweepd.grid.metrics import Better
from sweepd.grid.options import OF_CELLS
from sweepd.query.cells_sql import SCORES
from sweepd.query.source import Selection, own_metrics
from sweepd.store.arrays import TEXT, Numbers, column
from sweepd.store.endings import parted
from sweepd.store.schema import (
    PLAN,
    TRIALS,
    key_numbers,
    with_column,
    with_one_of,
)
from sweepd.store.storage import Damaged
from sweepd.store.tables import Read

_OWN = frozenset({*OF_CELLS, *SCORES})
"""The columns of `raw.cells` that are neither axes nor columns of trials. No axis may have such a
name."""


@dataclass(frozen=True)
class Loaded:
    """The plans and endings of some sweeps, or of the whole store.

    trials: of each trial that ended, the ending that counts. superseded: the other endings. own:
    the metrics of users' own tasks and loops, and which way each is better. The axes are columns
    that not every store has.
    """

    plans: pa.Table
    trials: pa.Table
    superseded: pa.Table
    own: Mapping[str, Better]
    damaged: tuple[Damaged, ...]

    @property
    def plan_axes(self) -> tuple[str, ...]:
        return _axes(self.plans, PLAN.fixed)

    @property
    def trial_axes(self) -> tuple[str, ...]:
        return _axes(self.trials, TRIALS.fixed.keys() | self.own.keys())


Tables = Literal["plans", "trials"]
ALL: tuple[Tables, ...] = ("plans", "trials")


def load(selection: Selection, tables: Collection[Tables] = ALL) -> Loaded:
    """Returns what some sweeps have planned and what ended of it, or the same of the whole store.

    tables: what of this is needed. What is not may be left empty. Of some sweeps all is needed.

    Raises UserError where sweeps do not agree on a metric, and where a field has the name of a
    column that `cells` has already.
    """
    source, infos = selection.source, selection.infos
    sweeps = None if selection.whole_store else list(infos)
    plans, trials = Read(PLAN.concat([]), ()), Read(TRIALS.concat([]), ())
    # Only the plans tell a metric of a user's own from another sweep's field of that name.
    if "plans" in tables or ("trials" in tables and any(info.metrics for info in infos.values())):
        plans = source.read_plans(sweeps)
    if "trials" in tables:
        configs = None if sweeps is None else set(plans.table["config"].to_pylist())
        trials = source.read_trials(configs)
    if sweeps is not None:
        trials = replace(trials, table=_without_others(trials.table, plans.table))
    planned, ended = told_apart(plans.table, trials.table)
    if sweeps is not None:
        ended = with_one_of(ended, "config", planned["config"].to_pylist())
    own = own_metrics(infos, _axes(planned, PLAN.fixed))
    of_all = (*selection.damaged, *plans.damaged, *trials.damaged)
    loaded = Loaded(planned, *parted(ended), own, of_all)
    axes = (*loaded.plan_axes, *loaded.trial_axes)
    if taken := _OWN.intersection(axes):
        raise UserError(
            f"fields named {', '.join(sorted(taken))}: `cells` has such columns; rename them"
        )
    _refuse_two_spellings((*PLAN.fixed, *TRIALS.fixed, *axes, *own))
    return loaded


def told_apart(plans: pa.Table, trials: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Returns the tables with a `config` that differs wherever the names of tasks or models do.

    In sweepd 0.1.0 `config` left out the file of a user's class, so two classes of one name in two
    files have it in common.
    """
    named = ["config", "task", "model"]
    if plans.num_rows + trials.num_rows < 2:
        return plans, trials
    together = pa.concat_tables([plans.select(named), trials.select(named)]).combine_chunks()
    configs, tasks, models = key_numbers(together, named)
    classes = tasks.astype(np.int64) * (models.max(initial=0) + 1) + models
    both = configs.astype(np.int64) * (classes.max(initial=0) + 1) + classes
    if _distinct(both) == _distinct(configs):
        return plans, trials
    of_config = defaultdict(set)
    for config, *rest in _rows(together, named):
        of_config[config].add(tuple(rest))
    shared = {config for config, classes_of_it in of_config.items() if len(classes_of_it) > 1}

    def renamed(table: pa.Table) -> pa.Table:
        told = [" ".join(row) if row[0] in shared else row[0] for row in _rows(table, named)]
        return with_column(table, "config", column(told, TEXT))

    return renamed(plans), renamed(trials)


def _distinct(numbers: Numbers) -> int:
    """Returns how many different numbers these are. np.unique would import numpy.ma for it."""
    return len(numbers) and 1 + int(np.count_nonzero(np.diff(np.sort(numbers))))


def _axes(table: pa.Table, known: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in table.column_names if name not in known)


def _rows(table: pa.Table, columns: Sequence[str]) -> Iterable[tuple[str, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)


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
