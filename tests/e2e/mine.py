"""A user's own tasks that misbehave on request, named in grids as `mine.py:Name`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sweepd.tasks.base import IntArray
from sweepd.tasks.lis import LIS

TRAINS = "default_worker" in sys.argv[0]
"""Whether this process trains trials. If not, a launch inspects the tasks there."""
if TRAINS:
    try:
        Path(__file__).with_name("late").joinpath("first").mkdir()
    except FileNotFoundError:
        pass
    except FileExistsError:  # all workers but the first come late if there is a folder named `late`
        time.sleep(3)


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
    """Takes its time, but no core's: one nap a sample, until there is a file named `mark` beside
    this one. With the same fields in all tests it is inspected once for all of them."""

    nap: float = 0.15
    mark: str = "go"

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        if TRAINS and not Path(__file__).parent.joinpath(self.mark).exists():
            time.sleep(self.nap)
        super().fill(rng, tokens)
