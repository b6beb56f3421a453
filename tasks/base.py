"""What a task is: a seeded distribution of problems, and the rule that keeps its splits apart.

A task is a frozen dataclass; its fields are its parameters (scalars with defaults, so that a
grid may make any of them an axis) and `__post_init__` raises ValueError for impossible values.
This package knows NumPy, numba and this file, nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
HashArray = npt.NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., Any])

PAD, SEP, EOS = 0, 1, 2
SPECIALS = ("<pad>", "<sep>", "<eos>")
IGNORE = -1
"""Target at positions that carry no loss."""

SHARES = 16
"""Equal shares of hash values that the splits divide among them."""
BLOCK = 256
"""Most rows drawn at a time: they stay in the processor's cache."""


def compiled(function: F) -> F:
    """Compile a row-filling loop to machine code (numba, cached on disk).

    The cache notices changes of the function's own file only: a compiled function may call
    others of its module and `below`, never those of another one.
    """
    return cast(F, numba.njit(cache=True)(function))


@compiled
def below(rng: np.random.Generator, stop: int) -> int:
    """A random integer from 0 to stop - 1; in numba 20 times faster than `rng.integers`.

    Values differ in probability by less than stop / 2**53.
    """
    return int(rng.random() * stop)


def number_words(count: int) -> tuple[str, ...]:
    """Vocabulary entries for the integers 0 to count - 1."""
    return tuple(str(number) for number in range(count))


def as_count(number: int) -> float:
    """An exact count as a float, infinite where a float cannot hold it."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


class Split(Enum):
    """Which inputs a sample may hold, by a hash of the input: no input is in two splits.

    Of 16 equal shares of hash values, training has 14, checks 1 and the verdict 1.
    """

    TRAIN = range(14)
    CHECK = range(14, 15)
    VERDICT = range(15, SHARES)


@dataclass(frozen=True)
class Batch:
    """What a model trains on.

    inputs: (B, T) token ids. targets: (B, T) the id to be predicted at each position, or IGNORE.
    """

    inputs: IntArray
    targets: IntArray


@dataclass(frozen=True)
class Chains:
    """Rows `prompt, chain of thought, answer, <eos>`, padded with PAD.

    tokens: (B, T) ids. prompts: (B,) tokens up to and including the first separator.
    lengths: (B,) tokens including <eos>.
    """

    tokens: IntArray
    prompts: IntArray
    lengths: IntArray

    def batch(self) -> Batch:
        """Next-token prediction; the loss covers what follows the prompt, through <eos>."""
        targets = self.tokens[:, 1:].copy()
        position = np.arange(1, self.tokens.shape[1])
        outside = (position < self.prompts[:, None]) | (position >= self.lengths[:, None])
        targets[outside] = IGNORE
        return Batch(self.tokens[:, :-1], targets)


class Task(ABC):
    """A seeded distribution of problems with a size."""

    size_field: ClassVar[str]
    """Name of the parameter that is the task's own knob for size (n, operators, …)."""
    metrics: ClassVar[tuple[str, ...]]
    """What an evaluation of this task reports, and so what a goal may read."""

    @property
    def size(self) -> int:
        return int(getattr(self, self.size_field))

    @property
    @abstractmethod
    def vocab(self) -> tuple[str, ...]:
        """Token strings; the index is the id."""

    @property
    @abstractmethod
    def L(self) -> int:  # noqa: N802 (the field's own name)
        """Largest number of tokens before <eos> (FACTS: the published value where there is one)."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """Length bound of any row, <eos> included: what buffers and positions must hold."""

    def words(self, ids: Iterable[int]) -> list[str]:
        """The token strings of ids."""
        vocab = self.vocab
        return [vocab[token] for token in ids]

    @abstractmethod
    def distinct_inputs(self) -> float:
        """Number of different inputs (or an upper bound), to warn when they are too few."""

    @abstractmethod
    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        """`count` rows of the split, drawn from `rng` alone."""


class ChainTask(Task):
    """A task whose rows are `prompt <separator> chain <separator> answer <eos>`."""

    metrics: ClassVar[tuple[str, ...]] = ("acc", "chain_acc", "loss")
    separator: ClassVar[int] = SEP
    """Id of the token that first ends the prompt and last precedes the answer."""

    @abstractmethod
    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        """Write one random row into each row of `tokens` (B, capacity), which arrives all PAD."""

    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Chains:
        """`count` (at least 1) rows whose inputs hash into the split, in the order of drawing.

        ValueError if the split holds next to nothing of what `fill` draws.
        """
        if count < 1:
            raise ValueError(f"count = {count}: must be at least 1")
        share = len(split.value) / SHARES
        draws_left = 4096 + math.ceil(16 * count / share)
        block = np.empty((BLOCK, self.capacity), dtype=np.int64)
        kept = np.empty((count, self.capacity), dtype=np.int64)
        missing = count
        while missing > 0:
            if draws_left <= 0:
                raise ValueError(
                    f"{self} has too few distinct inputs (at most {self.distinct_inputs():.3g}): "
                    f"hardly any falls into the {split.name.lower()} split; choose a larger setting"
                )
            # Enough in most cases: two standard deviations more than are missing.
            rows = min(BLOCK, math.ceil((missing + 2 * math.sqrt(missing)) / share))
            draws_left -= rows
            draws = block[:rows]
            draws[:] = PAD
            self.fill(rng, draws)
            hashes = hash_prompts(draws, _through_first(draws, self.separator))
            inside = np.flatnonzero(np.isin(hashes % np.uint64(SHARES), split.value))[:missing]
            start = count - missing
            # Straight into place: with its default mode, take would go through a copy.
            np.take(draws, inside, axis=0, out=kept[start : start + len(inside)], mode="clip")
            missing -= len(inside)
        lengths = _through_first(kept, EOS)
        return Chains(kept[:, : lengths.max()], _through_first(kept, self.separator), lengths)

    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        return self.sample(rng, count, split).batch()

    def answer(self, tokens: Sequence[int] | IntArray) -> tuple[int, ...]:
        """The answer's ids in a row without <eos>: what follows the last separator."""
        ids = [int(token) for token in tokens]
        return tuple(ids[len(ids) - ids[::-1].index(self.separator) :])


@compiled
def hash_prompts(tokens: IntArray, prompts: IntArray) -> HashArray:
    """(B,) 64-bit hashes of the first prompts[b] ids of each row, and of nothing else.

    The splits rest on these values: changing them makes every stored result incomparable.
    Each id goes through the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
    """
    hashes = np.empty(len(tokens), dtype=np.uint64)
    for row in range(len(tokens)):
        state = np.uint64(prompts[row])
        for column in range(prompts[row]):
            state = (state ^ np.uint64(tokens[row, column])) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state ^= state >> np.uint64(31)
        hashes[row] = state
    return hashes


def _through_first(tokens: IntArray, token: int) -> IntArray:
    """(B,) how many tokens of each row end with its first `token`."""
    position: IntArray = (tokens == token).argmax(axis=1)
    assert (tokens[np.arange(len(tokens)), position] == token).all(), f"a row without id {token}"
    return position + 1
