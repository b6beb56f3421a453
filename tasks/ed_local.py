"""ED_local: edit distance with a chain that keeps in reach all that its next token depends on.

P1 names such a task and does not publish its format, so the format here is ours. It is that of
`edit_distance` with two differences. Each row of the dynamic program starts with what is left of
the first string, from the row's own letter on. Each cell follows its letter of the second string:

    a b | a c b <sep> a b | a 0 c 2 b 4 , b | a 2 c 3 b 2 , <sep> 2 <eos>

In `edit_distance` each cell needs letters of the prompt, which may lie nearly the whole chain
before it. Here no token needs to see further back than the row before
(`LocalEditDistance.locality`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweepd.tasks.base import PAD, SEP, IntArray, compiled
from sweepd.tasks.edit_distance import BAR, EditDistance

VERSION = 1


@dataclass(frozen=True)
class LocalEditDistance(EditDistance):
    """Edit distance of two strings, by rows that repeat the letters which they need.

    Source: Yang et al. 2024 (P1, arXiv 2402.13934) names an edit distance of higher locality.
    Ours: the format, which P1 does not publish.

    Family: chain of thought

    Examples:
        $ sweepd sample ed_local --set n=3 --count 1
        z | m m z <sep> z | m 3 m 5 z 4 , <sep> 4 <eos>
    """

    @property
    def chain_length(self) -> int:
        bars_and_letters = self.n + self.n * (self.n + 1) // 2 + self.n * (self.n + self.longer)
        return super().chain_length + bars_and_letters

    @property
    def locality(self) -> int:
        """m: each chain token, <eos> included, is a function of the m tokens before it.

        The end of a row depends on the furthest token. Whether every letter of the second string
        has had its cell shows only from the bar of the row before on, which is one row and its
        cells back. How many rows there were is not needed. The distance of the first i letters to
        none is 2i, and follows from their distance to the second string's first letter, which is 2i
        - 2 or 2i + 1.
        """
        return self.n + 4 * (self.n + self.longer) + 2

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        plain = np.full_like(tokens, PAD)
        super().fill(rng, plain)
        _repeat_letters(plain, tokens, BAR)


@compiled
def _repeat_letters(plain: IntArray, tokens: IntArray, bar: int) -> None:
    """Writes each row of `plain`, which is in the format of edit_distance, into `tokens` in this
    one."""
    for source, row in zip(plain, tokens):  # noqa: B905 (numba knows no strict)
        first = 0
        while source[first] != bar:
            first += 1
        sep = first + 1
        while source[sep] != SEP:
            sep += 1
        second = source[first + 1 : sep]
        read = write = sep + 1
        row[:write] = source[:read]
        for i in range(first):
            left = first - i + 1  # letters of the first string, and the bar
            row[write : write + left] = source[i : first + 1]
            write += left
            for letter in second:
                row[write] = letter
                row[write + 1] = source[read]
                read += 1
                write += 2
            row[write] = source[read]  # the comma
            read += 1
            write += 1
        row[write : write + 3] = source[read : read + 3]  # separator, answer, <eos>
