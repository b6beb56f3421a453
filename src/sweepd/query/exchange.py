"""What a smaller width costs in training: how many times the steps one halving of it takes.

For each width, the trials with their budgets say how many steps half of the seeds need (`levels`).
A law says how those steps depend on the width. The cost of one halving is 2 to the power of minus
the law's exponent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from sweepd.query.cells import Cell
from sweepd.query.grouping import Grouping
from sweepd.query.laws import fit, refusal
from sweepd.query.levels import Point, Tried
from sweepd.query.reply import Reply

EXCHANGE = ("per_halving", "per_halving_low", "per_halving_high")
"""The columns that say how many times as many steps one halving of the minimised value costs, with
the ends of the 95% interval."""


def with_exchange(reply: Reply, grouping: Grouping, cells: Sequence[Cell]) -> Reply:
    """Returns the answer to `min … by steps` with EXCHANGE in every row.

    Rows that differ in their steps alone have the same EXCHANGE. cells: as they ran, each at its
    own budget.
    """
    group = tuple(name for name in grouping.group if name != "steps")
    found = {
        tuple(columns.values()): exchange(members)
        for columns, members in replace(grouping, group=group).rows(cells)
    }
    empty = dict.fromkeys(EXCHANGE)
    rows = [row | empty | found.get(tuple(row[n] for n in group), {}) for row in reply.rows]
    return replace(reply, columns=[*reply.columns, *EXCHANGE], rows=rows)


def exchange(cells: Sequence[Cell]) -> dict[str, float]:
    """Returns EXCHANGE for cells that differ in the minimised value, in their steps and in the axes
    over which a row is the best.

    It is empty where a minimised value is not positive. It is also empty where the cells cannot
    carry a fit (`refusal`), as when too few values have both passes and fails.
    """
    by_value: dict[float, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_value[cell.values[0]].append(cell)
    points = [Point(value, _tried(found)) for value, found in sorted(by_value.items())]
    if min(by_value, default=0) <= 0 or refusal(points):
        return {}
    law = fit(points)
    ends = (law.exponent, law.high, law.low)
    return dict(zip(EXCHANGE, (2**-end for end in ends), strict=True))


def _tried(cells: Sequence[Cell]) -> tuple[Tried, ...]:
    """Returns the budgets on either side of what the seeds of one width need, with their passes and
    fails: the least that passed, and the largest below it that failed.

    Longer runs continue shorter ones. So a seed that failed with several budgets says only once
    that it needs more. A cell whose budget nobody knows says nothing.
    """
    best: dict[int, Cell] = {}
    for cell in cells:
        steps = cell.steps
        if steps and cell.decided and (steps not in best or _share(cell) > _share(best[steps])):
            best[steps] = cell
    passing = [steps for steps, cell in best.items() if cell.outcome]
    failing = [s for s, cell in best.items() if cell.failed and s < min(passing, default=s + 1)]
    beside = {*([min(passing)] if passing else []), *([max(failing)] if failing else [])}
    return tuple(
        Tried(steps, best[steps].passed, best[steps].decided - best[steps].passed)
        for steps in sorted(beside)
    )


def _share(cell: Cell) -> float:
    return cell.passed / cell.decided
