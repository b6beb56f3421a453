"""What chain tasks get from their base: splits by a hash of the input, padding, loss, answer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import (
    EOS,
    IGNORE,
    PAD,
    SEP,
    SHARES,
    SPECIALS,
    Chains,
    ChainTask,
    IntArray,
    Split,
    as_count,
    hash_prompts,
    inverses,
    number_words,
    require_prime,
    require_range,
)
from sweepd.tasks.ed_local import LocalEditDistance
from sweepd.tasks.edit_distance import EditDistance
from sweepd.tasks.equation import Equation
from sweepd.tasks.lis import LIS

CHECKED = settings(deadline=None, max_examples=30)


@dataclass(frozen=True)
class Copy(ChainTask):
    """Write a number of up to `digits` digits again; the answer is its last digit."""

    digits: int = 4
    base: int = 10
    room: int = 0
    """unused columns, as in a task whose bound is not tight"""

    size_field = "digits"

    @property
    def vocab(self) -> tuple[str, ...]:
        return SPECIALS + number_words(self.base)

    @property
    def prompt_length(self) -> int:
        return self.digits + 1

    @property
    def chain_length(self) -> int:
        return self.digits + 1 + self.room

    def distinct_inputs(self) -> float:
        return as_count(sum(self.base**length for length in range(1, self.digits + 1)))

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        for row in tokens:
            number = rng.integers(3, 3 + self.base, size=rng.integers(1, self.digits + 1)).tolist()
            chain = [*number, SEP, *number, SEP, number[-1], EOS]
            row[: len(chain)] = chain


def hash_by_hand(prompt: list[int]) -> int:
    """The twin of `hash_prompts` for one prompt, in integers of any size."""
    state = len(prompt)
    for token in prompt:
        state = ((state ^ token) + 0x9E3779B97F4A7C15) % 2**64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
        state ^= state >> 31
    return state


def prompts_of(chains: Chains) -> list[tuple[int, ...]]:
    rows = zip(chains.tokens.tolist(), chains.prompts.tolist(), strict=True)
    return [tuple(row[:prompt]) for row, prompt in rows]


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


def test_no_input_is_in_two_splits_and_together_they_hold_all() -> None:
    task = Copy(digits=2)
    found = {
        split: set(prompts_of(task.sample(np.random.default_rng(0), 1000, split)))
        for split in Split
    }
    for split, prompts in found.items():
        assert all(hash_by_hand(list(prompt)) % 16 in split.value for prompt in prompts)
    assert sum(map(len, found.values())) == len(set.union(*found.values())) == 110


@CHECKED
@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 300),
    split=st.sampled_from(Split),
    digits=st.integers(2, 6),
)
def test_sample_is_the_first_of_all_draws_that_fall_into_the_split(
    seed: int, count: int, split: Split, digits: int
) -> None:
    task = Copy(digits)
    chains = task.sample(np.random.default_rng(seed), count, split)
    drawn = np.zeros((100 * count + 1000, task.capacity), dtype=np.int64)
    task.fill(np.random.default_rng(seed), drawn)
    drawn_inside = (
        row for row in drawn.tolist() if hash_by_hand(row[: row.index(SEP) + 1]) % 16 in split.value
    )
    inside = list(islice(drawn_inside, count))
    assert chains.lengths.tolist() == [row.index(EOS) + 1 for row in inside]
    assert chains.prompts.tolist() == [row.index(SEP) + 1 for row in inside]
    assert chains.tokens.shape == (count, max(chains.lengths))
    assert chains.tokens.tolist() == [row[: max(chains.lengths)] for row in inside]


def test_sample_does_not_depend_on_spare_capacity() -> None:
    narrow = Copy().sample(np.random.default_rng(1), 50, Split.CHECK)
    wide = Copy(room=9).sample(np.random.default_rng(1), 50, Split.CHECK)
    assert np.array_equal(narrow.tokens, wide.tokens)


def test_more_rows_than_one_block_are_drawn() -> None:
    chains = Copy().sample(np.random.default_rng(2), 1500, Split.TEST)
    assert len(chains.tokens) == 1500
    assert len(set(prompts_of(chains))) > 200


def test_a_split_without_inputs_is_refused_by_name() -> None:
    task = Copy(digits=1, base=2)
    with pytest.raises(ValueError, match=r"Copy\(.*digits=1, base=2.* too few distinct inputs"):
        for split in Split:
            task.sample(np.random.default_rng(0), 10, split)


def test_a_sample_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="count = 0"):
        Copy().sample(np.random.default_rng(0), 0, Split.TRAIN)


def test_batch_predicts_what_follows_the_prompt_through_eos_and_no_padding() -> None:
    chains = Copy().sample(np.random.default_rng(3), 40, Split.TRAIN)
    batch = Copy().batch(np.random.default_rng(3), 40, Split.TRAIN)
    assert len(set(chains.lengths.tolist())) > 1
    assert np.array_equal(batch.inputs, chains.tokens[:, :-1])
    for row, prompt, length, target in zip(
        chains.tokens.tolist(),
        chains.prompts.tolist(),
        chains.lengths.tolist(),
        batch.targets.tolist(),
        strict=True,
    ):
        after = len(row) - length
        assert target == [IGNORE] * (prompt - 1) + row[prompt:length] + [IGNORE] * after
        assert row[prompt - 1] == SEP
        assert row[length - 1] == EOS
        assert row[length:] == [PAD] * after


@CHECKED
@given(
    kind=st.sampled_from([Copy, LIS, EditDistance, LocalEditDistance, Arithmetic, Equation]),
    size=st.integers(3, 6),
    seed=st.integers(0, 2**32),
    split=st.sampled_from(Split),
)
def test_without_cot_rows_are_the_same_prompts_and_answers(
    kind: type[ChainTask], size: int, seed: int, split: Split
) -> None:
    task, direct = (kind(**{kind.size_field: size}, cot=cot) for cot in (True, False))
    chains, answers = (t.sample(np.random.default_rng(seed), 20, split) for t in (task, direct))
    expected = [
        [*row[:prompt], *task.answer(row[: length - 1]), EOS]
        for row, prompt, length in zip(
            chains.tokens.tolist(), chains.prompts.tolist(), chains.lengths.tolist(), strict=True
        )
    ]
    assert answers.lengths.tolist() == [len(row) for row in expected]
    assert answers.prompts.tolist() == chains.prompts.tolist()
    longest = max(map(len, expected))
    assert answers.tokens.tolist() == [row + [PAD] * (longest - len(row)) for row in expected]
    assert longest <= direct.capacity == direct.L + 1
    assert direct.L == direct.prompt_length + direct.answer_length < task.L
    assert direct.distinct_inputs() == task.distinct_inputs()
    batch = direct.batch(np.random.default_rng(seed), 20, split)
    assert np.array_equal(batch.inputs, answers.tokens[:, :-1])


def test_answer_is_what_follows_the_last_separator() -> None:
    task = Copy()
    assert task.answer([3, 4, SEP, 3, 4, SEP, 4]) == (4,)
    assert task.answer(np.array([3, SEP, 5, 6])) == (5, 6)
    assert task.answer([3, SEP]) == ()


def test_words_are_the_vocabulary_of_the_ids() -> None:
    assert Copy().words(np.array([3, 12, SEP, EOS])) == ["0", "9", "<sep>", "<eos>"]


def test_size_is_the_size_field() -> None:
    assert Copy(digits=7).size == 7


def test_parameters_are_checked_by_name() -> None:
    for least, most in ((4, 9), (0, 4)):
        require_range(Copy(), "digits", least, most)
    for least, most in ((5, 9), (0, 3)):
        with pytest.raises(ValueError, match=f"digits = 4: must be from {least} to {most}"):
            require_range(Copy(), "digits", least, most)
    primes = []
    for digits in range(-3, 30):
        try:
            require_prime(Copy(digits), "digits")
            primes.append(digits)
        except ValueError as error:
            assert str(error) == f"digits = {digits}: must be a prime number below 10000"
    assert primes == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    require_prime(Copy(9973), "digits")
    with pytest.raises(ValueError, match="digits = 10007"):
        require_prime(Copy(10007), "digits")


@pytest.mark.parametrize("p", [2, 3, 11, 31])
def test_inverses(p: int) -> None:
    assert inverses(p)[0] == 0
    assert (inverses(p)[1:] * np.arange(1, p) % p == 1).all()


def test_counts_beyond_floats_are_infinite() -> None:
    assert as_count(250) == 250.0
    assert as_count(10**400) == float("inf")
