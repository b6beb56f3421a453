"""Adaptive memory: what do the inputs give together at distances that the inputs themselves choose?

The k-th of M memories lies at one of `symbols` lags, spread evenly up to the longest. Which one it
is depends on k, on the input at hand and on the memories found before, as far as there are levels:

    c_k = (k - 1 + s(x_t) + s(m_1) + … + s(m_j)) mod symbols,  j = min(k, K) - 1
    m_k = x_(t - floor((c_k + 1) · longest / symbols))
    y_t = m_1 + … + m_M

Of ids, s(x) = x and the target is taken modulo `symbols`. With 2 symbols, longest = 4, M = K = 2
(a dot where not all memories are sure to exist):

    1 0 1 1 0 1 <sep> . . . . 0 1 <eos>

Of real numbers, s(x) says in which of `symbols` equally likely intervals x lies, 0 for the least
numbers, and the target is divided by sqrt(M), so that targets have variance 1.

P2 leaves open which functions choose the lags and give the target. The functions here are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sweepd.tasks.base import Rows, SumOfMemories

VERSION = 1


@dataclass(frozen=True)
class AdaptiveMemory(SumOfMemories):
    """Sum of the inputs at M lags which the inputs choose, over K levels, at every position.

    Source: Wang & E 2024 (P2, arXiv 2402.00522), K-adaptive memories. Ours: the functions that
    choose the lags and give the target.

    Family: memory

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample adaptive_memory --set longest=8 --set length=14 --count 1
        0 7 3 7 3 2 3 7 0 6 3 6 7 0 <sep> . . . . . . . . 2 2 5 2 1 5 <eos>
    """

    levels: int = 1
    """K: memories up to the K-th depend on all before them, later ones on the first K - 1"""
    longest: int = 16
    """largest lag; the c-th of `symbols` to choose from is floor(c · longest / symbols)"""

    def __post_init__(self) -> None:
        super().__post_init__()
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
    def lags(self) -> tuple[int, ...]:
        """The lags to choose from, ascending."""
        return tuple(c * self.longest // self.symbols for c in range(1, self.symbols + 1))

    def targets(self, inputs: Rows) -> Rows:
        lags, symbols = np.array(self.lags), self.symbols_of(inputs)
        position = np.arange(self.longest, self.length)
        known = symbols[:, self.longest :].copy()
        memories = []
        for k in range(self.memories):
            at = position - lags[(k + known) % self.symbols]
            memories.append(np.take_along_axis(inputs, at, axis=1))
            if k < self.levels - 1:
                known += np.take_along_axis(symbols, at, axis=1)
        return self.total(memories)

    def symbols_of(self, inputs: Rows) -> Rows:
        """Returns (B, T) the ids, from 0 to symbols - 1, by which the inputs choose lags."""
        if self.values == "tokens":
            return inputs
        bounds = [NormalDist().inv_cdf(c / self.symbols) for c in range(1, self.symbols)]
        return np.searchsorted(bounds, inputs)
