"""`min` as people read it. The table has a row for each size and a column for each model. All that
is uncertain has a mark, and a legend explains the marks that are used."""

from itertools import product
from typing import Any

import pytest
from fake_store import FakeStore, planned
from hypothesis import given
from hypothesis import strategies as st
from questions import ended, mixed, planned_on, question

from sweepd.query.deciding import UNCONFIRMED
from sweepd.query.readable import MARKS, entry, lines

VERDICTS = ("exact", "bracketed", "at most", "above", "open", "not monotone")
HOLDS = {
    "value": 16, "fail": 8, "verdict": "exact", "steps": 500, "fail_steps": 8000,
    "holds_to": 32_000, "why": "", "rates": 3,
}  # fmt: skip
NO_PASS: dict[str, Any] = {"value": None, "steps": None, "fail_steps": 4000}
UNKNOWN = {"holds_to": None, "why": "w"}


def text(store: FakeStore, asked: str, width: int | None = 80) -> list[str]:
    answer = question(store, asked)
    return ["".join(part for part, _ in line).rstrip() for line in lines(answer, width)]


def row(**changed: Any) -> dict[str, Any]:
    return {**HOLDS, "close": False, **changed}


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({}, "16 (8 fails at 16×, to 64×)"),
        ({**UNKNOWN, "fail_steps": 750}, "16 (8 fails at 1.5×) …"),
        ({"verdict": "bracketed", **UNKNOWN, "fail_steps": None}, "16 (8 fails) …"),
        ({"rates": 1}, "16 (8 fails at 16×, to 64×) ¹"),
        ({"close": True}, "16 (8 fails at 16×, to 64×) ~"),
        ({**UNKNOWN, "why": UNCONFIRMED}, "16 (8 fails at 16×) *"),
        ({"verdict": "at most", "fail": None, **UNKNOWN}, "≤ 16"),
        ({**NO_PASS, "verdict": "above", "fail": 64}, "> 64 (at 4000 steps, to 32000)"),
        ({**NO_PASS, "verdict": "above", "fail": 64, **UNKNOWN}, "> 64 (at 4000 steps) …"),
        ({**NO_PASS, "verdict": "above", "fail": None, **UNKNOWN}, "none …"),
        ({**NO_PASS, "verdict": "open", "fail": None, **UNKNOWN}, "–"),
        ({**NO_PASS, "verdict": "open", "fail": 8, **UNKNOWN}, "– (8 fails)"),
        ({"verdict": "not monotone", **UNKNOWN}, "16 !"),
        ({"value": 0.054371, "verdict": "at most"}, "≤ 0.05437"),
    ],
)
def test_a_row_in_a_few_characters(changed: dict[str, Any], shown: str) -> None:
    found = entry(row(**changed))
    assert found.text == shown
    assert all(mark.split(" N")[0].strip("()") in shown for mark in found.marks)
    assert set(found.marks) <= MARKS.keys()


@given(
    verdict=st.sampled_from(VERDICTS),
    why=st.sampled_from([UNCONFIRMED, "not trained for 4000 steps", "the grid has no smaller"]),
    fail=st.sampled_from([None, 8]),
    close=st.sampled_from([None, False, True]),
)
def test_what_has_no_forecast_is_marked(
    verdict: str, why: str, fail: int | None, close: bool | None
) -> None:
    found = entry(row(verdict=verdict, holds_to=None, why=why, fail=fail, close=close))
    assert set(found.marks) - {"~", "(fails)", "at N×", "¹"} and found.tone != "sure"


def test_the_question_a_row_a_size_a_column_a_model_and_how_much_was_run() -> None:
    assert text(mixed(), "min d by size, L where acc>0.9") == [
        "Least d with acc > 0.9 on lis (1 seed)",
        "n   L  linear             standard",
        "6  15  32 (16 fails) ~ …  ≤ 16 ~",
        "8  19  32 (16 fails) ~ …  ≤ 16 ~",
        "≤ nothing smaller was tried to its end",
        "(fails) the next smaller value failed, here or at a smaller size   ~ close call",
        "… no forecast: longer training may lower it",
        "",
        "16 trials ran, in 16 of 16 cells: 1.3e+10 training FLOPs. --wide says more.",
    ]


def test_other_columns_of_the_group_stand_before_the_size() -> None:
    assert text(mixed(), "min d where acc>0.9 and n = 6")[:4] == [
        "Least d with acc > 0.9 and n = 6 on lis (1 seed)",
        "heads  n   L  linear             standard",
        "    2  6  15  > 32 …             32 (16 fails) ~ …",
        "    4  6  15  32 (16 fails) ~ …  ≤ 16 ~",
    ]
    assert text(mixed(), "min d by heads, n where acc>0.9")[1].split() == [
        *("heads", "n", "linear", "standard")
    ]


def test_a_goal_stands_where_the_question_names_no_threshold() -> None:
    assert (
        text(mixed(), "min d where n=6")[0] == "Least d with acc > 0.9 where n = 6 on lis (1 seed)"
    )


def test_a_table_for_each_task_and_nothing_where_a_model_was_not_tried() -> None:
    trials = [
        planned(8, 16, model="linear"),
        planned(8, 16),
        planned(10, 16),
        planned_on("arithmetic", 4, 16, "standard"),
    ]
    fields = {"lis": "n", "arithmetic": "operators"}
    store = ended(trials, 0.95, None, None, None, size_fields=fields)
    found = text(store, "min d by size where acc>0.9")
    assert found[0] == "Least d with acc > 0.9 on arithmetic (1 seed)"
    assert found[1].split() == ["operators", "standard"]
    at = found.index("Least d with acc > 0.9 on lis (1 seed)")
    assert found[at + 1 : at + 4] == [" n  linear  standard", " 8  ≤ 16 ~  –", "10          –"]


@pytest.mark.parametrize("width", [24, 40, 80, None])
def test_no_line_is_too_long_and_no_model_is_lost(width: int | None) -> None:
    models = [f"model{i}" for i in range(9)]
    trials = [planned(n, 16, model=model) for n, model in product((6, 8), models)]
    found = text(ended(trials, *(None for _ in trials)), "min d where acc>0.9", width)
    if width:
        assert max(map(len, found)) <= width
    heads = [line.split()[2:] for line in found if line.split()[:2] == ["n", "L"]]
    assert [model for head in heads for model in head] == models
    assert len(heads) == 1 or width is not None
