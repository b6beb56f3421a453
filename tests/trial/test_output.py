"""What a process prints, as lines and rows: wherever a row stands, however long its line is."""

import json
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.errors import UserError
from sweepd.trial.output import READ_BYTES, Line, Output, json_rows

ROW = '{"step": 1, "acc": 0.5}'


@pytest.mark.parametrize(
    "line",
    [
        ROW,
        f" 80%|####  | 4/5{ROW}",
        f"\x1b[32m{ROW}\x1b[0m",
        '\x1b[1m{\x1b[0m\x1b[32m"step"\x1b[0m: \x1b[36m1\x1b[0m, "acc": 0.5}',
        f"\x1b]8;;file:///x\x07INFO:train:{ROW} (train.py:3)",
        f"[default0]:{ROW}",
        f"{{rank 0}} {{'a': {{}}}} {ROW}",
        f'{{"level": "info"}} {ROW}{{',
        f"config {{}} {{: {ROW}\x1b[K",
        "x" * 10 * READ_BYTES + ROW + "y" * READ_BYTES,
    ],
)
def test_a_row_counts_wherever_it_stands(line: str) -> None:
    assert list(json_rows(line)) == [{"step": 1, "acc": 0.5}]


def test_rows_of_one_line_come_in_their_order() -> None:
    assert [row["step"] for row in json_rows('{"step": 1}{"step": 2}, {"step": 3, "x": {}}')] == [
        1,
        2,
        3,
    ]


@pytest.mark.parametrize(
    "line", ["step", '"step": 1}', '{"a": {"step": 1}}', '{"no": 1}', "{'step': 1}", "{{{"]
)
def test_what_is_no_row(line: str) -> None:
    assert list(json_rows(line)) == []


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 1, {"step": 1, "acc": 1}',
        'bar {"step": 1, "acc": ',
        'bar {"lr": {"a": 1}, "step": 1, "acc": 0.5',
        '{"step": 1, "acc": 0.1, "acc": 0.9}',
        'INFO {"step": 1, "step": 2}',
        '{"step": 1, "acc": 0.5, "at": {"x": 1, "x": 2}}',
        '{"step": 1, "acc": .5}',
    ],
)
def test_a_row_that_cannot_be_taken_is_refused(line: str) -> None:
    with pytest.raises(UserError, match=r"the row \{.* cannot be taken: "):
        list(json_rows(line))


def test_numbers_of_c_are_nan_in_numbers_alone() -> None:
    [row] = json_rows('a {"step": 1, "x": -nan, "y": INF, "at": {"z": nan}} b')
    assert row["x"] != row["x"] and row["y"] != row["y"] and row["at"]["z"] != row["at"]["z"]
    assert list(json_rows('{"step": 1, "why": "loss: nan"}')) == [{"step": 1, "why": "loss: nan"}]


@given(
    before=st.text(st.characters(exclude_categories=["Cs"], exclude_characters='{"\r\n\x1b')),
    after=st.text(st.characters(exclude_categories=["Cs"], exclude_characters='{"\r\n\x1b')),
    row=st.dictionaries(st.text(), st.floats(allow_nan=False) | st.text() | st.none()),
)
def test_any_text_may_stand_around_a_row(before: str, after: str, row: dict[str, object]) -> None:
    row["step"] = 3
    assert list(json_rows(before + json.dumps(row) + after)) == [row]


def printed(code: str) -> list[Line]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout
    output, lines = Output({"stdout": process.stdout}), []
    while output.open:
        if line := output.next(1.0):
            lines.append(line)
    assert process.wait() == 0
    return lines


def test_what_is_written_over_is_not_logged() -> None:
    lines = printed(
        "import sys\n"
        "sys.stdout.write('1%\\r2%\\rdone\\nwindows\\r\\n\\nrow\\rbar\\r\\nlast\\rthe end')"
    )
    assert [line.text for line in lines if line.text] == [
        *("1%", "2%", "done", "windows", "row", "bar", "last", "the end")
    ]
    logged = [line.logged for line in lines if line.logged is not None]
    assert logged == ["done", "windows", "", "bar", "the end"]


def test_a_line_may_be_longer_than_any_buffer() -> None:
    [line] = printed(f"print('x' * {50 * READ_BYTES} + '{ROW}')")
    assert line.text == "x" * 50 * READ_BYTES + ROW


def test_a_part_of_a_line_is_heard() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stream, os.fdopen(writing, "wb", buffering=0) as pen:
        output = Output({"stdout": stream})
        before = output.heard
        time.sleep(0.05)
        pen.write(b"1%")
        assert output.next(0.2) is None and output.heard > before
        pen.write(b"\r")
        assert output.next(5) == Line("stdout", "1%", None)
        pen.close()
        while output.open:
            output.next(1.0)
