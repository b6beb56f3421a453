"""Fixed memory, compared with its definition, position by position."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import fixed_memory
from sweepd.tasks.base import IGNORE, Split
from sweepd.tasks.fixed_memory import FixedMemory

SETTINGS = st.integers(1, 8).flatmap(
    lambda memories: st.tuples(st.just(memories), st.integers(memories, 30), st.integers(2, 9))
)


@settings(max_examples=40)
@given(setting=SETTINGS, beyond=st.integers(1, 10), seed=st.integers(0, 2**32))
def test_every_target_is_the_sum_of_its_memories(
    setting: tuple[int, int, int], beyond: int, seed: int
) -> None:
    memories, longest, symbols = setting
    length = longest + beyond
    lags = [math.floor(k * longest / memories + 1e-9) for k in range(1, memories + 1)]
    assert len(set(lags)) == memories
    ids, numbers = (
        FixedMemory(memories, longest, values=values, symbols=symbols, length=length).sample(
            np.random.default_rng(seed), 5, Split.TRAIN
        )
        for values in ("tokens", "reals")
    )
    for t in range(length):
        for row in range(5):
            if t < longest:
                assert ids.targets[row, t] == IGNORE
                assert math.isnan(numbers.targets[row, t])
                continue
            found = sum(int(ids.inputs[row, t - lag]) for lag in lags)
            assert ids.targets[row, t] == found % symbols
            total = sum(float(numbers.inputs[row, t - lag]) for lag in lags)
            assert numbers.targets[row, t] == pytest.approx(total / math.sqrt(memories), abs=1e-5)


def test_the_example_of_the_module_is_a_row() -> None:
    task = FixedMemory(memories=2, longest=4, symbols=4, length=7)
    text = next(line for line in (fixed_memory.__doc__ or "").splitlines() if "<sep>" in line)
    prompt, answer = (half.split() for half in text.removesuffix("<eos>").split("<sep>"))
    targets = task.targets(np.array([prompt], dtype=np.int64))[0].tolist()
    assert answer == [*"....", *map(str, targets)]
    assert task.lags == (2, 4)


@pytest.mark.parametrize("memories", [1, 2, 5])
def test_real_targets_have_variance_one(memories: int) -> None:
    task = FixedMemory(memories, values="reals")
    targets = task.sample(np.random.default_rng(0), 1000, Split.TRAIN).targets
    assert np.nanvar(targets) == pytest.approx(1, abs=0.05)
