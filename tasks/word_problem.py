"""Word problem of a finite group: what is the product of the elements so far?

A row holds n elements of the group. The target of each position is the product of the elements up
to there, from left to right (here in S3, whose elements are written as the places to which 1, 2
and 3 go):

    213 132 321 <sep> 213 312 132 <eos>
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import ClassVar, Literal, get_args

import numpy as np

from sweepd.tasks.base import IntArray, Rows, RowTask, as_count, compiled, require_range

VERSION = 1
Group = Literal["S3", "A5", "S5", "Z60"]


@dataclass(frozen=True)
class WordProblem(RowTask):
    """The product of each prefix of n random elements of a group.

    Source: Merrill et al. 2024 (arXiv 2404.08819): state tracking. With A5 or S5 it is complete for
    NC1, so the depth of transformers and of diagonal state-space models has to grow with n, while
    one layer of a recurrent network is enough. Z60, of as many elements as A5, is easy.

    Family: state tracking

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample word_problem --set n=4 --set group=S3 --count 1
        132 312 132 213 <sep> 132 321 231 132 <eos>
    """

    n: int = 16
    """elements in a row"""
    group: Group = "A5"
    """S3, S5: permutations of 3 and 5 things; A5: the even ones of 5; Z60: addition modulo 60"""

    size_field: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        require_range(self, "n", 1, 100_000)
        if self.group not in get_args(Group):
            raise ValueError(f"group = {self.group!r}: must be one of {', '.join(get_args(Group))}")

    @property
    def vocab(self) -> tuple[str, ...]:
        return _group(self.group)[0]

    @property
    def length(self) -> int:
        return self.n

    def distinct_inputs(self) -> float:
        return as_count(len(self.vocab) ** self.n)

    def fill(self, rng: np.random.Generator, inputs: Rows, targets: Rows) -> None:
        inputs[:] = rng.integers(len(self.vocab), size=inputs.shape)
        _products(inputs, _group(self.group)[1], targets)


@cache
def _group(name: Group) -> tuple[tuple[str, ...], IntArray]:
    """The names of a group's elements, and (m, m) its table: entry (a, b) is the element that
    comes of a first and b then."""
    if name == "Z60":
        elements = np.arange(60)
        return tuple(map(str, range(60))), (elements[:, None] + elements) % 60
    things = int(name[1])
    of_all = [np.array(order) for order in permutations(range(things))]
    kept = [order for order in of_all if name[0] == "S" or _is_even(order)]
    index = {tuple(order): i for i, order in enumerate(kept)}
    # `a` moves thing i to place a[i], and b moves what is there on to b[a[i]].
    table = np.array([[index[tuple(b[a])] for b in kept] for a in kept])
    return tuple("".join(str(place + 1) for place in order) for order in kept), table


def _is_even(order: IntArray) -> bool:
    """Whether a permutation swaps an even number of pairs."""
    swapped = sum(order[i] > order[j] for j in range(len(order)) for i in range(j))
    return int(swapped) % 2 == 0


@compiled
def _products(elements: IntArray, table: IntArray, products: IntArray) -> None:
    """Writes the product of each prefix of `elements` (B, T) into `products` (B, T)."""
    for row in range(len(elements)):
        product = elements[row, 0]
        products[row, 0] = product
        for i in range(1, elements.shape[1]):
            product = table[product, elements[row, i]]
            products[row, i] = product
