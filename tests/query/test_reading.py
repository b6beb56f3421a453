"""What questions read of a store, and where they are answered."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from fake_store import FakeStore, planned

from sweepd.query.reading import Selection, load
from sweepd.query.sandbox import sandbox


def test_of_some_sweeps_the_endings_of_other_sweeps_are_left_out() -> None:
    store = FakeStore()
    for name, d in (("one", 8), ("two", 16)):
        store.add_sweep(name, [planned(d=d)])
        store.end(planned(d=d), "completed", 0.5)
    store.end(planned(d=8), "interrupted", attempt=999)
    one = load(Selection.of(store, ["one"]))
    assert one.trials["d"].to_pylist() == one.superseded["d"].to_pylist() == [8]
    assert one.trials["attempt"].to_pylist() == [1000]
    assert load(Selection.of(store, None)).trials.num_rows == 2
    of_all = Selection.of(store, None)
    none, ended = load(of_all, ()), load(of_all, ["trials"])
    assert set(of_all.infos) == {"one", "two"} and not none.plans.num_rows + none.trials.num_rows
    assert (ended.plans.num_rows, ended.trials.num_rows) == (0, 2)


def test_a_sandbox_reaches_nothing_outside_itself(tmp_path: Any) -> None:
    first, second = sandbox(), sandbox()
    first.execute("CREATE TABLE mine AS SELECT 1")
    for con in (first, second):
        with pytest.raises(duckdb.PermissionException):
            con.execute(f"COPY (SELECT 1) TO '{tmp_path}/outside.csv'")
    with pytest.raises(duckdb.CatalogException):
        second.execute("FROM mine")
