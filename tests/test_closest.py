"""What a name that does not exist may mean: a name that is spelt alike, or that begins alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.closest import MOST, close_names, closest

NAMES = ("acc", "acc_min", "model", "steps", "batch_size", "seeds", "lr")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("stps", ["steps"]),
        ("accuracy", ["acc"]),
        ("modle", ["model"]),
        ("ACC", ["acc", "acc_min"]),
        ("zzz", []),
        ("l", ["lr"]),
    ],
)
def test_names_that_are_spelt_or_begin_alike(word: str, meant: list[str]) -> None:
    assert close_names(word, NAMES) == meant


def test_the_hint_names_them_or_is_empty() -> None:
    assert closest("stps", NAMES) == " (did you mean steps?)"
    assert closest("acc_mn", ["acc_min", "acc_max"]) == " (did you mean acc_min or acc_max?)"
    assert closest("zzz", NAMES) == ""


@given(st.text(max_size=8), st.lists(st.text(max_size=8)))
def test_what_is_meant_is_known_and_comes_once(word: str, known: list[str]) -> None:
    found = close_names(word, known)
    assert set(found) <= set(known) and len(found) == len(set(found)) <= MOST
