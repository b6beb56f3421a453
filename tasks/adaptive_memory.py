"""Adaptive memory: what do the ids give together at distances that the ids themselves choose?

The k-th of M memories lies at one of `symbols` lags, spread evenly up to the longest. Which one
is chosen by k, the id at hand and the memories found before, as far as there are levels:

    c_k = (k - 1 + x_t + m_1 + … + m_j) mod symbols,  j = min(k, K) - 1
    m_k = x_(t - floor((c_k + 1) · longest / symbols))
    y_t = (m_1 + … + m_M) mod symbols

With 2 symbols, longest = 4, M = K = 2 (a dot where not all memories are sure to exist):

    1 0 1 1 0 1 <sep> . . . . 0 1 <eos>

P2 leaves the functions open that choose the lags and give the target: these are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import MemoryTask, Rows, number_words, require_range


@dataclass(frozen=True)
class AdaptiveMemory(MemoryTask):
    """Sum of the ids at M lags which the ids choose, over K levels, at every position."""

    memories: int = 2
    """M"""
    levels: int = 1
    """K: memories up to the K-th depend on all before them, later ones on the first K - 1"""
    longest: int = 16
    """largest lag; the c-th to choose is floor(c · longest / symbols)"""
    symbols: int = 8
    """different ids, and different lags"""

    size_field: ClassVar[str] = "memories"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range(self, "memories", 1, 10_000)
        require_range(self, "symbols", 2, 10_000)
        if not 1 <= self.levels <= self.memories:
            raise ValueError(
                f"levels = {self.levels}: must be from 1 to memories = {self.memories}"
            )
        if not self.symbols <= self.longest < self.length:
            raise ValueError(
                f"longest = {self.longest}: must be at least symbols = {self.symbols}, for "
                f"different lags, and less than length = {self.length}, for any target"
            )

    @property
    def vocab(self) -> tuple[str, ...]:
        return number_words(self.symbols)

    @property
    def lags(self) -> tuple[int, ...]:
        """The distances to choose from, ascending."""
        return tuple(c * self.longest // self.symbols for c in range(1, self.symbols + 1))

    def targets(self, inputs: Rows) -> Rows:
        lags = np.array(self.lags)
        position = np.arange(self.longest, self.length)
        known = inputs[:, self.longest :].copy()
        total = np.zeros_like(known)
        for k in range(self.memories):
            lag = lags[(k + known) % self.symbols]
            memory = np.take_along_axis(inputs, position - lag, axis=1)
            total += memory
            if k < self.levels - 1:
                known += memory
        return total % self.symbols
