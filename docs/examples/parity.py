"""Parity: is the number of ones among n bits odd?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweepd.tasks.base import SPECIALS, ChainTask, Tokens


@dataclass(frozen=True)
class Parity(ChainTask):
    """Parity of n bits; the chain is the parity of the bits so far."""

    n: int = 8

    size_field = "n"
    vocab = (*SPECIALS, "0", "1")

    @property
    def prompt_length(self) -> int:
        return self.n + 1

    chain_length = prompt_length

    def draw(self, rng: np.random.Generator) -> tuple[Tokens, Tokens, Tokens]:
        bits = rng.integers(2, size=self.n)
        parities = [str(ones % 2) for ones in bits.cumsum()]
        return [str(bit) for bit in bits], parities, parities[-1]
