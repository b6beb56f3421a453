"""Fixed memory: what do the inputs at M fixed distances before each position give together?

The lags are spread evenly up to the longest: with 2 memories and longest = 4 they are 2 and 4.
Of ids, the target is the sum modulo `symbols` (4 here; a dot where a memory is missing):

    3 1 0 2 2 1 3 <sep> . . . . 3 3 2 <eos>

Of real numbers it is the sum divided by sqrt(M), so that targets have variance 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweepd.tasks.base import Rows, SumOfMemories

VERSION = 1


@dataclass(frozen=True)
class FixedMemory(SumOfMemories):
    """Sum of the inputs at M fixed lags, at every position.

    Source: Wang & E 2024 (P2, arXiv 2402.00522), fixed long but sparse memories. Ours: the sum.

    Family: memory

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample fixed_memory --set longest=4 --set length=10 --count 1
        3 0 6 0 2 0 2 4 4 7 <sep> . . . . 1 0 0 0 4 4 <eos>
    """

    longest: int = 16
    """largest lag; the k-th of M is floor(k · longest / M)"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.memories <= self.longest < self.length:
            raise ValueError(
                f"longest = {self.longest}: must be at least memories = {self.memories}, for "
                f"different lags, and less than length = {self.length}, for any target"
            )

    @property
    def lags(self) -> tuple[int, ...]:
        """The lags, ascending."""
        return tuple(k * self.longest // self.memories for k in range(1, self.memories + 1))

    def targets(self, inputs: Rows) -> Rows:
        return self.total([inputs[:, self.longest - lag : self.length - lag] for lag in self.lags])
