"""Where the boundary of a line lies: what the cells of each row say about the least value that
passes, and which of six verdicts a row may claim.

All of these are arrays over *points* (cells of the grid), *cells* (points taken together over
nuisance values), *values* (the cells of a row that share what is minimised) and *rows*.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from sweepd.judge.cells import FAIL, OPEN, PASS
from sweepd.judge.seeds import Bools, Ints

VerdictKind = Literal["not monotone", "above", "open", "exact", "bracketed", "at most"]
NONE = -1
"""The number of a value where there is none."""


class Points(NamedTuple):
    """What points have shown, in arrays of shape (points,).

    cell: the number of the point's cell. outcome: PASS, OPEN or FAIL. failed: whether it failed and
    was trained. steps: its budget, or 0. setting: a number for all that tells points apart but the
    size, the same at each size.
    """

    cell: Ints
    outcome: Ints
    failed: Bools
    steps: Ints
    setting: Ints


class Cells(NamedTuple):
    """What cells have shown, in arrays of shape (cells,).

    value: the number of the cell's value. outcome, failed: as of `Points`. size: the rank of the
    cell's size, or zeros if sizes are not compared. setting: as of `Points`, without nuisance axes.
    """

    value: Ints
    outcome: Ints
    failed: Bools
    size: Ints
    setting: Ints


class Values(NamedTuple):
    """What is known of each value, in arrays of shape (values,). Those of a row follow each other
    by rising value.

    outcome: PASS if one of the cells passed, FAIL if all of them ran their budget and failed.
    failed_smaller: whether all of its cells failed, in the same settings, at one smaller size. It
    matters only where the value itself is open. contradicted: whether one of its passes had at most
    the budget of such a fail. budget: the least number of steps with which the value passed, or the
    largest with which it failed.
    """

    outcome: Ints
    failed_smaller: Bools
    contradicted: Bools
    budget: Ints


class Verdict(NamedTuple):
    """What is known of a least value.

    value: the number of the least value that passed, or NONE. fail: that of the largest value that
    failed at this size or at a smaller one, among those below `value`, or NONE. inferred: how many
    values up to `fail` have not failed themselves. They are inferred to fail.
    """

    kind: VerdictKind
    value: int
    fail: int
    inferred: int


def values_of(points: Points, cells: Cells, count: int, across_sizes: bool) -> Values:
    """Returns what is known of so many values. across_sizes: whether a fail at a smaller size says
    something about a row."""
    passed, all_failed = np.zeros(count, bool), np.ones(count, bool)
    np.logical_or.at(passed, cells.value, cells.outcome == PASS)
    np.logical_and.at(all_failed, cells.value, cells.failed)
    outcome = np.where(passed, PASS, np.where(all_failed, FAIL, OPEN))

    of_point = cells.value[points.cell]
    least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    passing, failing = points.outcome == PASS, points.outcome == FAIL
    np.minimum.at(least, of_point[passing], points.steps[passing])
    np.maximum.at(most, of_point[failing], points.steps[failing])
    budget = np.where(outcome == PASS, least, np.where(outcome == FAIL, most, 0))
    budget[budget == np.iinfo(np.int64).max] = 0

    smaller, contradicted = np.zeros(count, bool), np.zeros(count, bool)
    if not across_sizes or not len(points.cell):
        return Values(outcome, smaller, contradicted, budget)
    # The longest budget with which each setting failed at each size: -1 where it did not fail,
    # or passed there. And whether cells failed there as a whole, where there are any.
    sizes = int(cells.size.max()) + 1
    at, size_at = points.setting, cells.size[points.cell]
    longest = np.full((int(at.max()) + 1, sizes), -1)
    fails = points.failed
    np.maximum.at(longest, (at[fails], size_at[fails]), points.steps[fails])
    longest[at[passing], size_at[passing]] = -1
    some, whole = np.zeros((2, int(cells.setting.max()) + 1, sizes), bool)
    some[cells.setting, cells.size] = True
    whole[cells.setting, cells.size] = cells.failed
    size_of = np.full(count, sizes)
    np.minimum.at(size_of, cells.value, cells.size)
    for size in range(sizes - 1):
        # A smaller size says that a value fails if all of its points failed there. It counts
        # against a pass only if none of its cells did any better there.
        longest_here = longest[at, size]
        every = np.ones(count, bool)
        np.logical_and.at(every, of_point, longest_here >= 0)
        smaller |= every & (size < size_of)
        present, agree, against = np.zeros(count, bool), np.ones(count, bool), np.zeros(count, bool)
        there = some[cells.setting, size]
        np.logical_or.at(present, cells.value, there)
        np.logical_and.at(agree, cells.value, ~there | whole[cells.setting, size])
        beaten = passing & (longest_here >= 0) & (longest_here >= points.steps)
        np.logical_or.at(against, of_point, beaten)
        contradicted |= against & present & agree & (size < size_of)
    return Values(outcome, smaller & (outcome != FAIL), contradicted & (outcome != FAIL), budget)


def verdicts(values: Values, starts: Sequence[int], of_compute: bool = False) -> list[Verdict]:
    """Returns for each row the first of the six verdicts that holds. A fail contradicts a pass only
    if it had at least the budget of that pass.

    starts: the number of the first value of each row, and at the end the count of values.
    of_compute: whether the values are training FLOPs. These can be spent on width or on steps. So a
    larger value of them that fails does not contradict a smaller one that passes.
    """
    outcomes, smaller, contradicted, budgets = (each.tolist() for each in values)
    rows = []
    for first, last in pairwise(starts):
        value = next((i for i in range(first, last) if outcomes[i] == PASS), NONE)
        end = last if value == NONE else value
        fail, inferred, open_so_far = NONE, 0, 0
        for i in range(first, end):
            open_so_far += outcomes[i] != FAIL
            if outcomes[i] == FAIL or smaller[i]:
                fail, inferred = i, open_so_far
        next_failed = end > first and fail == end - 1
        kind: VerdictKind = "bracketed" if inferred else "exact"
        if value == NONE:
            kind = "above" if next_failed else "open"
        elif contradicted[value] or (
            not of_compute
            and any(
                outcomes[i] == FAIL and budgets[i] >= budgets[value] for i in range(value + 1, last)
            )
        ):
            kind = "not monotone"
        elif not next_failed:
            kind = "at most"
        rows.append(Verdict(kind, value, fail, inferred))
    return rows
