"""What tasks with targets at single positions get from their base class: padding, splits and
examples."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.base import IGNORE, MemoryTask, RowTask, Split
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.sparse_memory import SparseMemory


@dataclass(frozen=True)
class Echo(RowTask):
    """Up to n letters; from the second on, each position wants the letter before."""

    n: int = 4
    spoilt: str = ""

    size_field = "n"

    @property
    def length(self) -> int:
        return self.n

    @property
    def vocab(self) -> list[str]:
        return ["a", "b", "c"]  # a list will do, though most write a tuple

    def draw(self, rng: np.random.Generator) -> Any:
        letters = list(rng.choice(["a", "b", "c"], size=rng.integers(2, self.n + 1)))
        match self.spoilt:
            case "long":
                letters = ["a"] * (self.n + 1)
            case "unknown":
                letters[0] = "z"
            case "short":
                return letters, [None]
            case "chained":
                return letters, [], letters
        return [*map(str, letters)], [None, *map(str, letters[:-1])]


@dataclass(frozen=True)
class Sums(RowTask):
    """Real numbers; the last position wants their sum."""

    n: int = 5

    size_field = "n"
    metrics = ("loss",)
    vocab = ()

    @property
    def length(self) -> int:
        return self.n

    def draw(self, rng: np.random.Generator) -> tuple[list[float], list[float | None]]:
        numbers = rng.standard_normal(self.n - 1).tolist()
        return numbers, [*[None] * (self.n - 2), sum(numbers)]


@dataclass(frozen=True)
class Drawn(RowTask):
    """The rows of a memory task, drawn one by one."""

    of: Any = None

    size_field = "length"

    @property
    def vocab(self) -> tuple[str, ...]:
        vocab: tuple[str, ...] = self.of.vocab
        return vocab

    @property
    def length(self) -> int:
        length: int = self.of.length
        return length

    def draw(self, rng: np.random.Generator) -> Any:
        return self.of.draw(rng)


def test_rows_are_padded_and_targets_stand_where_they_were_drawn() -> None:
    batch = Echo().sample(np.random.default_rng(0), 200, Split.TRAIN)
    assert batch.inputs.shape == batch.targets.shape == (200, 4)
    assert batch.inputs.dtype == batch.targets.dtype == np.int64
    lengths = batch.scored.sum(1) + 1
    assert set(lengths.tolist()) == {2, 3, 4}
    for inputs, targets, length in zip(batch.inputs, batch.targets, lengths, strict=True):
        assert targets.tolist() == [IGNORE, *inputs[: length - 1], *[IGNORE] * (4 - length)]
        assert not inputs[length:].any()


def test_real_rows_are_padded_too() -> None:
    batch = Sums().sample(np.random.default_rng(0), 50, Split.TEST)
    assert batch.inputs.dtype == batch.targets.dtype == np.float32
    assert batch.targets[:, 3] == pytest.approx(batch.inputs[:, :4].sum(1), abs=1e-5)
    assert (batch.scored == [False, False, False, True, False]).all()
    assert not batch.inputs[:, 4].any()


def test_no_row_is_in_two_splits() -> None:
    found = [
        {tuple(row) for row in Echo().sample(np.random.default_rng(0), 500, split).inputs.tolist()}
        for split in Split
    ]
    assert sum(map(len, found)) == len(set.union(*found))


def test_distinct_rows_are_estimated_and_lengths_told() -> None:
    # Of 117 rows; the shorter ones come more often, and count as fewer.
    assert 25 < Echo().distinct_inputs() < 117
    assert Echo().L == Echo().capacity == 4


@pytest.mark.parametrize(
    ("spoilt", "message"),
    [
        ("long", "Echo.draw: 5 inputs and 5 targets; .* at most length = 4"),
        ("short", "and 1 targets; there must be equally many"),
        ("chained", "Echo.draw returned 3 parts; it must return 2: inputs and targets"),
        ("unknown", "Echo drew 'z', which is no entry of its vocab"),
    ],
)
def test_what_makes_no_row_is_refused(spoilt: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Echo(spoilt=spoilt).sample(np.random.default_rng(0), 1, Split.TRAIN)


@pytest.mark.parametrize(
    "task",
    [
        FixedMemory(longest=4, symbols=5, length=9),
        FixedMemory(longest=4, values="reals", length=9),
        AdaptiveMemory(longest=4, symbols=3, length=9),
        SparseMemory(length=9),
    ],
    ids=repr,
)
def test_memory_tasks_have_the_rows_that_they_draw_one_by_one(task: MemoryTask) -> None:
    for split in Split:
        fast, slow = (
            kind.sample(np.random.default_rng(3), 40, split) for kind in (task, Drawn(of=task))
        )
        assert np.array_equal(fast.inputs, slow.inputs)
        np.testing.assert_allclose(fast.targets, slow.targets, rtol=1e-6)
