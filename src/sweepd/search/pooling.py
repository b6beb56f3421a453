"""The seeds of a cell as one score. Questions apply the same rules in SQL (`query.cells_sql`)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

from sweepd.grid.options import MEAN_DIGITS, Goal, PassRule, is_share
from sweepd.intervals import wilson


def pooled(scores: Sequence[float], rule: PassRule, metric: str) -> float:
    """The scores of a cell's seeds by the pass rule: `all` takes the worst and `any` the best."""
    falls = metric == "loss"
    match rule:
        case "mean":
            return round(fmean(scores), MEAN_DIGITS)
        case "median":
            return float(median(scores))
        case "all":
            return max(scores) if falls else min(scores)
        case "any":
            return min(scores) if falls else max(scores)


def is_near(scores: Sequence[float], totals: Sequence[int], goal: Goal, rule: PassRule) -> bool:
    """Whether Wilson's interval of the cell's score holds the goal. totals: sizes of the test
    samples that are known. Scores that are no shares have no such interval."""
    if not scores or not totals or not is_share(goal.metric):
        return False
    total = sum(totals) if rule == "mean" else max(totals)
    low, high = wilson(pooled(scores, rule, goal.metric), total)
    return low <= goal.threshold <= high
