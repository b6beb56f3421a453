"""What questions read of a store before they ask it: its sweeps, their plans, and the endings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

import pyarrow as pa

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.metrics import Better
from sweepd.grid.options import OF_CELLS
from sweepd.query.cells_sql import SCORES
from sweepd.store.endings import parted
from sweepd.store.schema import PLAN, TRIALS
from sweepd.store.storage import Damaged, Unreachable
from sweepd.store.store import Store
from sweepd.store.sweeps import SweepInfo
from sweepd.store.tables import Live, Read

CodeChoice = Callable[[str, str], str | None] | Literal["all"]
"""The code whose trials count. "all" stands for every code, and then cells differ by code.

A function takes the names of a task and of a model, and returns the digest of the code that they
name now. Trials of that code count, and so do trials of the codes that were accepted in its place.
Where the function returns None, since the present code cannot be found, the newest ending of each
trial counts.
"""
_OWN = frozenset({*OF_CELLS, *SCORES})
"""The columns of `raw.cells` that are neither axes nor columns of trials. No axis may have such a
name."""


class Source(Protocol):
    """What questions need of a store."""

    @property
    def address(self) -> str: ...
    def sweeps(self) -> list[str]: ...
    def load_sweep(self, name: str) -> SweepInfo: ...
    def load_grid(self, name: str) -> str: ...
    def read_plans(self, sweeps: list[str] | None) -> Read: ...
    def read_trials(self, configs: Collection[str] | None = None) -> Read: ...
    def live_metrics(self, ids: Collection[str] | None = None) -> Live: ...


@dataclass(frozen=True)
class Selection:
    """The sweeps that are asked about: some sweeps of a store, or all that it holds.

    infos: each sweep's sweep.json by its name, the oldest sweep first. damaged: those that cannot
    be read. whole_store: whether trials that are in no sweep's plan are asked about, too.
    """

    source: Source
    infos: Mapping[str, SweepInfo]
    damaged: tuple[Damaged, ...]
    whole_store: bool

    @classmethod
    def of(cls, source: Source, sweeps: Sequence[str] | None) -> Selection:
        """Returns these sweeps, or the whole store if `sweeps` is None.

        Over the whole store a damaged sweep.json is skipped. If its sweep was asked for by name, it
        raises EnvironmentFailure, as does a place that does not answer. Raises UserError for an
        unknown sweep.
        """
        infos: dict[str, SweepInfo] = {}
        damaged = []
        names = source.sweeps()
        if sweeps is not None:
            names = sorted(set(sweeps), key=lambda name: names.index(name) if name in names else -1)
        for name in names:
            try:
                infos[name] = source.load_sweep(name)
            except Unreachable:
                raise  # nothing is known of it, so an answer without it would be wrong
            except EnvironmentFailure as error:
                if sweeps is not None:
                    raise
                damaged.append(Damaged(f"sweep {name}", str(error)))
        return cls(source, infos, tuple(damaged), sweeps is None)


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
    own = own_metrics(infos, _axes(plans.table, PLAN.fixed))
    of_all = (*selection.damaged, *plans.damaged, *trials.damaged)
    loaded = Loaded(plans.table, *parted(trials.table), own, of_all)
    axes = (*loaded.plan_axes, *loaded.trial_axes)
    if taken := _OWN.intersection(axes):
        raise UserError(
            f"fields named {', '.join(sorted(taken))}: `cells` has such columns; rename them"
        )
    _refuse_two_spellings((*PLAN.fixed, *TRIALS.fixed, *axes, *own))
    return loaded


def own_metrics(infos: Mapping[str, SweepInfo], plan_axes: Collection[str]) -> dict[str, Better]:
    """Returns the metrics of users' own tasks and loops, and which way each is better. Raises
    UserError where sweeps do not agree on one."""
    found: dict[str, Better] = {}
    for sweep, info in infos.items():
        for name, better in info.metrics.items():
            if name in plan_axes or found.get(name, better) != better:
                other = "a field" if name in plan_axes else f"better {found[name]}"
                raise UserError(
                    f"{name} is a metric, better {better}, in sweep {sweep} and {other} in "
                    "another: ask one sweep at a time (--sweep)"
                )
            found[name] = "up" if better == "up" else "down"
    return found


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


def codes(choice: Literal["current", "all"], store: Store) -> CodeChoice:
    """Returns what questions need to tell which code's trials count (`CodeChoice`).

    "all" counts the trials of every code. "current" counts those of the code that a sweep would run
    now. That code is looked for only once a question needs it.
    """
    if choice == "all":
        return "all"

    @cache
    def places() -> list[SweepInfo]:
        """Returns the store's sweeps, since a user's class is looked for where its grid was."""
        sweeps, _ = store.readable_sweeps()  # a damaged one is named by whoever needs it
        return sorted(sweeps.values(), key=lambda info: info.base)

    def current(task: str, model: str) -> str | None:
        from sweepd.grid.fingerprint import current_code  # which takes a while

        for info in places():
            if found := current_code(info.classes_of(task, model), Path(info.base)):
                return found.digest
        return None

    return current
