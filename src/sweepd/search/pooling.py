"""The score of a cell from the scores of its seeds. Questions apply the same rules in SQL
(`query.cells_sql`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import fmean

from sweepd.grid.metrics import Better, is_share
from sweepd.grid.options import MEAN_DIGITS, Goal, PassRule
from sweepd.intervals import wilson


def pooled(scores: Sequence[float], rule: PassRule, better: Better) -> float:
    """Returns the score of a cell from its seeds' scores by the pass rule. The rule `all` takes
    the worst score, and `any` the best."""
    rising = sorted(scores)
    worst, best = (rising[0], rising[-1]) if better == "up" else (rising[-1], rising[0])
    match rule:
        case "mean":
            return round(_mean(scores, better), MEAN_DIGITS)
        case "median":
            count = len(rising)
            return _mean([rising[(count - 1) // 2], rising[count // 2]], better)
        case "all":
            return worst
        case "any":
            return best


def _mean(scores: Sequence[float], better: Better) -> float:
    """Returns the mean. A seed that diverged has an infinitely bad score. The mean is then that
    bad too, even if a seed that has not ended counts as infinitely good."""
    worst = -inf if better == "up" else inf
    return worst if worst in scores else fmean(scores)


def is_near(scores: Sequence[float], totals: Sequence[int], goal: Goal, rule: PassRule) -> bool:
    """Returns whether Wilson's interval of the cell's score contains the goal's threshold.
    totals: the sizes of the test samples that are known. Scores that are not shares have no such
    interval, so the answer for them is False."""
    if not scores or not totals or not is_share(goal.metric):
        return False
    total = sum(totals) if rule == "mean" else max(totals)
    low, high = wilson(pooled(scores, rule, goal.better), total)
    return low <= goal.threshold <= high
