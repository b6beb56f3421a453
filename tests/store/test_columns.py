"""Columns of Python values are those that pyarrow makes of them, and pandas is not imported."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.store.schema import BOOL, FLOAT, INT, NULL, TEXT, UTC_TIME, column, whole_numbers

TIMES = st.datetimes(
    datetime(1677, 9, 22), datetime(2262, 4, 11), timezones=st.sampled_from([None, UTC])
)
OF_TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    NULL: st.none(),
    BOOL: st.booleans(),
    INT: st.integers(-(2**63), 2**63 - 1),
    FLOAT: st.floats(allow_nan=False),
    TEXT: st.text(),
    UTC_TIME: TIMES,
}
NOON = datetime(2026, 1, 2, 12)
REFUSED: dict[pa.DataType, list[object]] = {
    NULL: [False, 7, 0.5, "text"],
    BOOL: [7, 0.5, "true", NOON],
    INT: [True, 2**63, -(2**63) - 1, 0.5, "7", NOON, [1]],
    FLOAT: ["0.5", NOON, [1]],
    TEXT: [True, 7, 0.5, NOON, [1], "\udce9"],
    UTC_TIME: [True, 7, 0.5, "2026-01-02", NOON.date(), [1]],
}


@pytest.mark.parametrize("kind", OF_TYPES, ids=str)
def test_a_column_is_pyarrows(kind: pa.DataType) -> None:
    @given(st.lists(st.none() | OF_TYPES[kind], max_size=20))
    def holds(values: list[Any]) -> None:
        found = column(values, kind)
        found.validate(full=True)
        assert found.equals(pa.array(values, kind))

    holds()


def test_nan_is_no_null() -> None:
    assert str(column([float("nan"), None], FLOAT).to_pylist()) == "[nan, None]"


def test_a_time_of_another_zone_is_told_in_utc() -> None:
    there = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    assert column([there], UTC_TIME).to_pylist() == [datetime(2026, 1, 1, 21, 34, 5, 6)]


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_what_a_type_cannot_hold_is_refused(kind: pa.DataType) -> None:
    for value in REFUSED[kind]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            column([None, value], kind)


def test_whole_numbers_of_numpy_are_a_column() -> None:
    assert whole_numbers(np.arange(5, dtype=np.int32)).equals(pa.array(range(5), INT))


WRITES = """
import sys
from datetime import UTC, datetime
from sweepd.store.store import Store
store = Store.create("results")
store.write_metrics([{"id": "a", "attempt": 1, "step": 1, "loss": 0.5, "seconds": 0.1}])
store.write_trials([{"id": "a", "attempt": 1, "n": 4, "decay": 0.5, "success": None, "cot": True,
                     "status": "completed", "started": datetime.now(UTC)}])
assert "pandas" not in sys.modules
"""


def test_writing_imports_no_pandas(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITES], cwd=tmp_path, check=True)
