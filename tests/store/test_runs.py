"""Runs, which are ranges of a trial's steps. Two rows of the same trial and step are always in runs
that overlap, whatever the order of the rows."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from sweepd.store.runs import RUNS, joined, no_runs, overlapping, runs_of
from sweepd.store.schema import METRICS

KEYS = st.tuples(st.sampled_from("ab"), st.sampled_from([1000, 2000]), st.integers(0, 5))


@given(st.lists(KEYS, max_size=12), st.integers(0, 12))
def test_runs_hold_every_row_once_and_meet_where_steps_do(
    keys: list[tuple[str, int, int]], cut: int
) -> None:
    """This also holds if the rows are in two files."""
    files = [keys[:cut], keys[cut:]]
    tables = [
        METRICS.table([dict(zip(("id", "attempt", "step"), key, strict=True)) for key in file])
        for file in files
    ]
    found = joined([runs_of(table) for table in tables])
    assert found.schema == RUNS
    runs = [tuple(row.values()) for row in found.to_pylist()]
    assert len(runs) <= len(keys)
    assert all(
        any(run[:2] == key[:2] and run[2] <= key[2] <= run[3] for run in runs) for key in keys
    )
    meets = {
        a[0] for a, b in combinations(runs, 2) if a[0] == b[0] and a[2] <= b[3] and b[2] <= a[3]
    }
    twice = {a[0] for a, b in combinations(keys, 2) if (a[0], a[2]) == (b[0], b[2])}
    assert twice <= meets == set(overlapping(found)["id"].to_pylist())


def test_a_sorted_file_has_a_run_for_each_attempt() -> None:
    rows = [
        {"id": id, "attempt": attempt, "step": step}
        for id in "ab"
        for attempt in (1000, 2000)
        for step in range(100)
    ]
    found = [tuple(row.values()) for row in runs_of(METRICS.table(rows)).to_pylist()]
    assert found == [(id, attempt, 0, 99) for id in "ab" for attempt in (1000, 2000)]
    assert runs_of(METRICS.table([])).equals(no_runs())
