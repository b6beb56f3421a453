"""Memory tasks. Beside their definitions, position by position: the lags of fixed memory, those
that adaptive memory follows, the double sum of sparse memory. And what they get from their base
class: draws, splits by a hash of the whole row, and targets."""

import math
from collections.abc import Callable
from statistics import NormalDist
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import adaptive_memory, fixed_memory
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.base import IGNORE, SHARES, Batch, MemoryTask, Split, hash_prompts
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.sparse_memory import Kernel, SparseMemory

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


FIXED = st.integers(1, 8).flatmap(
    lambda memories: st.tuples(st.just(memories), st.integers(memories, 30), st.integers(2, 9))
)


@settings(max_examples=40)
@given(setting=FIXED, beyond=st.integers(1, 10), seed=st.integers(0, 2**32))
def test_a_target_of_fixed_memory_is_the_sum_of_its_memories(
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


@pytest.mark.parametrize("memories", [1, 2, 5])
def test_real_targets_have_variance_one(memories: int) -> None:
    task = FixedMemory(memories, values="reals")
    targets = task.sample(np.random.default_rng(0), 1000, Split.TRAIN).targets
    assert np.nanvar(targets) == pytest.approx(1, abs=0.05)


ADAPTIVE = st.builds(
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
@given(task=ADAPTIVE, seed=st.integers(0, 2**32))
def test_a_target_of_adaptive_memory_is_the_sum_of_what_was_looked_up(
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


@pytest.mark.parametrize(
    ("module", "task"),
    [
        (fixed_memory, FixedMemory(memories=2, longest=4, symbols=4, length=7)),
        (adaptive_memory, AdaptiveMemory(memories=2, levels=2, longest=4, symbols=2, length=6)),
    ],
    ids=["fixed", "adaptive"],
)
def test_the_example_of_the_module_is_a_row(module: ModuleType, task: MemoryTask) -> None:
    text = next(line for line in (module.__doc__ or "").splitlines() if "<sep>" in line)
    prompt, answer = (half.split() for half in text.removesuffix("<eos>").split("<sep>"))
    targets = task.targets(np.array([prompt], dtype=np.int64))[0].tolist()
    assert answer == [*"....", *map(str, targets)]


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
def test_a_target_of_sparse_memory_is_the_weighted_sum_of_what_came(
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
