"""What commands print: tables, JSON and CSV of the same rows. Covers `listing.py`."""

import csv
import io
import json
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.cli.output import emit, show, width
from sweepd.listing import listing
from sweepd.query.readable import StyledLine

COLUMNS = ["name", "value", "ok", "at"]
ROWS: list[dict[str, Any]] = [
    {"name": "a", "value": 0.123456, "ok": True, "at": datetime(2026, 1, 2, 3, 4, 5)},
    {"name": "long name", "value": None, "ok": False},
    {"name": "b", "value": float("inf"), "ok": None},
]


def test_a_table_is_aligned() -> None:
    text, left_out = listing(COLUMNS, ROWS)
    assert left_out == []
    assert text.splitlines() == [
        "name        value  ok   at",
        "a          0.1235  yes  2026-01-02 03:04:05",
        "long name          no",
        "b             inf",
    ]


def test_a_table_that_is_too_wide_is_folded_and_then_cut() -> None:
    rows = [{"id": 1, "why": "never trained at this size and rate", "acc": 0.5, "at": "x" * 40}]
    columns = ["id", "why", "acc", "at"]
    text, left_out = listing(columns, rows, 60)
    assert left_out == []
    assert text.splitlines() == [
        "id  why                       acc  at",
        " 1  never trained at this     0.5  " + "x" * 25,
        "    size and rate                  " + "x" * 15,
    ]
    text, left_out = listing(columns, rows, 30)
    assert left_out == ["at"]
    assert text.splitlines() == [
        "id  why                    acc",
        " 1  never trained at this  0.5",
        "    size and rate",
    ]


@given(
    st.lists(st.lists(st.text("ab c", max_size=40), min_size=3, max_size=3), min_size=1),
    st.integers(20, 120),
)
def test_a_table_fits_and_keeps_every_word(texts: list[list[str]], room: int) -> None:
    columns = ["one", "two", "three"]
    rows = [dict(zip(columns, row, strict=True)) for row in texts]
    text, left_out = listing(columns, rows, room)
    assert max(map(len, text.splitlines())) <= room
    kept = columns[: len(columns) - len(left_out)]
    assert columns == [*kept, *left_out] and kept
    shown = sorted(text.replace("\n", "").replace(" ", ""))
    assert shown == sorted(
        "".join([*kept, *(row[n] for row in rows for n in kept)]).replace(" ", "")
    )


def test_lines_are_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert width() is None  # pytest reads what is printed
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert width() == 72


def test_colours_are_for_terminals(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[StyledLine] = [[("16", "sure"), ("  ", "plain"), ("8 ?", "open")], []]
    show(lines)
    assert capsys.readouterr().out == "16  8 ?\n\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    show(lines)
    assert "\x1b[32m16\x1b[0m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    show(lines)
    assert "\x1b[3" not in capsys.readouterr().out


def test_json_has_every_column_and_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    emit(COLUMNS, ROWS, "json")
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert [list(row) for row in found] == [COLUMNS] * 3
    assert found[0]["at"] == "2026-01-02T03:04:05"
    assert found[2]["value"] is None


def test_csv_has_a_header_also_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    emit(COLUMNS, ROWS, "csv")
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in found] == ["a", "long name", "b"]
    emit(COLUMNS, [], "csv")
    assert capsys.readouterr().out == "name,value,ok,at\n"
    emit(COLUMNS, [], "json")
    assert json.loads(capsys.readouterr().out) == []


def test_csv_tells_null_from_an_empty_text(capsys: pytest.CaptureFixture[str]) -> None:
    emit(["a", "b", "c"], [{"a": None, "b": "", "c": 'x,"y"\n'}], "csv")
    assert capsys.readouterr().out == 'a,b,c\n,"","x,""y""\n"\n'
