"""What tasks of long but sparse memories share (P2: Wang & E 2024, arXiv 2402.00522)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

import numpy as np

from sweepd.tasks._rows import Inputs, RowTask, Targets, hash_inputs
from sweepd.tasks._task import BLOCK, IGNORE, Batch, HashArray, Rows, Split
from sweepd.tasks._tools import as_count, number_words, require_range

Values = Literal["tokens", "reals"]


@dataclass(frozen=True)
class MemoryTask(RowTask):
    """A task of a fixed length with a target y_t at every position t that has its memories.

    Inputs x_t are drawn one by one. They are ids, all equally likely, or standard normal numbers
    where the vocabulary is empty. Targets are ids of the same vocabulary, or real numbers.
    """

    length: int = field(default=64, kw_only=True)
    """T, positions in a row"""
    score_from: int | None = field(default=None, kw_only=True)
    """first position that a score counts, of rows from 0 to T - 1: targets before it are trained
    on all the same. None counts all that have their memories"""

    def __post_init__(self) -> None:
        require_range(self, "length", 1, 10_000)
        if self.score_from is not None:
            require_range(self, "score_from", 0, self.length - 1)

    @abstractmethod
    def targets(self, inputs: Rows) -> Rows:
        """Returns the targets of the last positions of each row of inputs (B, T). The positions
        before these lack memories and have no target."""

    def distinct_inputs(self) -> float:
        return as_count(len(self.vocab) ** self.length) if self.vocab else math.inf

    def sample(self, rng: np.random.Generator, count: int, split: Split) -> Batch:
        inputs = self.drawn(count, split, self._inputs(BLOCK), lambda rows: self._filled(rng, rows))
        targets = self.targets(inputs)
        missing = ((0, 0), (self.length - targets.shape[1], 0))
        nothing = IGNORE if self.vocab else np.nan
        targets = np.pad(targets, missing, constant_values=nothing)
        if split is not Split.TRAIN:
            targets[:, : self.score_from or 0] = nothing
        return Batch(inputs, targets)

    def _filled(self, rng: np.random.Generator, rows: Rows) -> HashArray:
        """Writes random inputs over all of `rows`. Returns (B,) their hashes."""
        if self.vocab:
            rows[:] = rng.integers(len(self.vocab), size=rows.shape)
        else:
            rng.standard_normal(dtype=np.float32, out=rows)
        return hash_inputs(rows)

    def draw(self, rng: np.random.Generator) -> tuple[Inputs, Targets]:
        """Returns the inputs and targets of one random row."""
        [inputs] = block = self._inputs(1)
        self._filled(rng, block)
        [targets] = self.targets(block)
        gap = [None] * (self.length - len(targets))
        if self.vocab:
            return self.words(inputs), [*gap, *self.words(targets)]
        return inputs.tolist(), [*gap, *targets.tolist()]

    def _inputs(self, rows: int) -> Rows:
        return np.empty((rows, self.length), dtype=np.int64 if self.vocab else np.float32)


@dataclass(frozen=True)
class SumOfMemories(MemoryTask):
    """A task whose target is the sum of M memories.

    A sum of ids is taken modulo `symbols`. A sum of real numbers is divided by sqrt(M), so that
    targets have variance 1.
    """

    memories: int = 2
    """M"""
    values: Values = field(default="tokens", kw_only=True)
    """what inputs and targets are"""
    symbols: int = field(default=8, kw_only=True)
    """different ids"""

    size_field: ClassVar[str] = "memories"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range(self, "memories", 1, 10_000)
        require_range(self, "symbols", 2, 10_000)
        if self.values not in get_args(Values):
            raise ValueError(f"values = {self.values!r}: must be tokens or reals")
        if self.values == "reals":  # real targets have no acc
            object.__setattr__(self, "metrics", ("loss",))

    @property
    def vocab(self) -> tuple[str, ...]:
        return number_words(self.symbols) if self.values == "tokens" else ()

    def total(self, memories: Sequence[Rows]) -> Rows:
        """Returns the targets (B, T) for these memories, each (B, T)."""
        found: Rows = np.sum(memories, axis=0)
        if self.values == "tokens":
            return found % self.symbols
        return found / np.float32(np.sqrt(self.memories))
