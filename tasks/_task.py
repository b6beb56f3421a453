"""What every task is: a seeded distribution of problems, and the rule that keeps its splits apart.

A task is a frozen dataclass. Its fields are its parameters: scalars with defaults, so that a grid
may make any of them an axis. `__post_init__` raises ValueError for impossible values.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sweepd.tasks._tools import compiled

IntArray = npt.NDArray[np.int64]
RealArray = npt.NDArray[np.float32]
HashArray = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[Any]
"""(B, T): ids (int64) or real numbers (float32)."""

PAD, SEP, EOS = 0, 1, 2
SPECIALS = ("<pad>", "<sep>", "<eos>")
IGNORE = -1
"""The target at positions that carry no loss; among real numbers it is NaN."""

SHARES = 16
"""Hash values fall into this many equal shares, which the splits divide among them."""
BLOCK = 256
"""Most rows that are drawn at a time: they stay in the processor's cache."""
DRAWS_TO_COUNT = 4096
"""Rows that are drawn to estimate how many different inputs there are."""


class Split(Enum):
    """The inputs that a sample may hold, by a hash of the input. No input is in two splits.

    Of 16 equal shares of hash values, training has 14, checks have 1 and the test has 1.
    """

    TRAIN = range(14)
    CHECK = range(14, 15)
    TEST = range(15, SHARES)


@dataclass(frozen=True)
class Batch:
    """What a model trains on.

    inputs: (B, T) token ids, or real numbers. targets: (B, T) the id (or the real number) that is
    to be predicted at each position; IGNORE (or NaN) where there is none.
    """

    inputs: Rows
    targets: Rows

    @property
    def scored(self) -> Flags:
        """Whether each position has a target, (B, T)."""
        return ~np.isnan(self.targets) if self.targets.dtype.kind == "f" else self.targets != IGNORE

    def check(self, count: int) -> None:
        """Raises ValueError unless these are `count` rows that can be trained on.

        Without this check, invalid rows would look like a model that learns nothing, or that
        diverges.
        """
        shapes = self.inputs.shape, self.targets.shape
        if shapes[0] != shapes[1] or len(self.inputs) != count:
            raise ValueError(f"{count} rows were asked for; inputs and targets are {shapes}")
        if not self.scored.any():
            raise ValueError("the task gave a batch without a target")
        for name, rows in (("inputs", self.inputs), ("targets", self.targets)):
            if rows.dtype.kind == "f" and np.isinf(rows).any():
                raise ValueError(f"the task gave infinite {name}")
        if self.inputs.dtype.kind == "f" and np.isnan(self.inputs).any():
            raise ValueError("the task gave inputs that are no numbers")


@dataclass(frozen=True)
class Example:
    """A row for people to look at.

    tokens: the prompt, what is to be predicted, and <eos>. answer: the part of what is to be
    predicted that counts, in words. prompt_length: how many of the tokens are given.
    """

    tokens: list[str]
    answer: str
    prompt_length: int


class Task(ABC):
    """A seeded distribution of problems with a size.

    Most tasks are a `ChainTask`, whose answer is decoded after a chain of thought, or a `RowTask`,
    which has targets at single positions.
    """

    size_field: ClassVar[str]
    """Name of the parameter that is the task's own knob for size (n, operators, …)."""
    metrics: ClassVar[Sequence[str] | Mapping[str, str]]
    """What an evaluation reports, and so what a goal may read: names of acc, chain_acc and loss, or
    a mapping of any names to "up" if more is better, else "down". A setting may narrow it."""

    @property
    def size(self) -> int:
        return int(getattr(self, self.size_field))

    @property
    @abstractmethod
    def vocab(self) -> Sequence[str]:
        """The token strings. The index of a string is its id. Empty where rows are real numbers."""

    @property
    @abstractmethod
    def L(self) -> int:  # noqa: N802 (the field's own name)
        """The largest number of tokens before <eos>, or the published value where there is one."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """The bound of the length of any row, <eos> included. Buffers and positions must hold that
        many."""

    def words(self, ids: Iterable[int]) -> list[str]:
        """Returns the token strings of ids."""
        vocab = self.vocab
        return [vocab[token] for token in ids]

    def ids(self, words: Iterable[str]) -> list[int]:
        """Returns the ids of token strings. Raises ValueError for a string that `vocab` lacks."""
        index, words = _index(tuple(self.vocab)), list(words)
        for word in words:
            if not (isinstance(word, str) and word in index):
                raise ValueError(
                    f"{type(self).__name__} drew {word!r}, which is no entry of its vocab; "
                    "tokens are strings, each one an entry of vocab"
                )
        return [index[word] for word in words]

    @abstractmethod
    def distinct_inputs(self) -> float:
        """Returns the number of different inputs (or a bound), to warn when they are too few."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Any:
        """Returns `count` (at least 1) rows whose inputs hash into the split, drawn from `rng`
        alone. They are `Chains`, or a `Batch` in which every target counts by itself.

        Raises ValueError if hardly any of what the task draws falls into the split.
        """

    @abstractmethod
    def batch(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        """Returns the rows of `sample` in the form that a model trains on."""

    @abstractmethod
    def examples(self, rng: np.random.Generator, count: int, split: Split) -> Iterator[Example]:
        """Yields the rows of `sample` in a form for people to look at."""

    def right(self, found: Rows, batch: Batch) -> Flags | None:
        """Returns what `acc` counts in a sample that is a Batch: (B, T) whether each target is met,
        or (B,) whether each row is. Returns None where there is no `acc`, as by default for real
        numbers.

        found: (B, T) what a model gives at each position, the likeliest id or a real number.
        """
        return None if batch.targets.dtype.kind == "f" else found == batch.targets

    def scores(self, found: Any, wanted: Any) -> Mapping[str, float]:
        """Returns the task's own metrics over a whole sample: those that are not acc, chain_acc or
        loss.

        found: (B, T) what a model gives at each position, as in `right`. wanted: the Batch. Of
        `Chains` both are lists of answers, each a list of words. An answer in `found` is None where
        a model came to no end.
        """
        return {}

    def drawn(
        self, count: int, split: Split, block: Rows, fill: Callable[[Rows], HashArray]
    ) -> Rows:
        """Returns `count` rows that hash into the split, in the order of drawing.

        `fill` is given a part of `block`. It writes a random row into each of its rows, and returns
        the hashes of their inputs. Raises ValueError if count is less than 1, or if hardly any row
        falls into the split.
        """
        if count < 1:
            raise ValueError(f"count = {count}: must be at least 1")
        share = len(split.value) / SHARES
        draws_left = 4096 + math.ceil(16 * count / share)
        kept = np.empty((count, block.shape[1]), dtype=block.dtype)
        missing = count
        while missing > 0:
            if draws_left <= 0:
                raise ValueError(
                    f"{self} has too few distinct inputs (about {self.distinct_inputs():.3g}): "
                    f"hardly any falls into the {split.name.lower()} split; choose a larger setting"
                )
            # Enough in most cases: two standard deviations more than are missing.
            rows = min(BLOCK, math.ceil((missing + 2 * math.sqrt(missing)) / share))
            draws_left -= rows
            draws = block[:rows]
            shares = fill(draws) % np.uint64(SHARES)
            inside = np.flatnonzero(np.isin(shares, split.value))[:missing]
            start = count - missing
            # Straight into place: with its default mode, take would go through a copy.
            np.take(draws, inside, axis=0, out=kept[start : start + len(inside)], mode="clip")
            missing -= len(inside)
        return kept


@lru_cache(maxsize=16)
def _index(vocab: tuple[str, ...]) -> dict[str, int]:
    return {word: token for token, word in enumerate(vocab)}


def parts_of(task: Task, drawn: Any, *names: str) -> Any:
    """Returns what `draw` gave, as it is. Raises ValueError unless it has one part for each
    name."""
    sized = isinstance(drawn, Sequence | np.ndarray) and not isinstance(drawn, str)
    if not (sized and len(drawn) == len(names)):
        count = f"{len(drawn)} parts" if sized else f"{drawn!r:.60}"
        raise ValueError(
            f"{type(task).__name__}.draw returned {count}; it must return {len(names)}: "
            f"{', '.join(names[:-1])} and {names[-1]}"
        )
    return drawn


def estimated_count(block: Rows, fill: Callable[[Rows], HashArray]) -> float:
    """Returns about how many different inputs `fill` draws, from the equal pairs among 4096.

    n draws from N equally likely inputs hold n(n - 1) / 2N equal pairs on average. Where inputs are
    not equally likely, N is the number of equally likely ones that would repeat as often. Returns
    infinity where no two are equal, since there are then millions. `block` and `fill` are those of
    `Task.drawn`.
    """
    hashes = np.concatenate([fill(block) for _ in range(-(-DRAWS_TO_COUNT // len(block)))])
    _, counts = np.unique(hashes, return_counts=True)
    equal_pairs = int((counts * (counts - 1)).sum()) // 2
    return len(hashes) * (len(hashes) - 1) / 2 / equal_pairs if equal_pairs else math.inf


@compiled
def hash_prompts(tokens: IntArray, prompts: IntArray) -> HashArray:
    """Returns (B,) 64-bit hashes of the first prompts[b] ids of each row, and of nothing else.

    The splits depend on these values, so changing them makes every stored result incomparable. Each
    id goes through the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
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
