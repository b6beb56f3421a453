"""What endings say of a seed's score, what a seed has done by a budget, and one score of many.

What is known of a score is an interval between two ends, `at_worst` and `at_best`. Everything here
is a function of arrays of floats. A score that nobody measured is NaN, and one that is infinite was
not measured either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sweepd.grid.metrics import Better, range_of
from sweepd.grid.options import MEAN_DIGITS, PassRule

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Scores(NamedTuple):
    """What is known of scores, in arrays of one shape.

    seen: the score as it was measured, or NaN. A trial that diverged has the worst score there is.
    at_worst, at_best: the ends of what the whole budget may have given.
    """

    seen: Floats
    at_worst: Floats
    at_best: Floats


def ends(metric: str, better: Better) -> tuple[float, float]:
    """Returns the worst and the best value that a score can have."""
    least, greatest = range_of(metric)
    return (least, greatest) if better == "up" else (greatest, least)


def known(
    statuses: Sequence[str | None] | npt.NDArray[np.object_],
    scores: Sequence[float] | Floats,
    worst: float,
    best: float,
) -> Scores:
    """Returns what endings say of scores between `worst` and `best`.

    A completed trial has the score that it measured. A solved one has that or a better one. A
    diverged one has the worst there is. Any other trial may still get any score, and so may a
    completed one without a number. A trial that has not ended has the status None.
    """
    status, score = np.asarray(statuses, object), np.asarray(scores, np.float64)
    measured = np.isfinite(score)
    completed, solved = (status == "completed") & measured, (status == "solved") & measured
    diverged = status == "diverged"
    shown = completed | solved | ((status == "stopped") & measured)
    return Scores(
        np.where(diverged, worst, np.where(shown, score, np.nan)),
        np.where(completed | solved, score, worst),
        np.where(completed, score, np.where(diverged, worst, best)),
    )


def by_budget(scores: Scores, better: Better, axis: int = 0) -> Scores:
    """Returns the best that seeds have reached with at most so many steps. axis: that of the
    budgets, from the least up.

    So a seed that passed with fewer steps has passed. One that has not run at a larger budget has
    at least the best score that it reached before.
    """
    reach = np.fmax if better == "up" else np.fmin
    at_worst = reach.accumulate(scores.at_worst, axis=axis)
    seen = reach.accumulate(scores.seen, axis=axis)
    return Scores(seen, at_worst, reach(scores.at_best, at_worst))


def pooled(scores: Floats, cell: Ints, cells: int, rule: PassRule, better: Better) -> Floats:
    """Returns one score of shape (cells,) for each cell, of its seeds' scores by the pass rule
    (`of_rising`). scores, cell: of shape (seeds of all cells,). A NaN does not count, and is the
    score of a cell that has no other."""
    counts = ~np.isnan(scores)
    order = np.lexsort((scores[counts], cell[counts]))
    number = np.bincount(cell[counts], minlength=cells)
    result, some = np.full(cells, np.nan), number > 0
    first = (np.cumsum(number) - number)[some]
    if first.size:
        result[some] = of_rising(scores[counts][order], first, number[some], rule, better)
    return result


def of_one(scores: Sequence[float], rule: PassRule, better: Better) -> float:
    """Returns the score of one cell whose seeds, at least one, have these scores (`of_rising`)."""
    one = np.array([0]), np.array([len(scores)])
    return float(of_rising(np.sort(scores), *one, rule, better)[0])


def of_rising(scores: Floats, first: Ints, count: Ints, rule: PassRule, better: Better) -> Floats:
    """Returns one score for each run of rising scores, by the pass rule, in an array of shape
    (runs,). Run i has the `count[i]` > 0 scores from `first[i]` on.

    `all` takes the worst score, and `any` the best. The median of an even count is the mean of the
    two middle scores. A mean or a median that is no number, of infinities, is the worst.
    """
    if rule == "median":
        with np.errstate(invalid="ignore"):
            score = (scores[first + (count - 1) // 2] + scores[first + count // 2]) / 2
    elif rule == "mean":
        with np.errstate(invalid="ignore"):
            score = np.round(np.add.reduceat(scores, first) / count, MEAN_DIGITS)
    else:
        lowest = (rule == "all") is (better == "up")
        return scores[first if lowest else first + count - 1]
    return np.where(np.isnan(score), -np.inf if better == "up" else np.inf, score)
