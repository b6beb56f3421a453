"""Adaptive memory, compared with an oracle that follows the lags of each position one by one."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import adaptive_memory
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.base import Split

TASKS = st.builds(
    lambda levels, more, symbols, wider, beyond, values: AdaptiveMemory(
        memories=levels + more,
        levels=levels,
        longest=symbols + wider,
        symbols=symbols,
        length=symbols + wider + beyond,
        values=values,
    ),
    levels=st.integers(1, 4),
    more=st.integers(0, 3),
    symbols=st.integers(2, 9),
    wider=st.integers(0, 12),
    beyond=st.integers(1, 10),
    values=st.sampled_from(["tokens", "reals"]),
)


def symbol(task: AdaptiveMemory, x: float) -> int:
    """Of a real number: how many intervals lie wholly below it."""
    if task.values == "tokens":
        return int(x)
    return math.ceil(NormalDist().cdf(x) * task.symbols) - 1


def looked_up(task: AdaptiveMemory, row: list[float], t: int) -> list[float]:
    """The memories of position t, in order, from the definition alone."""
    found: list[float] = []
    for k in range(1, task.memories + 1):
        deciding = [row[t], *found[: min(k, task.levels) - 1]]
        choice = (k - 1 + sum(symbol(task, x) for x in deciding)) % task.symbols + 1
        found.append(row[t - choice * task.longest // task.symbols])
    return found


@settings(max_examples=60)
@given(task=TASKS, seed=st.integers(0, 2**32))
def test_every_target_is_the_sum_of_the_memories_that_were_looked_up(
    task: AdaptiveMemory, seed: int
) -> None:
    batch = task.sample(np.random.default_rng(seed), 5, Split.TRAIN)
    assert not batch.scored[:, : task.longest].any() and batch.scored[:, task.longest :].all()
    for row, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        for t in range(task.longest, task.length):
            total = sum(looked_up(task, row, t))
            if task.values == "tokens":
                assert targets[t] == total % task.symbols
            else:
                assert targets[t] == pytest.approx(total / math.sqrt(task.memories), abs=1e-5)


def test_real_numbers_choose_each_lag_as_often() -> None:
    task = AdaptiveMemory(values="reals", symbols=5)
    inputs = task.sample(np.random.default_rng(0), 1000, Split.TRAIN).inputs
    counts = np.bincount(task.symbols_of(inputs).ravel())
    assert counts / inputs.size == pytest.approx([0.2] * 5, abs=0.01)
    assert task.metrics == ("loss",) and AdaptiveMemory().metrics == ("acc", "loss")


def test_the_example_of_the_module_is_a_row() -> None:
    task = AdaptiveMemory(memories=2, levels=2, longest=4, symbols=2, length=6)
    text = next(line for line in (adaptive_memory.__doc__ or "").splitlines() if "<sep>" in line)
    prompt, answer = (half.split() for half in text.removesuffix("<eos>").split("<sep>"))
    targets = task.targets(np.array([prompt], dtype=np.int64))[0].tolist()
    assert answer == [*"....", *map(str, targets)]


def reach(task: AdaptiveMemory) -> set[int]:
    """Distances at which some input matters to the last target."""
    inputs = task.sample(np.random.default_rng(0), 400, Split.TRAIN).inputs
    target = task.targets(inputs)[:, -1]
    mattering = set()
    for distance in range(task.length):
        changed = inputs.copy()
        at = task.length - 1 - distance
        changed[:, at] = (changed[:, at] + 1) % task.symbols
        if (task.targets(changed)[:, -1] != target).any():
            mattering.add(distance)
    return mattering


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_lags_reach_all_the_distances_up_to_the_longest(levels: int) -> None:
    task = AdaptiveMemory(memories=3, levels=levels, longest=12, symbols=4, length=20)
    assert task.lags == (3, 6, 9, 12)
    assert reach(task) == {0, 3, 6, 9, 12}
