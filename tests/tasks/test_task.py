"""What every task has: hashes that split the inputs, words and their ids, an estimate of how many
distinct inputs there are, checks of parameters, and inverses modulo a prime."""

import math

import numpy as np
import pytest
from drawn import hash_by_hand
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks._task import HashArray, Rows, estimated_count
from sweepd.tasks.base import (
    SEP,
    SHARES,
    Split,
    hash_prompts,
)
from sweepd.tasks.lis import LIS

CHECKED = settings(max_examples=30)


@CHECKED
@given(
    prompt=st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    tail=st.lists(st.integers(0, 1000), max_size=5),
)
def test_hash_equals_its_twin_and_ignores_what_follows_the_prompt(
    prompt: list[int], tail: list[int]
) -> None:
    (found,) = hash_prompts(np.array([prompt + tail]), np.array([len(prompt)]))
    assert int(found) == hash_by_hand(prompt)


def test_hash_is_the_same_on_every_machine_and_in_every_version() -> None:
    tokens = np.array([[3, 4, 5, 1], [3, 1, 0, 0]])
    assert hash_prompts(tokens, np.array([4, 2])).tolist() == [
        0x65E17604CF0D5A7A,
        0xE9FD6049D65AF21E,
    ]


def test_hash_spreads_evenly_over_the_shares() -> None:
    tokens = np.array([[3 + a, 3 + b, SEP] for a in range(100) for b in range(100)])
    counts = np.bincount((hash_prompts(tokens, np.full(10_000, 3)) % SHARES).astype(int))
    assert len(counts) == SHARES
    assert ((counts - 625) ** 2 / 625).sum() < 45  # chi squared, 15 degrees: p = 1e-4


def test_splits_divide_the_shares() -> None:
    shares = [share for split in Split for share in split.value]
    assert sorted(shares) == list(range(SHARES))
    assert [len(split.value) for split in Split] == [14, 1, 1]


def test_words_and_ids_are_inverse() -> None:
    task = LIS(4, 16)
    words = ["3", "15", "<sep>", "<eos>"]
    assert task.words(task.ids(words)) == words
    assert task.ids(iter(["0"])) == [3]


@pytest.mark.parametrize("wrong", ["16", "", 3, None, ["1"]])
def test_what_is_no_entry_of_the_vocabulary_is_refused_by_name(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"LIS drew .*, which is no entry of its vocab") as error:
        LIS(4, 16).ids(["1", wrong])  # type: ignore[list-item]
    assert repr(wrong) in str(error.value)


@pytest.mark.parametrize("many", [1, 2, 50, 3000, 100_000])
def test_distinct_inputs_are_estimated_within_a_factor(many: int) -> None:
    rng = np.random.default_rng(0)

    def fill(rows: Rows) -> HashArray:
        rows[:] = rng.integers(many, size=rows.shape)
        return rows[:, 0].astype(np.uint64)

    found = estimated_count(np.empty((256, 1), dtype=np.int64), fill)
    assert many / 1.3 < found < many * 1.3


def test_inputs_that_never_repeat_are_too_many_to_count() -> None:
    rng = np.random.default_rng(0)

    def fill(rows: Rows) -> HashArray:
        return rng.integers(2**63, size=len(rows)).astype(np.uint64)

    assert estimated_count(np.empty((256, 1), dtype=np.int64), fill) == math.inf
