"""Which of another store's sweeps a store lacks, and which version of a sweep counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import partial

import pyarrow as pa

from sweepd.errors import UserError
from sweepd.store.arrays import TEXT, column
from sweepd.store.merging import MergeStep
from sweepd.store.schema import with_column
from sweepd.store.storage import Damaged, checked
from sweepd.store.sweeps import SweepFolder, SweepInfo, accepting
from sweepd.store.tables import Read

JOINED = ("created", "base", "code_files", "own_classes", "sources", "accepted", "accepted_for")
"""The fields of SweepInfo in which two versions of a sweep may differ: where it was launched, with
which files, and which earlier versions of the code were accepted. What both say is kept."""


def sweeps(
    ours: SweepFolder, theirs: SweepFolder, renamed: Mapping[str, str], damaged: list[Damaged]
) -> list[MergeStep]:
    """Returns the steps that bring sweeps of theirs here. `damaged` gets those that cannot be read.

    A sweep that both stores have under one name is the same if it differs in JOINED alone. If one
    store went on with the other's sweep, the version that plans all trials of the other is kept.
    Where our `sweep.json` or our plan is damaged, theirs of the same grid is brought if it has all
    that is left of ours. Raises UserError where they differ
    otherwise, where two sweeps would get one name, and for a new name of a sweep that is not there.
    """
    infos, unreadable = theirs.readable()
    damaged += unreadable
    if unknown := set(renamed).difference(infos):
        theirs.load(min(unknown))  # raises, and says which sweeps there are
    names = [checked(renamed.get(name, name)) for name in infos]
    if clashing := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"--rename: two sweeps would be called {clashing[0]}; choose another name")
    return list(_steps(ours, theirs, infos, renamed, damaged))


def _steps(
    ours: SweepFolder,
    theirs: SweepFolder,
    infos: Mapping[str, SweepInfo],
    renamed: Mapping[str, str],
    damaged: list[Damaged],
) -> Iterator[MergeStep]:
    there, (readable, unreadable) = set(ours.names()), ours.readable()
    for name, info in infos.items():
        called = renamed.get(name, name)
        plan = theirs.read_plans([name])
        damaged += plan.damaged
        if plan.damaged:
            continue
        table = _called(plan.table, called)
        if called not in there:
            yield _step(ours, called, theirs.load_grid(name), info, table)
            continue
        mine, my_plan = readable.get(called), ours.read_plans([called])
        if mine is None or my_plan.damaged:
            same = ours.load_grid(called) == (grid := theirs.load_grid(name))
            if same and _covers(info, table, mine, my_plan):
                kept = info if mine is None else _with_files_of(info, mine)
                yield _step(ours, called, grid, kept, table)
            else:
                damaged += my_plan.damaged
                damaged += (one for one in unreadable if f"sweeps/{called}/" in one.path)
        elif _newer(mine, my_plan.table, info, table, called):
            grid, newer = theirs.load_grid(name), _with_files_of(mine, info)
            yield _step(ours, called, grid, newer, table)
        elif (joined := _with_files_of(info, mine)) != mine:
            yield _step(ours, called, ours.load_grid(called), joined, my_plan.table)


def _covers(info: SweepInfo, plan: pa.Table, mine: SweepInfo | None, my_plan: Read) -> bool:
    """Returns whether a sweep of theirs is all that ours was before its `sweep.json` (`mine` is
    None) or its plan was damaged, as far as the other one of the two tells."""
    if mine is None:
        return not my_plan.damaged and _trials(my_plan.table) <= _trials(plan)
    same = mine.created == info.created and not _differing(mine, info)
    return same and mine.code_files.keys() <= info.code_files.keys()


def _step(ours: SweepFolder, name: str, grid: str, info: SweepInfo, plan: pa.Table) -> MergeStep:
    return MergeStep("sweeps", 1, partial(ours.write, name, grid, info, plan))


def _newer(mine: SweepInfo, my_plan: pa.Table, other: SweepInfo, plan: pa.Table, name: str) -> bool:
    """Returns whether the other version of a sweep is the one to keep. Raises UserError if that
    cannot be told."""
    my_trials, trials = _trials(my_plan), _trials(plan)
    differing = _differing(mine, other)
    if my_trials == trials and not differing:
        return False
    if mine.created == other.created and my_trials != trials:
        if my_trials <= trials:
            return True
        if trials <= my_trials:
            return False
    what = ", ".join([*differing, *(["trials"] if my_trials != trials else [])])
    raise UserError(
        f"sweep {name}: both stores have one of this name, and they differ in their {what}. "
        f"Bring theirs under another name: --rename {name}=NEW"
    )


def _differing(mine: SweepInfo, other: SweepInfo) -> list[str]:
    return [
        field.name
        for field in fields(SweepInfo)
        if field.name not in JOINED and getattr(mine, field.name) != getattr(other, field.name)
    ]


def _trials(plan: pa.Table) -> set[tuple[str, bool]]:
    """Returns the ids of the planned trials, each with whether the trial runs on demand."""
    on_demand = (bool(value) for value in plan["on_demand"].to_pylist())
    return set(zip(plan["id"].to_pylist(), on_demand, strict=True))


def _with_files_of(earlier: SweepInfo, info: SweepInfo) -> SweepInfo:
    """Returns a sweep that also knows the files and classes of an earlier version of it, and
    accepts what that one did."""
    kinds = {*earlier.own_classes, *info.own_classes}
    return replace(
        info,
        code_files={**earlier.code_files, **info.code_files},
        sources={**earlier.sources, **info.sources},
        **accepting(earlier.acceptances(), info.acceptances()),
        own_classes={
            kind: {**earlier.own_classes.get(kind, {}), **info.own_classes.get(kind, {})}
            for kind in sorted(kinds)
        },
    )


def _called(plan: pa.Table, name: str) -> pa.Table:
    return with_column(plan, "sweep", column([name] * plan.num_rows, TEXT))
