"""A launch without Ray: what a driver and its worker write, in one process and in the same order.

It has two trials of one trunk, so the second starts where the first left off. They write metrics,
checkpoints, and one checkpoint that is kept. After them everything is compacted, and the garbage is
collected.
"""

import json
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.search.ledger import standing
from sweepd.store import garbage
from sweepd.store.store import Store, SweepInfo
from sweepd.trial import attempt
from sweepd.trial.attempt import Attempt

GRID = """
name: tiny
task:  {name: lis, n: 2, value_range: 64}
model: {name: standard, d: 4, layers: 1, heads: 1, dropout: 0.1}
train: {steps: [10, 20], batch_size: 2, warmup: 5}
evaluate: {check_every: 5, check_samples: 8, verdict_samples: 8}
"""
EVERY_STEP = 0.0
"""Seconds between checkpoints: one after each step of training, so that two runs take the same
steps of writing."""


@cache
def planned() -> Plan:
    return plan(parse_grid(GRID, "tiny.yaml", [], Path()))


def run(root: Path, told: Path, checkpoint_seconds: float = EVERY_STEP) -> None:
    """Launch, or continue. `told` is a file outside the store that gets, as a line of JSON, the
    key of each metric row and each ending once the call that wrote it has returned."""
    torch.set_num_threads(1)
    attempt.FLUSH_SECONDS = 0.0  # rows also reach the store without a checkpoint
    store = _telling(Store.create(str(root)), told)
    trials = planned().trials
    store.save_sweep("tiny", GRID, SweepInfo(goal="acc > 0.9"), [t.row() for t in trials])
    launch = store.new_launch({"sweep": "tiny", "host": str(root)})  # what tells launches apart
    assert len(store.claim([trial.id for trial in trials])) == len(trials)
    for trial in sorted(trials, key=lambda trial: trial.train.steps):
        if trial in standing(trials, store.read_trials().table).todo:
            running = Attempt(
                store, trial, launch * 1000, "tiny", Path(), "cpu", checkpoint_seconds
            )
            running.begin()
            while running.status is None:
                running.advance(0.01)
            assert running.status == "completed", running.report()
    store.compact()
    garbage.delete(store, [one for one in garbage.find(store, 0) if one.kind != "kept"], 0)


def _telling(store: Store, told: Path) -> Store:
    descriptor = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def then_tell(write: Callable[[Any], None], *key: str) -> Callable[[Any], None]:
        def both(rows: list[dict[str, Any]]) -> None:
            write(rows)
            lines = [json.dumps([row[name] for name in key]) for row in rows]
            os.write(descriptor, "".join(f"{line}\n" for line in lines).encode())

        return both

    store.write_metrics = then_tell(store.write_metrics, "id", "attempt", "step")  # type: ignore[method-assign, assignment]
    store.write_trials = then_tell(store.write_trials, "id", "attempt")  # type: ignore[method-assign, assignment]
    return store


def keys_told(told: Path) -> Iterator[tuple[Any, ...]]:
    for line in told.read_text().splitlines() if told.exists() else ():
        yield tuple(json.loads(line))
