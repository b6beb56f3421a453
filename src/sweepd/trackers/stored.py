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
    own, varying = tuple(views.own), []
    if views.trial_axes:  # those with several values name the trials
        counts = ", ".join(f"count(DISTINCT {quoted(name)})" for name in views.trial_axes)
        [values] = views.fetch(f"SELECT {counts} FROM trials")
        varying = [name for name, count in zip(views.trial_axes, values, strict=True) if count > 1]
    names = dict.fromkeys(["id", "sweep", "task", "model", *views.trial_axes, *COSTS, *FINAL, *own])
    ended = {row["id"]: row for row in _rows(views, "trials", [*names, "status"], "id")}
    count = len(ended)

    def curves() -> Iterator[tuple[str, Iterable[Row]]]:
        steps = _rows(views, "metrics", ["id", "step", *LOGGED, *own], "id, step")
        yield from groupby(steps, key=itemgetter("id"))
        yield from [(id_, ()) for id_ in ended]  # what is left has no learning curve

    for id_, curve in curves():
        if row := ended.pop(id_, None):
            run = run_of(row, varying, views.trial_axes)
            tracker.begin(run)
            for step in curve:
                if scores := numbers(step, (*LOGGED, *own)):
                    tracker.log(run, step["step"], scores)
            tracker.end(run, row["status"], numbers(row, (*FINAL, *own)))
    tracker.close()
    return count, damaged


def run_of(row: Row, varying: Sequence[str], axes: Sequence[str]) -> TrackedRun:
    """Returns a trial as trackers know it. varying: the axes that are part of its name."""
    fields = [f"{name}={row[name]}" for name in varying if row[name] is not None]
    shown = " ".join([row["task"], row["model"], *fields, f"seed={row['seed']}"])
    names = ("task", "model", *axes, *COSTS)
    settings = {name: row[name] for name in names if row.get(name) is not None}
    return TrackedRun(row["id"], shown, row["sweep"], settings)


def numbers(row: Row, names: Iterable[str]) -> dict[str, float]:
    """Returns those of the named values that are finite numbers."""
    values = ((name, row.get(name)) for name in names)
    return {n: float(v) for n, v in values if isinstance(v, int | float) and math.isfinite(v)}


def _rows(views: Views, view: str, names: Sequence[str], order: str) -> Iterator[Row]:
    """Yields the rows of a view, which are fetched a few at a time."""
    selected = ", ".join(map(quoted, names))
    for rows in views.batches(f"SELECT {selected} FROM {view} ORDER BY {order}"):
        yield from (dict(zip(names, row, strict=True)) for row in rows)
