"""Parity: is the number of ones so far odd?

A row holds n bits. The target of each position is the parity of the bits up to there:

    1 0 1 1 <sep> 1 1 0 1 <eos>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import Rows, RowTask, as_count, require_range

VERSION = 1


@dataclass(frozen=True)
class Parity(RowTask):
    """The parity of each prefix of n random bits: the word problem of the group of order 2.

    Source: Grazzi et al. 2024 (arXiv 2411.12537): a linear recurrence whose eigenvalues lie in
    [0, 1] cannot solve it at all lengths, one with eigenvalues in [-1, 1] can. `lengths: [2, 4]` in
    a grid scores trained models beyond the length that they were trained on. Ours: a target at
    every position.

    Family: state tracking

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample parity --set n=6 --count 1
        0 0 0 1 0 0 <sep> 0 0 0 1 1 1 <eos>
    """

    n: int = 16
    """bits"""

    size_field: ClassVar[str] = "n"
    vocab: ClassVar[tuple[str, ...]] = ("0", "1")

    def __post_init__(self) -> None:
        require_range(self, "n", 1, 100_000)

    @property
    def length(self) -> int:
        return self.n

    def distinct_inputs(self) -> float:
        return as_count(2**self.n)

    def fill(self, rng: np.random.Generator, inputs: Rows, targets: Rows) -> None:
        inputs[:] = rng.integers(2, size=inputs.shape)
        targets[:] = inputs.cumsum(axis=1) % 2
