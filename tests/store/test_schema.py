"""Columns and their types: rows become tables, tables with different axes become one, and of rows
with the same key one is kept.

The law: tables that are put together, in any grouping and order, give the same table as all rows at
once. That is why files can be compacted. Columns of Python values are those that pyarrow makes of
them, and pandas is not imported.
"""

import math
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.store import schema
from sweepd.store.schema import METRICS, PLAN, TRIALS, Layout, column

AXES = ("n", "success", "decay", "schedule")
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)
VALUES = st.none() | st.booleans() | NUMBERS | st.text(max_size=5)
ROWS = st.lists(
    st.dictionaries(st.sampled_from(AXES), VALUES | st.integers(0, 3) | st.sampled_from([0.5, 2.0]))
)


def numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": f"{i:04x}", "attempt": 1, "step": i, **row} for i, row in enumerate(rows)]


def by_column(table: pa.Table) -> dict[str, tuple[pa.DataType, list[Any]]]:
    """Order of rows and of columns aside."""
    table = table.sort_by("step")
    return {name: (table[name].type, table[name].to_pylist()) for name in table.column_names}


@settings(max_examples=150)
@given(ROWS, st.lists(st.integers(0, 20), max_size=4), st.randoms())
def test_concat_in_any_grouping_is_one_table_of_all_rows(
    rows: list[dict[str, Any]], cuts: list[int], random: Random
) -> None:
    rows = numbered(rows)
    cuts = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    tables = [METRICS.table(rows[a:b]) for a, b in pairwise(cuts)]
    random.shuffle(tables)
    while len(tables) > 1:
        size = random.randint(2, len(tables))
        tables = [METRICS.concat(tables[:size]), *tables[size:]]
    assert by_column(METRICS.concat(tables)) == by_column(METRICS.table(rows))


@settings(max_examples=100)
@given(st.lists(VALUES, min_size=1))
def test_axis_keeps_values_of_one_type_and_turns_a_mixture_into_the_narrowest(
    values: list[Any],
) -> None:
    column = METRICS.table(numbered([{"n": value} for value in values]))["n"]
    types = {type(value) for value in values} - {type(None)}
    if len(types) < 2:
        assert column.to_pylist() == values
    elif types == {int, float}:
        assert column.type == schema.FLOAT
        assert column.to_pylist() == values  # Python compares 1 and 1.0 as equal
    else:
        assert column.type == schema.TEXT
        texts = column.to_pylist()
        assert [text is None for text in texts] == [value is None for value in values]
        for value, text in zip(values, texts, strict=True):
            if isinstance(value, str):
                assert text == value
            elif isinstance(value, bool):
                assert text == ("true" if value else "false")
            elif value is not None:
                assert float(text) == value


def test_absent_columns_are_null_and_empty_tables_have_the_fixed_columns() -> None:
    table = TRIALS.table([{"id": "a", "attempt": 1000, "n": 8}])
    names, [row] = table.column_names, table.to_pylist()
    assert names[names.index("seed") + 1 : names.index("status")] == ["n"], "axes stand between"
    assert row.pop("n") == 8
    assert row == dict.fromkeys(TRIALS.fixed) | {"id": "a", "attempt": 1000}
    assert TRIALS.concat([]).schema == TRIALS.table([]).schema == pa.schema(TRIALS.fixed.items())


def test_fixed_columns_take_what_trials_really_bring() -> None:
    started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    row = {
        "id": "a",
        "attempt": 1000,
        "train_flops": 12 * 10**18,  # beyond int64 and, as a whole number, beyond float64's grid
        "loss": math.inf,
        "error": "cannot open caf\udce9.py",  # a lone surrogate, as in a path that is no UTF-8
        "started": started,
    }
    (read,) = TRIALS.table([row]).to_pylist()
    assert read["train_flops"] == 1.2e19
    assert read["loss"] == math.inf
    assert read["error"] == "cannot open caf?.py"
    assert read["started"] == started.replace(tzinfo=None)


TRIAL = {"id": "a", "attempt": 1}


@pytest.mark.parametrize(
    "layout, row, complaint",
    [(TRIALS, {**TRIAL, "n": n}, "n = ") for n in (2**53 + 1, 2**70, [8], {"base": 1}, b"x", 1j)]
    + [(TRIALS, {**TRIAL, name: value}, name) for name, value in (
        ("attempt", "x"), ("size", 1.5), ("seed", 2**64))]
    + [(layout, row, f"a row of {layout.name} has no") for layout, row in (
        (TRIALS, {"id": "a"}), (METRICS, TRIAL), (PLAN, {}))],
)  # fmt: skip
def test_values_of_another_type_and_rows_without_their_key_are_refused(
    layout: Layout, row: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        layout.table([row])


def test_files_from_before_a_column_was_added_are_read_and_others_refused() -> None:
    table = TRIALS.table([{"id": "a", "sweep": "s", "attempt": 1, "params": 5}])
    old = TRIALS.conform(table.drop_columns(list(TRIALS.added)))
    assert TRIALS.added and set(old.schema) == set(table.schema)
    assert TRIALS.concat([old, table]).to_pylist() == [*table.to_pylist(), *table.to_pylist()]
    with pytest.raises(ValueError, match="not a file of trials: no column params"):
        TRIALS.conform(table.drop_columns(["params", "card"]))


def foreign(**columns: pa.Array) -> pa.Table:
    table = METRICS.table([{"id": "a", "attempt": 1, "step": 1, "acc": 0.5}])
    for name, foreign_one in columns.items():
        position = table.schema.get_field_index(name)
        table = table.drop_columns([name]) if position >= 0 else table
        table = table.append_column(name, foreign_one)
    return table


def test_conform_widens_foreign_types() -> None:
    table = METRICS.conform(
        foreign(
            step=pa.array([1], pa.int32()),
            acc=pa.array([0.5], pa.float32()),
            id=pa.array(["a"]).dictionary_encode(),
            n=pa.array([8], pa.uint8()),
            schedule=pa.array(["wsd"], pa.large_string()),
            success=pa.nulls(1),
        )
    )
    assert {name: table.schema.field(name).type for name in ("n", "schedule", "success")} == {
        "n": schema.INT,
        "schedule": schema.TEXT,
        "success": schema.NULL,
    }
    assert METRICS.concat([table]).schema.field("step").type == schema.INT
    assert table["acc"].to_pylist() == [0.5]


@pytest.mark.parametrize(
    "table, complaint",
    [
        (pa.table({"a": [1]}), "no column acc, attempt"),
        (foreign(id=pa.nulls(1)), "has no id"),
        (foreign(step=pa.array(["x"])), "x"),
        (foreign(step=pa.array([1.5])), "1.5"),
    ],
)
def test_conform_refuses_what_is_something_else(table: pa.Table, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        METRICS.conform(table)


def test_huge_foreign_integers_do_not_stop_a_read() -> None:
    wide = METRICS.conform(foreign(n=pa.array([2**62 + 1])))
    assert METRICS.concat([wide, foreign(n=pa.array([0.5]))])["n"].to_pylist() == [2.0**62, 0.5]


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 5)), max_size=8)
)
def test_unique_keeps_the_row_that_ended_first(rows: list[tuple[str, int, int]]) -> None:
    table = TRIALS.table(
        [
            {"id": id, "attempt": attempt, "ended": datetime(2026, 1, 1 + day) if day else None}
            for id, attempt, day in rows
        ]
    )
    expected: dict[tuple[str, int], datetime | None] = {}
    for row in table.to_pylist():
        key, ended = (row["id"], row["attempt"]), row["ended"]
        best = expected.setdefault(key, ended)
        if ended and (best is None or ended < best):
            expected[key] = ended
    unique = TRIALS.unique(table).to_pylist()
    assert len(unique) == len(expected)
    assert {(row["id"], row["attempt"]): row["ended"] for row in unique} == expected


TIMES = st.datetimes(
    datetime(1677, 9, 22),
    datetime(2262, 4, 11),
    timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=5, minutes=30))]),
)
OF_TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    schema.NULL: st.none(),
    schema.BOOL: st.booleans(),
    schema.INT: st.integers(-(2**63), 2**63 - 1),
    schema.FLOAT: st.floats(),
    schema.TEXT: st.text(),
    schema.UTC_TIME: TIMES,
}
NOON = datetime(2026, 1, 2, 12)
REFUSED: dict[pa.DataType, list[object]] = {
    schema.NULL: [False, 7, 0.5, "text"],
    schema.BOOL: [7, 0.5, "true", NOON],
    schema.INT: [True, 2**63, -(2**63) - 1, 0.5, "7", NOON, [1]],
    schema.FLOAT: ["0.5", NOON, [1]],
    schema.TEXT: [True, 7, 0.5, NOON, [1], "\udce9"],
    schema.UTC_TIME: [True, 7, 0.5, "2026-01-02", NOON.date(), [1]],
}


@pytest.mark.parametrize("kind", OF_TYPES, ids=str)
def test_a_column_is_pyarrows(kind: pa.DataType) -> None:
    @given(st.lists(st.none() | OF_TYPES[kind], max_size=20))
    def holds(values: list[Any]) -> None:
        found = column(values, kind)
        found.validate(full=True)
        assert str(found.to_pylist()) == str(pa.array(values, kind).to_pylist()), "nan is no null"

    holds()


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_what_a_type_cannot_hold_is_refused(kind: pa.DataType) -> None:
    for value in REFUSED[kind]:
        with pytest.raises((TypeError, ValueError, OverflowError)):
            column([None, value], kind)
