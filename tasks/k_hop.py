"""k-hop induction: where does a chain of k "what came after this last time?" lead?

One hop from a position goes to the position behind the last earlier place of the same symbol. The
target of each position is the symbol at which k hops end (a dot where they leave the row; here
k = 1, 3 symbols):

    a b a c b a <sep> . . b . a c <eos>

No symbol follows itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import IntArray, Rows, RowTask, as_count, below, compiled, require_range

VERSION = 1
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class KHop(RowTask):
    """The symbol to which k hops lead from each position.

    Source: Sanford et al. 2024 (arXiv 2402.09268), k-hop induction heads: rows of 100, 4 symbols, k
    up to 16; they prove that depth of order log k is needed and enough. Ours: all rows have the
    same k, and a position from which k hops leave the row has no target.

    Family: recall

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample k_hop --set k=1 --set length=8 --count 1
        d a c a b d b c <sep> . . . c . a d a <eos>
    """

    k: int = 2
    """hops"""
    length: int = 100
    """T, positions in a row"""
    symbols: int = 4
    """different symbols"""

    size_field: ClassVar[str] = "k"

    def __post_init__(self) -> None:
        require_range(self, "k", 1, 1000)
        require_range(self, "length", 2, 100_000)
        require_range(self, "symbols", 2, len(LETTERS))
        least = 1 + self.k * self.symbols
        if self.length < least:
            message = f"must be at least 1 + k · symbols = {least}, for rows without any target"
            raise ValueError(f"length = {self.length}: {message}")

    @property
    def vocab(self) -> tuple[str, ...]:
        return tuple(LETTERS[: self.symbols])

    def distinct_inputs(self) -> float:
        return as_count(self.symbols * (self.symbols - 1) ** (self.length - 1))

    def fill(self, rng: np.random.Generator, inputs: Rows, targets: Rows) -> None:
        _fill(rng, inputs, targets, self.k, self.symbols)


@compiled
def _fill(rng: np.random.Generator, inputs: Rows, targets: Rows, k: int, symbols: int) -> None:
    T = inputs.shape[1]
    hop: IntArray = np.empty(T, dtype=np.int64)  # where one hop leads, -1 for nowhere
    last: IntArray = np.empty(symbols, dtype=np.int64)  # where each symbol stood last
    for row in range(len(inputs)):
        last[:] = -1
        symbol = below(rng, symbols)
        for i in range(T):
            if i:
                symbol = (symbol + 1 + below(rng, symbols - 1)) % symbols
            inputs[row, i] = symbol
            hop[i] = last[symbol] + 1 if last[symbol] >= 0 else -1
            last[symbol] = i
        for i in range(T):
            at = i
            for _ in range(k):
                if at >= 0:
                    at = hop[at]
            if at >= 0:
                targets[row, i] = inputs[row, at]
