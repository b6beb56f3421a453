"""Finds what may be deleted of a store. That is never a row that is nowhere else, nor what a
driver may need."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

import pyarrow as pa

from sweepd.statuses import DONE
from sweepd.store.endings import statuses
from sweepd.store.names import Checkpoint
from sweepd.store.storage import File, Folder
from sweepd.store.tables import TableFolder

KINDS = {
    "replaced": "files whose rows a compacted file holds",
    "leftover": "halves of files, of writers that died",
    "ended": "checkpoints of trials that have ended",
    "kept": "checkpoints kept for longer trials, which without them start anew",
}


@dataclass(frozen=True)
class Garbage:
    """An object that may be deleted. kind: one of KINDS. name: its name in its store. size: its
    size in bytes."""

    kind: str
    name: str
    size: int


def find(
    folder: Folder,
    tables: Iterable[TableFolder],
    trials: pa.Table,
    in_use: Collection[str],
    plans: pa.Table,
    written_until: float,
) -> list[Garbage]:
    """Returns all garbage that was written until a time by the folder's clock.

    `trials` tells which trials have ended. `in_use` names the trunks of sweeps that a driver
    runs. `plans` holds the trials of all sweeps, because states from which one may still train
    for longer are kept.
    """
    found: list[tuple[str, str, File]] = []
    for table in tables:
        found += [("replaced", table.layout.name, f) for f in table.replaced(written_until)]
    found += [("leftover", "", file) for file in folder.asides()]
    found += [
        (kind, "checkpoints", file)
        for kind, file in _checkpoints(folder.files("checkpoints"), trials, plans, in_use)
    ]
    return [
        Garbage(kind, f"{below}/{file.name}".lstrip("/"), file.size)
        for kind, below, file in found
        if file.written <= written_until
    ]


def _checkpoints(
    files: Iterable[File], trials: pa.Table, plans: pa.Table, in_use: Collection[str]
) -> Iterator[tuple[str, File]]:
    status_of = statuses(trials)
    longest = _longest(plans, status_of)
    for file in files:
        trunk, _, name = file.name.partition("/")
        checkpoint = Checkpoint.parse(name)
        if not checkpoint or trunk in in_use:
            continue
        status = status_of.get(checkpoint.trial)
        if checkpoint.kept and checkpoint.step < longest.get(trunk, 0):
            continue
        if checkpoint.kept or status == "stopped":
            yield "kept", file
        elif status in DONE:
            yield "ended", file


def _longest(plans: pa.Table, status_of: Mapping[str, str]) -> dict[str, float]:
    """Returns, by trunk, the most steps of its planned trials that are still to run. They are
    infinite where a plan does not say how many."""
    steps = plans["steps"].to_pylist() if "steps" in plans.column_names else [None] * len(plans)
    longest: dict[str, float] = {}
    for id_, trunk, wanted in zip(
        plans["id"].to_pylist(), plans["trunk"].to_pylist(), steps, strict=True
    ):
        if status_of.get(id_) not in DONE:
            most = inf if wanted is None else wanted
            longest[trunk] = max(most, longest.get(trunk, 0))
    return longest
