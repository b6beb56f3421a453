"""What memory tasks get from their base class: draws, splits by a hash of the whole row, and
targets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.base import IGNORE, SHARES, Batch, MemoryTask, Split, hash_prompts
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.sparse_memory import SparseMemory

TASKS = [
    FixedMemory(longest=4, symbols=5, length=9),
    FixedMemory(longest=4, values="reals", length=9),
    AdaptiveMemory(longest=4, symbols=3, length=9),
    AdaptiveMemory(longest=4, symbols=3, values="reals", length=9),
    SparseMemory(length=9),
]
every_task = pytest.mark.parametrize("task", TASKS, ids=repr)


def drawn(task: MemoryTask, count: int, split: Split, seed: int = 0) -> Batch:
    return task.sample(np.random.default_rng(seed), count, split)


@every_task
def test_a_sample_is_inputs_and_targets_of_their_kind(task: MemoryTask) -> None:
    batch = drawn(task, 300, Split.TRAIN)
    assert batch.inputs.shape == batch.targets.shape == (300, task.length)
    kind = np.int64 if task.vocab else np.float32
    assert batch.inputs.dtype == batch.targets.dtype == kind
    lacking = task.length - task.targets(batch.inputs).shape[1]
    assert not batch.scored[:, :lacking].any()
    assert batch.scored[:, lacking:].all()
    assert np.array_equal(batch.targets[:, lacking:], task.targets(batch.inputs))
    if task.vocab:
        assert (batch.targets[:, :lacking] == IGNORE).all()
        assert set(batch.targets[batch.scored].tolist()) == set(range(len(task.vocab)))


@every_task
def test_targets_depend_on_nothing_that_comes_later(task: MemoryTask) -> None:
    inputs = drawn(task, 50, Split.TRAIN).inputs
    for cut in range(1, task.length):
        changed = inputs.copy()
        changed[:, cut:] = drawn(task, 50, Split.TRAIN, seed=1).inputs[:, cut:]
        before, after = task.targets(inputs), task.targets(changed)
        same = max(0, cut - (task.length - before.shape[1]))
        assert np.array_equal(before[:, :same], after[:, :same])


@every_task
def test_every_row_hashes_into_its_split(task: MemoryTask) -> None:
    for split in Split:
        inputs = drawn(task, 100, split).inputs
        bits = inputs if task.vocab else inputs.view(np.uint32).astype(np.int64)
        shares = hash_prompts(bits, np.full(100, task.length)) % np.uint64(SHARES)
        assert set(shares.tolist()) <= set(split.value)


@every_task
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 700))
def test_the_generator_decides_the_sample(task: MemoryTask, seed: int, count: int) -> None:
    one, same = (drawn(task, count, Split.CHECK, seed) for _ in range(2))
    other = drawn(task, count, Split.CHECK, seed + 1)
    assert len(one.inputs) == count
    assert np.array_equal(one.inputs, same.inputs)
    assert np.array_equal(one.targets, same.targets, equal_nan=not task.vocab)
    assert not np.array_equal(one.inputs, other.inputs)


def test_ids_are_uniform_and_numbers_standard_normal() -> None:
    ids = drawn(FixedMemory(symbols=4), 2000, Split.TRAIN).inputs
    assert np.bincount(ids.flat) / ids.size == pytest.approx(np.full(4, 0.25), abs=0.005)
    numbers = drawn(SparseMemory(), 2000, Split.TRAIN).inputs
    assert (numbers.mean(), numbers.std()) == pytest.approx((0, 1), abs=0.01)
    assert abs(np.corrcoef(numbers[:, :-1].flat, numbers[:, 1:].flat)[0, 1]) < 0.01


@every_task
def test_sizes_and_lengths(task: MemoryTask) -> None:
    assert task.L == task.capacity == task.length == 9
    assert task.size == getattr(task, task.size_field)
    assert task.distinct_inputs() == (len(task.vocab) ** 9 if task.vocab else math.inf)
    assert task.metrics == (("acc", "loss") if task.vocab else ("loss",))


@every_task
def test_examples_show_inputs_then_targets(task: MemoryTask) -> None:
    batch = drawn(task, 20, Split.TEST)
    examples = list(task.examples(np.random.default_rng(0), 20, Split.TEST))
    assert len(examples) == 20
    for example, inputs, targets in zip(examples, batch.inputs, batch.targets, strict=True):
        prompt, answer = example.tokens[: example.prompt_length], example.answer.split()
        assert example.tokens == [*prompt, *answer, "<eos>"]
        assert prompt.pop() == "<sep>"
        assert [inputs.dtype.type(word) for word in prompt] == inputs.tolist()
        for word, target in zip(answer, targets, strict=True):
            missing = target == IGNORE or np.isnan(target)
            assert word == "." if missing else targets.dtype.type(word) == target


def test_a_score_may_leave_out_the_beginning_of_rows() -> None:
    task = FixedMemory(longest=4, symbols=5, length=9, score_from=6)
    assert drawn(task, 50, Split.TRAIN).scored[:, 4:].all()
    for split in (Split.CHECK, Split.TEST):
        scored = drawn(task, 50, split).scored
        assert scored[:, 6:].all() and not scored[:, :6].any()
    plain = FixedMemory(longest=4, symbols=5, length=9)
    test, whole = drawn(task, 50, Split.TEST), drawn(plain, 50, Split.TEST)
    assert np.array_equal(test.inputs, whole.inputs)
    with pytest.raises(ValueError, match="score_from"):
        SparseMemory(length=9, score_from=9)
