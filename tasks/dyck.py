"""Bounded Dyck languages: are these brackets well nested, no deeper than D?

A row holds n brackets. The target of each position says what the brackets up to there are: `whole`
(well nested, all closed), `open` (they may still become so), or `broken` (nothing that follows can
mend them; here 2 types, D = 2):

    ( [ ] ) [ ) <sep> open open open whole open broken <eos>

Half of the rows are well nested. In the others one closing bracket has another type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import Batch, Flags, Rows, RowTask, below, compiled, require_range

VERSION = 1
BRACKETS = "()[]{}<>"
WHOLE, OPEN, BROKEN = range(len(BRACKETS), len(BRACKETS) + 3)


@dataclass(frozen=True)
class Dyck(RowTask):
    """What each prefix of a row of brackets is. `acc` counts the rows with every prefix right.

    Source: Bhattamishra et al. 2024 (arXiv 2406.09347), bounded Dyck: a recurrent model of constant
    size recognises the language of 2 types and depth 2, while the size of a one-layer transformer
    has to grow like n. Ours: the answer at every prefix, and how rows are drawn.

    Family: state tracking

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample dyck --set n=6 --count 1
        ( ) ( [ ] ] <sep> open whole open open open broken <eos>
    """

    n: int = 16
    """brackets, an even number"""
    types: int = 2
    """types of brackets"""
    depth: int = 2
    """D, the most brackets that are open at once"""

    size_field: ClassVar[str] = "n"
    vocab: ClassVar[tuple[str, ...]] = (*BRACKETS, "whole", "open", "broken")

    def __post_init__(self) -> None:
        require_range(self, "n", 2, 100_000)
        require_range(self, "types", 2, len(BRACKETS) // 2)
        require_range(self, "depth", 1, 1000)
        if self.n % 2:
            raise ValueError(f"n = {self.n}: must be even, since each bracket needs its partner")

    @property
    def length(self) -> int:
        return self.n

    def fill(self, rng: np.random.Generator, inputs: Rows, targets: Rows) -> None:
        _fill(rng, inputs, targets, self.types, self.depth)

    def right(self, found: Rows, batch: Batch) -> Flags:
        rows: Flags = (found == batch.targets).all(axis=1)
        return rows


@compiled
def _fill(rng: np.random.Generator, inputs: Rows, targets: Rows, types: int, depth: int) -> None:
    """Opening brackets have even ids; the closing one of the same type has the next id."""
    n = inputs.shape[1]
    stack = np.zeros(depth, dtype=np.int64)
    for row in range(len(inputs)):
        # Of the n/2 closing brackets, the one with this number gets another type, if any does.
        spoilt = below(rng, n // 2) if rng.random() < 0.5 else -1
        broken, closed, high = False, 0, 0
        for i in range(n):
            may_open = high < depth and high < n - i
            if high == 0 or (may_open and rng.random() < 0.5):
                stack[high] = below(rng, types)
                inputs[row, i] = 2 * stack[high]
                high += 1
            else:
                high -= 1
                kind = stack[high]
                if closed == spoilt:
                    kind = (kind + 1 + below(rng, types - 1)) % types
                    broken = True
                closed += 1
                inputs[row, i] = 2 * kind + 1
            targets[row, i] = BROKEN if broken else OPEN if high else WHOLE
