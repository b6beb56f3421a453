"""What questions read of a store. Telling classes apart that share a `config`, as in stores of
0.1.0, is compared with a slow twin. Covers `query/sandbox.py`."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import duckdb
import pytest
from fake_store import FakeStore, planned
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.query.loaded import load, told_apart
from sweepd.query.sandbox import open_ahead, sandbox
from sweepd.query.source import Selection
from sweepd.store.schema import PLAN, TRIALS

CLASSES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"])),
    max_size=8,
)
"""The configs, tasks and models of some trials."""


def rows(classes: list[tuple[int, str, str]]) -> list[dict[str, Any]]:
    return [
        planned(seed=i) | {"config": f"c{config}", "task": task, "model": model, "sweep": "s"}
        for i, (config, task, model) in enumerate(classes)
    ]


@settings(max_examples=100)
@given(CLASSES, CLASSES)
def test_configs_that_classes_share_are_told_apart(
    planned_ones: list[tuple[int, str, str]], ended_ones: list[tuple[int, str, str]]
) -> None:
    classes_of = defaultdict(set)
    for config, *names in planned_ones + ended_ones:
        classes_of[config].add(tuple(names))

    def expected(classes: list[tuple[int, str, str]]) -> list[str]:
        return [
            f"c{config} {task} {model}" if len(classes_of[config]) > 1 else f"c{config}"
            for config, task, model in classes
        ]

    endings = [row | {"attempt": 1} for row in rows(ended_ones)]
    plans, trials = told_apart(PLAN.table(rows(planned_ones)), TRIALS.table(endings))
    assert plans["config"].to_pylist() == expected(planned_ones)
    assert trials["config"].to_pylist() == expected(ended_ones)


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


def test_a_sandbox_that_was_opened_ahead_is_taken_once_and_reaches_nothing(tmp_path: Any) -> None:
    open_ahead()
    open_ahead()
    first, second = sandbox(), sandbox()
    first.execute("CREATE TABLE mine AS SELECT 1")
    for con in (first, second):
        with pytest.raises(duckdb.PermissionException):
            con.execute(f"COPY (SELECT 1) TO '{tmp_path}/outside.csv'")
    with pytest.raises(duckdb.CatalogException):
        second.execute("FROM mine")
