"""What the trials at one size say of its level: the width at which half of the trials pass.

A trial passes with the probability of a logistic function of log2(width) - level. Every trial that
ran speaks for itself. A width that was never tried at a size says nothing there, even where a
smaller size failed with it. So what a search chose to try does not bend the answer: it chose by
what it had seen, and all that it had seen is in the likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

SCALES = (0.05, 0.1, 0.2, 0.3, 0.45, 0.65, 0.95)
"""Of the logistic function, in octaves: how far the seeds of a size lie apart. The data weigh
them; beforehand a scale counts by its inverse, since most training scatters little."""
STRAY = 0.02
"""Chance that a trial comes out the other way whatever its width: it hung, or was lucky."""
STEP = 0.1
"""Octaves between the levels that are looked at, unless that would be more than MOST."""
MOST = 200
MARGIN = 3.0
"""Octaves beyond the tried values in which levels are looked at."""


@dataclass(frozen=True)
class Tried:
    """Trials of one width at one size: how many passed, and how many failed."""

    value: float
    passed: int
    failed: int


@dataclass(frozen=True)
class Point:
    """The trials at one value of what a law is fitted along."""

    x: float
    tried: tuple[Tried, ...]

    @property
    def informative(self) -> bool:
        return any(one.passed or one.failed for one in self.tried)

    @property
    def bracketed(self) -> bool:
        """Whether something passed, and something smaller failed."""
        failed = [one.value for one in self.tried if one.failed]
        return any(one.passed and one.value > min(failed) for one in self.tried if failed)


@dataclass(frozen=True)
class Levels:
    """The levels, in octaves, that are looked at: evenly spaced over and around the values."""

    low: float
    high: float

    @classmethod
    def of(cls, points: Sequence[Point]) -> Levels:
        """For points with at least one trial; all values are above 0."""
        import numpy as np

        tried = [one.value for point in points for one in point.tried]
        return cls(float(np.log2(min(tried))), float(np.log2(max(tried))))

    @property
    def height(self) -> float:
        """Octaves from the least to the greatest value that was tried."""
        return self.high - self.low

    @cached_property
    def grid(self) -> Array:
        """(levels,)"""
        import numpy as np

        reach = self.height + 2 * MARGIN
        count = min(MOST, round(reach / STEP))
        return np.linspace(self.low - MARGIN, self.high + MARGIN, count + 1)

    def likelihood(self, point: Point) -> Array:
        """(scales, levels) of what was tried at one point, up to a factor for each scale alike."""
        import numpy as np

        values = np.log2([one.value for one in point.tried])
        passed = np.array([one.passed for one in point.tried])[:, None]
        failed = np.array([one.failed for one in point.tried])[:, None]
        z = (values[:, None] - self.grid) / np.array(SCALES)[:, None, None]
        share = STRAY + (1 - 2 * STRAY) * (1 + np.tanh(z / 2)) / 2
        log = (passed * np.log(share) + failed * np.log1p(-share)).sum(axis=1)
        found: Array = np.exp(log - log.max())
        return found


def between(one: Array, other: Array) -> Array:
    """(scales, 2 levels - 1): the likelihood of the difference of two levels of one size.

    one, other: (scales, levels) over the same levels. What the two have in common, because the
    size is harder or easier than a law says, cancels: it may be anything.
    """
    import numpy as np

    found = [np.convolve(a, b[::-1]) for a, b in zip(one, other, strict=True)]
    likelihood: Array = np.array(found) / np.max(found)
    return likelihood
