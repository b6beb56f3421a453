"""LIS: how long is the longest strictly increasing subsequence of n integers?

A row holds the integers, for each of them the length of the longest increasing subsequence that
ends there, and the largest of these lengths:

    3 1 2 5 <sep> 1 1 2 3 <sep> 3 <eos>

As in Feng et al. 2023, one to three increasing runs are planted among random values, so that
answers spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import (
    EOS,
    SEP,
    SPECIALS,
    ChainTask,
    IntArray,
    as_count,
    below,
    compiled,
    number_words,
    require_range,
)

VERSION = 1
NUMBER = len(SPECIALS)
"""Id of the number 0; values and lengths share their ids."""


@dataclass(frozen=True)
class LIS(ChainTask):
    """Length of the longest strictly increasing subsequence of n integers.

    The chain is the dynamic program: the length of the longest one that ends at each integer.

    Source: Feng et al. 2023 (arXiv 2305.15408), and Yang et al. 2024 (P1, arXiv 2402.13934).

    Family: chain of thought

    Examples:
        $ sweepd sample lis --set n=4 --set value_range=10 --count 2
        9 5 7 6 <sep> 1 1 2 2 <sep> 2 <eos>
        4 6 5 7 <sep> 1 2 2 3 <sep> 3 <eos>
    """

    n: int = 40
    """integers in a problem"""
    value_range: int = 250
    """integers are drawn from 0 to value_range - 1"""

    size_field: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        require_range(self, "n", 1, 50_000)
        require_range(self, "value_range", 2, 100_000)

    @property
    def vocab(self) -> tuple[str, ...]:
        return SPECIALS + number_words(max(self.value_range, self.n + 1))

    @property
    def prompt_length(self) -> int:
        return self.n + 1

    @property
    def chain_length(self) -> int:
        return self.n + 1

    def distinct_inputs(self) -> float:
        return as_count(self.value_range**self.n)

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        _fill(rng, tokens, self.n, self.value_range)


@compiled
def _fill(rng: np.random.Generator, tokens: IntArray, n: int, value_range: int) -> None:
    values = np.empty(n, dtype=np.int64)
    tails = np.empty(n, dtype=np.int64)
    for row in tokens:
        _draw(rng, values, value_range)
        # tails[k] is the least value that ends an increasing subsequence of length k + 1.
        longest = 0
        for i in range(n):
            k = np.searchsorted(tails[:longest], values[i])
            tails[k] = values[i]
            longest = max(longest, k + 1)
            row[i] = NUMBER + values[i]
            row[n + 1 + i] = NUMBER + k + 1
        row[n] = row[2 * n + 1] = SEP
        row[2 * n + 2] = NUMBER + longest
        row[2 * n + 3] = EOS


@compiled
def _draw(rng: np.random.Generator, values: IntArray, value_range: int) -> None:
    """Fills `values` with random values, among them one to three increasing runs at random
    places."""
    n = len(values)
    for i in range(n):
        values[i] = below(rng, value_range)
    most = min(n, value_range)  # a run has no value twice
    least = min(3, most)
    planted = least + below(rng, most - least + 1)
    places = np.empty(planted, dtype=np.int64)
    runs = np.empty(planted, dtype=np.int64)
    _choose(rng, n, places)
    end = 0
    for runs_left in range(1 + below(rng, 3), 0, -1):
        length = planted - end
        if runs_left > 1:
            length = min(length, 1 + below(rng, length // runs_left + 1))
        _choose(rng, value_range, runs[end : end + length])
        end += length
    for k in range(planted):
        values[places[k]] = runs[k]


@compiled
def _choose(rng: np.random.Generator, stop: int, chosen: IntArray) -> None:
    """Fills `chosen` with distinct integers below `stop`, ascending. All subsets are equally likely
    (Knuth's Algorithm S)."""
    found = 0
    candidate = 0
    while found < len(chosen):
        if rng.random() * (stop - candidate) < len(chosen) - found:
            chosen[found] = candidate
            found += 1
        candidate += 1
