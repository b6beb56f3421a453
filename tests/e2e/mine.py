"""A user's own tasks that misbehave on request, named in grids as `mine.py:Name`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweepd.tasks.base import IntArray
from sweepd.tasks.lis import LIS


@dataclass(frozen=True)
class Broken(LIS):
    """Raises where n = 3 and prints before it does."""

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        if self.n == 3:
            print("a word before the fall")  # noqa: T201
            raise RuntimeError("n = 3 is cursed")
        super().fill(rng, tokens)


@dataclass(frozen=True)
class Hungry(LIS):
    """Asks for more memory than there is."""

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        np.empty(2**50, dtype=np.int64)


@dataclass(frozen=True)
class Slow(LIS):
    """Takes its time, but no core's: one nap a sample, until there is a file named `mark`."""

    nap: float = 0.15
    mark: str = ""

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        if not (self.mark and Path(self.mark).exists()):
            time.sleep(self.nap)
        super().fill(rng, tokens)
