"""Essentially sparse memory, compared with its double sum. Also tested: the kernels, and the
variance of the targets."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks.base import Split
from sweepd.tasks.sparse_memory import Kernel, SparseMemory

KERNELS: dict[Kernel, Callable[[int, float], float]] = {
    "exponential": lambda s, rate: math.exp(-rate * s),
    "polynomial": lambda s, rate: (1 + s) ** -rate,
}


@settings(max_examples=30)
@given(
    kernel=st.sampled_from(list(KERNELS)),
    rate=st.floats(0.01, 20),
    length=st.integers(1, 25),
    seed=st.integers(0, 2**32),
)
def test_every_target_is_the_weighted_sum_of_what_came(
    kernel: Kernel, rate: float, length: int, seed: int
) -> None:
    task = SparseMemory(kernel, rate, length=length)
    weights = [KERNELS[kernel](s, rate) for s in range(length)]
    norm = math.sqrt(sum(weight**2 for weight in weights))
    batch = task.sample(np.random.default_rng(seed), 3, Split.CHECK)
    for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        for t in range(length):
            total = sum(weights[s] / norm * row[t - s] for s in range(t + 1))
            assert targets[t] == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_targets_come_to_have_variance_one(kernel: Kernel) -> None:
    task = SparseMemory(kernel, 1.0)
    targets = task.sample(np.random.default_rng(0), 4000, Split.TRAIN).targets
    assert targets[:, -1].var() == pytest.approx(1, abs=0.1)
