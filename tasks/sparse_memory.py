"""Essentially sparse memory: what is the past worth, weighted by a kernel that decays?

    y_t = Σ_s ρ(s) x_(t-s),  s from 0 to the start of the row

ρ(s) is proportional to exp(-rate · s) or to (1 + s)^-rate. It is scaled so that its squares over
the whole length add up to 1. So a target's variance is near 1 at positions past the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from sweepd.tasks.base import MemoryTask, RealArray, Rows

VERSION = 1
Kernel = Literal["exponential", "polynomial"]


@dataclass(frozen=True)
class SparseMemory(MemoryTask):
    """Sum of all real inputs so far, weighted by a kernel that decays with the distance.

    Source: Wang & E 2024 (P2, arXiv 2402.00522), essentially sparse memories. Ours: the kernel's
    scale.

    Family: memory

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample sparse_memory --set length=3 --count 1
        -0.20611556 -0.7731889 -0.85384214 <sep> -0.1681126 -0.7325961 -1.1407554 <eos>
    """

    kernel: Kernel = "exponential"
    rate: float = 0.5
    """of the decay: exp(-rate · s) or (1 + s)^-rate"""

    size_field: ClassVar[str] = "length"
    metrics: ClassVar[tuple[str, ...]] = ("loss",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel not in get_args(Kernel):
            raise ValueError(f"kernel = {self.kernel!r}: must be exponential or polynomial")
        if not 0 < self.rate < np.inf:
            raise ValueError(f"rate = {self.rate}: must be positive, or the kernel never decays")

    @property
    def vocab(self) -> tuple[str, ...]:
        return ()

    @property
    def weights(self) -> RealArray:
        """ρ(s) for s from 0 to length - 1."""
        s = np.arange(self.length)
        decay = np.exp(-self.rate * s) if self.kernel == "exponential" else (1.0 + s) ** -self.rate
        weights: RealArray = (decay / np.sqrt((decay**2).sum())).astype(np.float32)
        return weights

    def targets(self, inputs: Rows) -> Rows:
        weights = self.weights
        return np.stack([np.convolve(row, weights)[: self.length] for row in inputs])
