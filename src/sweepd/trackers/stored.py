"""Hands on to a tracker what a store has."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from sweepd.listing import Row
from sweepd.query.cells_sql import quoted
from sweepd.query.database import Views
from sweepd.store.storage import Damaged
from sweepd.trackers.base import TrackedRun, Tracker

LOGGED = ("loss", "acc", "lr", "tokens", "seconds", "train_flops")
FINAL = ("loss", "acc", "chain_acc", "train_flops", "seconds")
COSTS = ("seed", "size", "L", "params", "flops", "code")


def hand_over(views: Views, tracker: Tracker) -> tuple[int, tuple[Damaged, ...]]:
    """Tells a tracker of all trials that ended, with their learning curves. Returns how many trials
    these are, and the files of metrics that were skipped."""
    damaged = views.prepare("metrics")
    varying = _varying(views)
    told_of = ["id", "sweep", "task", "model", *views.axes, *COSTS, *FINAL, *views.own]
    names = list(dict.fromkeys(told_of))
    ended = {row["id"]: row for row in _rows(views, "trials", [*names, "status"], "id")}
    curves = _rows(views, "metrics", ["id", "step", *LOGGED, *views.own], "id, step")
    told: set[str] = set()
    for id_, curve in groupby(curves, key=itemgetter("id")):
        if id_ in ended:
            told.add(id_)
            _tell(tracker, ended[id_], run_of(ended[id_], varying, views.axes), curve, views.own)
    for id_ in ended.keys() - told:
        _tell(tracker, ended[id_], run_of(ended[id_], varying, views.axes), (), views.own)
    tracker.close()
    return len(ended), damaged


def run_of(row: Row, varying: Sequence[str], axes: Sequence[str]) -> TrackedRun:
    """Returns a trial as trackers know it. varying: the axes that are part of its name."""
    fields = [f"{name}={row[name]}" for name in varying if row[name] is not None]
    shown = " ".join([row["task"], row["model"], *fields, f"seed={row['seed']}"])
    names = ("task", "model", *axes, *COSTS)
    settings = {name: row[name] for name in names if row.get(name) is not None}
    return TrackedRun(row["id"], shown, row["sweep"], settings)


def numbers(row: Row, names: Iterable[str]) -> dict[str, float]:
    """Returns those of the named values that are finite numbers."""
    found = {name: row.get(name) for name in names}
    return {
        name: float(value)
        for name, value in found.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _tell(
    tracker: Tracker, ended: Row, run: TrackedRun, curve: Iterable[Row], own: Iterable[str]
) -> None:
    """Tells a tracker of one trial that ended. own: the metrics of users' own tasks and loops."""
    tracker.begin(run)
    for row in curve:
        if values := numbers(row, (*LOGGED, *own)):
            tracker.log(run, row["step"], values)
    tracker.end(run, ended["status"], numbers(ended, (*FINAL, *own)))


def _varying(views: Views) -> list[str]:
    """Returns the axes of which the trials have several values."""
    if not views.axes:
        return []
    counts = ", ".join(f"count(DISTINCT {quoted(name)})" for name in views.axes)
    [found] = views.fetch(f"SELECT {counts} FROM trials")
    return [name for name, count in zip(views.axes, found, strict=True) if count > 1]


def _rows(views: Views, view: str, names: Sequence[str], order: str) -> Iterator[Row]:
    """Yields the rows of a view, which are fetched a few at a time."""
    selected = ", ".join(map(quoted, names))
    for rows in views.batches(f"SELECT {selected} FROM {view} ORDER BY {order}"):
        yield from (dict(zip(names, row, strict=True)) for row in rows)
