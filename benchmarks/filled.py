"""A store of trials that have all ended, with metrics in compacted files as a driver leaves them.
Several benchmarks ask of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from sweepd.grid.plan import Plan
from sweepd.grid.trials import Trial
from sweepd.run.driver import sweep_info
from sweepd.store.schema import METRICS, TRIALS
from sweepd.store.store import Store
from sweepd.store.tables import MOST_ROWS, TableFolder
from sweepd.trial.attempt import ledger_columns

LOG_EVERY, CHECK_EVERY = 10, 100
FILES_A_WAVE = 4
LONG_AGO = time.time() - 3600
"""When files were written of which something is kept, in seconds since 1970."""
Scores = Callable[[Trial, np.random.Generator], Mapping[str, float]]
"""Columns of scores with which a trial ends."""


def fill(address: str, name: str, made: Plan, rows: int, scores: Scores) -> None:
    """Makes a store of a plan's trials, all ended, each with `rows` rows of metrics. A store that
    is there already is left as it is."""
    store = Store.create(address)
    if store.sweeps():
        return
    store.save_sweep(name, made.grid.resolved_text(), sweep_info(made), made.rows())
    rng = np.random.default_rng(0)
    with patch.object(os, "fsync"):  # no reader pays for it
        ended = [
            {
                **ledger_columns(trial, 1000, name),
                "status": "completed",
                "total": 1024,
                "step": rows * LOG_EVERY,
                **scores(trial, rng),
            }
            for trial in made.trials
        ]
        _put(store.trials, TRIALS.table(ended))
        for table in waves([trial.id for trial in made.trials], rows, rng):
            _put(store.metrics, table)
    date(Path(address), LONG_AGO)  # nothing is kept of files that were just written


def date(folder: Path, written: float) -> None:
    """Says of all files of a folder that they were written then, in seconds since 1970."""
    for path in folder.rglob("*.*"):
        os.utime(path, (written, written))


def _put(folder: TableFolder, table: pa.Table) -> None:
    folder.add(*folder.pack(table))


def waves(ids: Sequence[str], steps: int, rng: np.random.Generator) -> Iterator[pa.Table]:
    """Yields the metrics of each file: a quarter of the steps of as many trials as make it full."""
    at_once = max(1, MOST_ROWS * FILES_A_WAVE // steps)
    for start in range(0, len(ids), at_once):
        for share in np.array_split(np.arange(1, steps + 1), FILES_A_WAVE):
            yield metrics(ids[start : start + at_once], share * LOG_EVERY, rng)


def metrics(ids: Sequence[str], steps: np.ndarray, rng: np.random.Generator) -> pa.Table:
    step = np.tile(steps, len(ids))
    count = len(step)
    which = pa.array(np.repeat(np.arange(len(ids), dtype=np.int32), len(steps)))
    loss = 3 * np.exp(-step / 5000) * rng.uniform(0.9, 1.1, count)
    columns = {
        "id": pa.DictionaryArray.from_arrays(which, pa.array(ids)).cast(pa.string()),
        "attempt": np.full(count, 1000),
        "step": step,
        "loss": loss.astype(np.float32).astype(np.float64),
        "acc": pa.array(rng.integers(0, 1025, count) / 1024, mask=step % CHECK_EVERY != 0),
        "chain_acc": pa.nulls(count, pa.float64()),
        "lr": 5e-3 * np.minimum(1.0, step / 1000),
        "tokens": step * 64 * 19,
        "seconds": step * 0.004 + rng.uniform(0, 0.01, count),
        "train_flops": step * 1.4e9,
    }
    return pa.table(columns, schema=pa.schema(METRICS.fixed.items()))
