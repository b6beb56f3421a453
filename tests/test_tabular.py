"""Answers as tables: rows and columns, Arrow, pandas, and what people and notebooks see."""

from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

from sweepd.tabular import MOST_SHOWN, Table, table_of

ROWS: list[dict[str, Any]] = [
    {"model": "linear", "value": 8, "acc": 0.93},
    {"model": "<b>", "value": None, "acc": 0.5},
]


def table(rows: list[dict[str, Any]] | None = None) -> Table:
    return Table(table_of(["model", "value", "acc"], ROWS if rows is None else rows), ["a note"])


def test_rows_and_columns() -> None:
    found = table()
    assert found.columns == ["model", "value", "acc"] and len(found) == 2
    assert list(found) == ROWS and found[0] == ROWS[0] and found["value"] == [8, None]
    with pytest.raises(KeyError):
        found["d"]


def test_other_libraries_take_it_as_it_is() -> None:
    found = table()
    assert pa.table(found).to_pylist() == ROWS
    assert duckdb.execute("SELECT max(acc) FROM found").fetchall() == [(0.93,)]
    assert found.to_pandas()["model"].tolist() == ["linear", "<b>"]
    assert found.to_polars().to_dicts() == polars.DataFrame(found).to_dicts() == ROWS


def test_values_of_several_types_become_text() -> None:
    assert table_of(["x"], [{"x": 1}, {"x": "a"}, {}]).to_pylist() == [
        {"x": "1"}, {"x": "a"}, {"x": None},
    ]  # fmt: skip


def test_people_see_the_table_of_the_command_line() -> None:
    assert repr(table()) == "model   value   acc\nlinear      8  0.93\n<b>             0.5"
    assert repr(Table(table().arrow, shown="in other words")) == "in other words"


def test_a_notebook_sees_html_in_which_nothing_can_run() -> None:
    html = table()._repr_html_()
    assert "<b>" not in html and "&lt;b&gt;" in html and "a note" in html
    assert "<pre>a &lt; b</pre>" in Table(table().arrow, shown="a < b")._repr_html_()


def test_of_many_rows_some_are_shown() -> None:
    many = table([{"model": "linear", "value": i, "acc": 0.1} for i in range(MOST_SHOWN + 2)])
    assert repr(many).endswith("… and 2 more rows")
    assert many._repr_html_().count("<tr>") == MOST_SHOWN + 1


def test_an_answer_without_rows() -> None:
    assert len(table([])) == 0 and table([]).columns == ["model", "value", "acc"]
    assert repr(table([])) == "model  value  acc"
