"""What commands print: tables, JSON and CSV of the same rows."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from typing import Any

import pytest

from sweepd.cli.output import emit, form_of
from sweepd.errors import UserError
from sweepd.listing import listing

COLUMNS = ["name", "value", "ok", "at"]
ROWS: list[dict[str, Any]] = [
    {"name": "a", "value": 0.123456, "ok": True, "at": datetime(2026, 1, 2, 3, 4, 5)},
    {"name": "long name", "value": None, "ok": False},
    {"name": "b", "value": float("inf"), "ok": None},
]


def test_a_table_is_aligned() -> None:
    assert listing(COLUMNS, ROWS)[0].splitlines() == [
        "name        value  ok   at",
        "a          0.1235  yes  2026-01-02 03:04:05",
        "long name          no",
        "b             inf",
    ]


def test_json_has_every_column_and_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    emit(COLUMNS, ROWS, "json")
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [list(row) for row in found] == [COLUMNS] * 3
    assert found[0]["at"] == "2026-01-02T03:04:05"
    assert found[2]["value"] is None


def test_csv_has_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    emit(COLUMNS, ROWS, "csv")
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in found] == ["a", "long name", "b"]


def test_no_rows_is_still_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    emit(COLUMNS, [], "csv")
    assert capsys.readouterr().out == "name,value,ok,at\n"
    emit(COLUMNS, [], "json")
    assert json.loads(capsys.readouterr().out) == []


def test_one_form_at_a_time() -> None:
    with pytest.raises(UserError):
        form_of(as_json=True, as_csv=True)
