"""Runs: what is known of the keys in a file of rows without its rows.

A run is a stretch of rows of one trial and attempt whose steps grow. A file sorted by its key has
one for each attempt, so an index of runs is a thousand times smaller than the rows. Two rows with
the same trial and step lie in two runs of that trial that overlap. So where no runs overlap,
every row counts, and nothing needs to be compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sweepd.store.arrays import INT, TEXT
from sweepd.store.schema import key_numbers, taken

RUNS = pa.schema({"id": TEXT, "attempt": INT, "first": INT, "last": INT})
"""The columns of a table of runs: the trial, its attempt, and the least and the greatest step of
the run."""
KEY = ("id", "attempt", "step")


def runs_of(rows: pa.Table) -> pa.Table:
    """Returns the runs, as RUNS, of rows with the columns of KEY. They are in the order of the
    rows."""
    if not rows.num_rows:
        return no_runs()
    ids, attempts, steps = key_numbers(rows, KEY)
    grows = (ids[1:] == ids[:-1]) & (attempts[1:] == attempts[:-1]) & (steps[1:] > steps[:-1])
    starts = np.flatnonzero(np.append(True, ~grows))
    ends = np.append(starts[1:], len(steps)) - 1
    first, last = taken(rows.select(KEY), starts), taken(rows.select(["step"]), ends)
    columns = [*first.columns, *last.columns]
    return pa.Table.from_arrays(columns, schema=RUNS)


def overlapping(runs: pa.Table) -> pa.Table:
    """Returns the trials, as a column `id`, of which two runs may share a step. Some come more
    than once.

    Sorted by their first steps, the runs of a trial are apart if each is apart from the next.
    """
    if runs.num_rows < 2:
        return runs.select(["id"]).slice(0, 0)
    ids, first, last = key_numbers(runs, ("id", "first", "last"))
    order = np.lexsort((first, ids))
    same = ids[order][1:] == ids[order][:-1]
    meets = first[order][1:] <= last[order][:-1]
    return taken(runs.select(["id"]), order[1:][same & meets])


def no_runs() -> pa.Table:
    return pa.Table.from_batches([], RUNS)


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Returns the runs of several files as one table."""
    return pa.concat_tables([no_runs(), *parts])
