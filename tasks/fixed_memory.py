"""Fixed memory: what do the inputs at M fixed distances before each position give together?

The lags are spread evenly up to the longest: with 2 memories and longest = 4 they are 2 and 4.
Of ids, the target is the sum modulo `symbols` (4 here; a dot where a memory is missing):

    3 1 0 2 2 1 3 <sep> . . . . 3 3 2 <eos>

Of real numbers it is the sum divided by sqrt(M), so that targets have variance 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from sweepd.tasks.base import MemoryTask, Rows, number_words, require_range

Values = Literal["tokens", "reals"]


@dataclass(frozen=True)
class FixedMemory(MemoryTask):
    """Sum of the inputs at M fixed lags, at every position."""

    memories: int = 2
    """M"""
    longest: int = 16
    """largest lag; the k-th of M is floor(k · longest / M)"""
    values: Values = "tokens"
    symbols: int = 8
    """different ids; reals have none"""

    size_field: ClassVar[str] = "memories"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range(self, "memories", 1, 10_000)
        require_range(self, "symbols", 2, 10_000)
        if self.values not in get_args(Values):
            raise ValueError(f"values = {self.values!r}: must be tokens or reals")
        if not self.memories <= self.longest < self.length:
            raise ValueError(
                f"longest = {self.longest}: must be at least memories = {self.memories}, for "
                f"different lags, and less than length = {self.length}, for any target"
            )
        if self.values == "reals":  # of the class's metrics, which are those of ids
            object.__setattr__(self, "metrics", ("loss",))

    @property
    def vocab(self) -> tuple[str, ...]:
        return number_words(self.symbols) if self.values == "tokens" else ()

    @property
    def lags(self) -> tuple[int, ...]:
        """The distances, ascending."""
        return tuple(k * self.longest // self.memories for k in range(1, self.memories + 1))

    def targets(self, inputs: Rows) -> Rows:
        found = [inputs[:, self.longest - lag : self.length - lag] for lag in self.lags]
        total: Rows = np.sum(found, axis=0)
        if self.values == "tokens":
            return total % self.symbols
        return total / np.float32(np.sqrt(self.memories))
