"""What chain tasks get from their base class: splits by a hash of the input, padding, loss and
answer."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest
from drawn import hash_by_hand
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import (
    EOS,
    IGNORE,
    PAD,
    SEP,
    SPECIALS,
    Chains,
    ChainTask,
    IntArray,
    Split,
    as_count,
    number_words,
)
from sweepd.tasks.ed_local import LocalEditDistance
from sweepd.tasks.edit_distance import EditDistance
from sweepd.tasks.equation import Equation
from sweepd.tasks.lis import LIS

CHECKED = settings(max_examples=30)


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


@dataclass(frozen=True)
class CopyByDraw(Copy):
    """The same problems, drawn one by one."""

    def draw(self, rng: np.random.Generator) -> tuple[list[str], list[str], str]:
        ids = rng.integers(3, 3 + self.base, size=rng.integers(1, self.digits + 1)).tolist()
        number = self.words(ids)
        return number, number, number[-1]


@dataclass(frozen=True)
class Spoilt(ChainTask):
    """Draws parts that no row can be made of, or nothing for a chain."""

    prompt: str = "a"
    chain: str = ""
    result: str = "a"

    size_field = "n"
    n: int = 1
    prompt_length = 3
    chain_length = 3

    @property
    def vocab(self) -> tuple[str, ...]:
        return (*SPECIALS, "a", "b")

    def draw(self, rng: np.random.Generator) -> tuple[list[str], list[str], list[str]]:
        return self.prompt.split(), self.chain.split(), self.result.split()


def prompts_of(chains: Chains) -> list[tuple[int, ...]]:
    rows = zip(chains.tokens.tolist(), chains.prompts.tolist(), strict=True)
    return [tuple(row[:prompt]) for row, prompt in rows]


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
    drawn = np.zeros((40 * count + 1000, task.capacity), dtype=np.int64)
    task.fill(np.random.default_rng(seed), drawn)
    drawn_inside = (
        row
        for row in map(np.ndarray.tolist, drawn)
        if hash_by_hand(row[: row.index(SEP) + 1]) % 16 in split.value
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


@CHECKED
@given(seed=st.integers(0, 2**32), split=st.sampled_from(Split), cot=st.booleans())
def test_a_task_that_draws_has_the_sample_of_its_twin_that_fills(
    seed: int, split: Split, cot: bool
) -> None:
    fills, draws = (
        kind(cot=cot).sample(np.random.default_rng(seed), 50, split) for kind in (Copy, CopyByDraw)
    )
    assert np.array_equal(fills.tokens, draws.tokens)
    assert np.array_equal(fills.prompts, draws.prompts)
    assert np.array_equal(fills.lengths, draws.lengths)


@CHECKED
@given(
    kind=st.sampled_from([Copy, LIS, EditDistance, LocalEditDistance, Arithmetic, Equation]),
    size=st.integers(1, 6),
    seed=st.integers(0, 2**32),
)
def test_a_task_that_fills_draws_the_parts_of_its_rows(
    kind: type[ChainTask], size: int, seed: int
) -> None:
    sizes: dict[str, Any] = {kind.size_field: size}
    task = kind(**sizes)
    row = np.zeros((1, task.prompt_length + task.chain_length + task.answer_length + 1), int)
    task.fill(np.random.default_rng(seed), row)
    prompt, chain, answer = task.draw(np.random.default_rng(seed))
    separator = task.vocab[task.separator]
    words = [*prompt, separator, *chain, *([separator] if chain else []), *answer, "<eos>"]
    assert task.words(row[0, : len(words)]) == words
    assert not row[0, len(words) :].any()


def test_what_a_class_defines_counts_and_may_call_what_it_inherits() -> None:
    class Loud(CopyByDraw):
        calls = 0

        def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
            Loud.calls += 1
            super().fill(rng, tokens)

    class Reversed(Loud):
        def draw(self, rng: np.random.Generator) -> tuple[list[str], list[str], str]:
            number, chain, _ = super().draw(rng)
            return list(number)[::-1], list(chain)[::-1], chain[0]

    plain, loud = (
        kind(base=2).sample(np.random.default_rng(0), 300, Split.TRAIN)
        for kind in (CopyByDraw, Loud)
    )
    assert np.array_equal(plain.tokens, loud.tokens) and Loud.calls
    rows = np.zeros((20, Reversed().capacity), int)
    Reversed().fill(np.random.default_rng(0), rows)
    rng = np.random.default_rng(0)
    for row in rows:
        number, _, _ = CopyByDraw().draw(rng)
        assert Copy().words(row[: len(number)]) == list(number)[::-1]


@pytest.mark.parametrize(
    ("chain", "row"),
    [
        ("", ["a", "<sep>", "a", "<eos>"]),
        ("b", ["a", "<sep>", "b", "<sep>", "a", "<eos>"]),
        ("<sep>", ["a", "<sep>", "<sep>", "<sep>", "a", "<eos>"]),
    ],
)
def test_a_chain_may_be_empty_and_may_hold_separators(chain: str, row: list[str]) -> None:
    task = Spoilt(chain=chain)
    tokens = np.zeros((2, task.capacity), int)
    task.fill(np.random.default_rng(0), tokens)
    assert [task.words(ids[: len(row)]) for ids in tokens] == [row, row]
    assert task.answer(tokens[0, : len(row) - 1]) == (3,)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"prompt": ""}, "Spoilt.draw: the prompt is empty"),
        ({"result": ""}, "Spoilt.draw: the answer is empty"),
        ({"prompt": "a <sep>"}, "the prompt holds a separator, <pad> or <eos>"),
        ({"chain": "a <eos>"}, "the chain holds a separator, <pad> or <eos>"),
        ({"result": "<sep>"}, "the answer holds a separator, <pad> or <eos>"),
        ({"prompt": "a a a"}, "the prompt has 3 tokens, and its separator; prompt_length is 3"),
        ({"chain": "a a a"}, "the chain has 3 tokens, and its separator; chain_length is 3"),
        ({"result": "a b"}, "the answer has 2 tokens; answer_length is 1"),
        ({"prompt": "c"}, "Spoilt drew 'c', which is no entry of its vocab"),
    ],
)
def test_parts_that_make_no_row_are_refused(parts: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Spoilt(**parts).sample(np.random.default_rng(0), 1, Split.TRAIN)  # type: ignore[arg-type]


def test_distinct_prompts_are_estimated() -> None:
    class Uncounted(CopyByDraw):
        distinct_inputs = ChainTask.distinct_inputs

    assert Uncounted(base=2).distinct_inputs() == pytest.approx(16, rel=0.2)
    assert Uncounted(digits=40, base=10).distinct_inputs() > 100
