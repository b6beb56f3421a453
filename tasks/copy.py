"""Copying: which string of n letters was given?

A row holds the string twice (here n = 4, of 26 letters):

    q a z a <sep> q a z a <eos>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import EOS, SEP, SPECIALS, ChainTask, IntArray, as_count, require_range

VERSION = 1
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Copy(ChainTask):
    """A string of n random letters, to be repeated. The answer is right only as a whole.

    Source: Jelassi et al. 2024 ("Repeat After Me", arXiv 2402.01032): a transformer of two layers
    copies strings exponentially longer than it is large; a model of fixed state has to hold the
    string. Ours: strings of exactly n letters, where the paper trains on all lengths up to n.

    Family: recall

    Examples:
        $ sweepd sample copy --set n=4 --count 1
        q g w n <sep> q g w n <eos>
    """

    n: int = 16
    """letters of the string"""
    letters: int = 26
    """different letters, from a on"""

    size_field: ClassVar[str] = "n"
    metrics: ClassVar[tuple[str, ...]] = ("acc", "loss")

    def __post_init__(self) -> None:
        require_range(self, "n", 1, 100_000)
        require_range(self, "letters", 2, len(LETTERS))

    @property
    def vocab(self) -> tuple[str, ...]:
        return (*SPECIALS, *LETTERS[: self.letters])

    @property
    def prompt_length(self) -> int:
        return self.n + 1

    @property
    def answer_length(self) -> int:
        return self.n

    def distinct_inputs(self) -> float:
        return as_count(self.letters**self.n)

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        string = rng.integers(self.letters, size=(len(tokens), self.n)) + len(SPECIALS)
        tokens[:, : self.n], tokens[:, self.n + 1 : -1] = string, string
        tokens[:, self.n], tokens[:, -1] = SEP, EOS
