"""Sweeps in a store, as a launch leaves them. They are planned or trained in this process, without
Ray."""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from stores.make import run as train

from sweepd.grid.plan import plan
from sweepd.grid.spec import load_grid
from sweepd.run import driver
from sweepd.store.store import Store


def save(store: Store, grid: Path, overrides: Sequence[str]) -> None:
    """Plan a sweep, of which nothing has run yet."""
    driver._save(plan(load_grid(grid, overrides)), store)


def run(store: Store, grid: Path, overrides: Sequence[str] = ()) -> str:
    """Train all trials of a grid by the real trainer. Returns the id of one."""
    planned = plan(load_grid(grid, overrides))
    name = planned.grid.name
    driver._save(planned, store)
    number = store.new_launch({"sweep": name, "host": socket.gethostname(), "pid": os.getpid()})
    for trial in planned.planned:
        train(store, trial, number * 1000, name, planned.grid.base)
    statuses = store.read_trials().table["status"].to_pylist()
    assert set(statuses) <= {"completed", "solved"}
    return planned.trials[0].id
