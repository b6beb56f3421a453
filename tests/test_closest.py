"""What a name that does not exist may mean: a name that is spelt alike, or that begins alike."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.closest import MOST, close_names, closest

NAMES = ("acc", "acc_min", "model", "steps", "batch_size", "seeds", "lr")


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("stps", NAMES, " (did you mean steps?)"),
        ("accuracy", NAMES, " (did you mean acc?)"),
        ("modle", NAMES, " (did you mean model?)"),
        ("ACC", NAMES, " (did you mean acc or acc_min?)"),
        ("zzz", NAMES, ""),
        ("l", NAMES, " (did you mean lr?)"),
        ("acc_mn", ("acc_min", "acc_max"), " (did you mean acc_min or acc_max?)"),
    ],
)
def test_names_that_are_spelt_or_begin_alike(word: str, known: tuple[str, ...], hint: str) -> None:
    assert closest(word, known) == hint


@given(st.text(max_size=8), st.lists(st.text(max_size=8)))
def test_what_is_meant_is_known_and_comes_once(word: str, known: list[str]) -> None:
    found = close_names(word, known)
    assert set(found) <= set(known) and len(found) == len(set(found)) <= MOST
