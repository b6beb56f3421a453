"""Index lookup: which of N symbols stands at a position that is named afterwards?

A row holds N symbols and then positions, counted from 1. The target of each position is the symbol
there (here N = 6, of 16 symbols a to p, and 2 positions):

    c a p a f b 3 5 <sep> . . . . . . p f <eos>

A model that reads from left to right with a state of fixed size has to keep all N symbols. One that
looks back may find the one that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import Rows, RowTask, as_count, number_words, require_range

VERSION = 1
LETTERS = tuple("abcdefghijklmnop")


@dataclass(frozen=True)
class Lookup(RowTask):
    """The symbol at each of some positions among N symbols before them.

    Source: Bhattamishra et al. 2024 (arXiv 2406.09347), index lookup: theory has the width of a
    one-layer transformer grow like log N, and the state of a recurrent model like N. Ours: several
    positions a row, which all differ where N allows.

    Family: recall

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample lookup --set n=6 --set queries=2 --count 1
        n l n n h g 5 6 <sep> . . . . . . h g <eos>
    """

    n: int = 16
    """N, symbols to look up"""
    queries: int = 4
    """positions that are asked for"""

    size_field: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        require_range(self, "n", 2, 10_000)
        require_range(self, "queries", 1, 10_000)

    @property
    def vocab(self) -> tuple[str, ...]:
        return (*LETTERS, *number_words(self.n + 1)[1:])

    @property
    def length(self) -> int:
        return self.n + self.queries

    def distinct_inputs(self) -> float:
        positions = 1
        for query in range(self.queries):
            positions *= self.n - query % self.n
        return as_count(len(LETTERS) ** self.n * positions)

    def fill(self, rng: np.random.Generator, inputs: Rows, targets: Rows) -> None:
        rows = len(inputs)
        symbols = rng.integers(len(LETTERS), size=(rows, self.n))
        # Every position is asked for once before one is asked for again.
        rounds = -(-self.queries // self.n)
        order = [rng.random((rows, self.n)).argsort(axis=1) for _ in range(rounds)]
        at = np.concatenate(order, axis=1)[:, : self.queries]
        inputs[:, : self.n] = symbols
        inputs[:, self.n :] = len(LETTERS) + at
        targets[:, self.n :] = np.take_along_axis(symbols, at, axis=1)
