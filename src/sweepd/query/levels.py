"""What the trials at one size say about its level. That is the width at which half of the trials
pass, in octaves.

The probability that a trial passes is a logistic function of log2(width) - level. Every trial that
ran counts by itself. A width that was never tried at a size says nothing there, even where a
smaller size failed with it. So the choice of what a search tried does not bias the answer. The
search chose by what it had seen, and all that it had seen is in the likelihood.
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
"""The scales, in octaves, that the logistic function may have. They say how far the seeds of a size
lie apart. The data weigh them. Beforehand each scale counts by its inverse, since most training
scatters little."""
STRAY = 0.02
"""The probability that a trial passes however small its width is, and also that one fails however
large it is. Such a trial was lucky, or it hung."""
STEP = 0.1
"""The distance, in octaves, between the levels at which the likelihood is computed. It is larger
where that would take more than MOST steps."""
MOST = 200
MARGIN = 3.0
"""How far, in octaves, the levels reach beyond the tried values on either side."""


@dataclass(frozen=True)
class Tried:
    """How many trials of one width passed and failed at one size."""

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
    """The evenly spaced levels, in octaves, at which the likelihood is computed. They cover the
    tried values, from `low` to `high`, and MARGIN on either side."""

    low: float
    high: float

    @classmethod
    def of(cls, points: Sequence[Point]) -> Levels:
        """Returns the levels over all values that were tried at the points. At least one point must
        have trials, and all values must be above 0."""
        import numpy as np

        tried = [one.value for point in points for one in point.tried]
        return cls(float(np.log2(min(tried))), float(np.log2(max(tried))))

    @property
    def height(self) -> float:
        """The octaves from the least to the greatest value that was tried."""
        return self.high - self.low

    @cached_property
    def grid(self) -> Array:
        """The levels (levels,), in octaves."""
        import numpy as np

        reach = self.height + 2 * MARGIN
        count = min(MOST, round(reach / STEP))
        return np.linspace(self.low - MARGIN, self.high + MARGIN, count + 1)

    def likelihood(self, point: Point) -> Array:
        """Returns the likelihood (scales, levels) of what was tried at one point, up to a factor
        that is the same for all scales and levels."""
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
    """Returns the likelihood (scales, 2 levels - 1) of the difference of two levels of one size.

    one, other: (scales, levels) over the same levels. An error that the two have in common, because
    the size is harder or easier than a law says, cancels. It may be anything.
    """
    import numpy as np

    found = [np.convolve(a, b[::-1]) for a, b in zip(one, other, strict=True)]
    likelihood: Array = np.array(found) / np.max(found)
    return likelihood
