"""Whether a series of samples grows: its slope per hour with an interval (for soak.py).

Least squares over the means of whole minutes, since neighbouring samples resemble each other. The
first minute is left out, in which everything grows. The 95% interval is Student's.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

import numpy as np

MINUTE = 60.0
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""The 97.5% quantile with 1, 2, … degrees of freedom; with more, the last."""


def told(series: Sequence[tuple[float, float]]) -> str:
    """Returns text that gives the last minute's mean of a series of (second, value), and its
    slope."""
    minutes = [
        (minute, statistics.mean(value for _, value in group))
        for minute, group in itertools.groupby(series, key=lambda pair: pair[0] // MINUTE)
        if minute > 0
    ]
    if len(minutes) < 3:
        return f"{series[-1][1]:10.1f} at the end; too short a life for a slope"
    slope, error = slope_of(minutes)
    width = STUDENT[min(len(minutes) - 3, len(STUDENT) - 1)] * error
    return (
        f"{minutes[-1][1]:10.1f} {60 * slope:+10.1f} an hour "
        f"({60 * (slope - width):+.1f} to {60 * (slope + width):+.1f}, {len(minutes)} minutes)"
    )


def slope_of(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns the slope of least squares over (x, y), and its standard error."""
    x, y = np.array(points).T
    x = x - x.mean()
    slope = x @ y / (x @ x)
    left = y - y.mean() - slope * x
    return float(slope), float(np.sqrt(left @ left / (len(y) - 2) / (x @ x)))
