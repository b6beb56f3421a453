"""How hard the cells that decide the rows of `min` were tried, and up to how many steps they are
forecast to fail, by the rule of `search.horizon`. Also the least values of some and all seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from statistics import fmean
from typing import Any, NamedTuple

from sweepd.grid.options import Goal
from sweepd.judge.cells import RULES
from sweepd.judge.seeds import ends
from sweepd.listing import duration
from sweepd.query.cells import Cell
from sweepd.query.cells_sql import measured, quoted
from sweepd.query.database import Views
from sweepd.query.minima import MinRow
from sweepd.query.nuisance import place
from sweepd.search.horizon import AtRate, Final, Forecast, forecast
from sweepd.statuses import RAN

TRIED_COLUMNS = ("steps", "fail_steps", "effort", "gain", "missing", "rates", "holds_to", "why")
UNCONFIRMED = "its pass at the best of several is not confirmed on a fresh seed"
LEAST_COLUMNS = tuple(name for rule in RULES for name in (f"least_{rule}", f"least_{rule}_verdict"))


class Run(NamedTuple):
    """How a seed ended that ran at a cell's own budget. final: None where it has no score. seconds,
    flops: of its training, from its first step on."""

    seed: int
    final: Final | None
    seconds: float | None
    flops: float | None


@dataclass(frozen=True)
class Ends:
    """How the trials of cells ended."""

    runs: Mapping[int, Sequence[Run]]
    """The seeds of each cell, by its number in `raw.cells`."""
    settles: Mapping[int, str]
    """The latest sweep that settles its answers and plans the cell, by cell."""

    @classmethod
    def of(cls, views: Views, goal: Goal, rows: Sequence[MinRow]) -> Ends:
        """Returns how the trials ended of the cells that give and decide these rows, read from the
        views. A seed that diverged has the worst score. goal: that of the condition."""
        read = [cell for row in rows for cell in (*row.deciding, *row.passing)]
        cells = sorted({point.row["cell"] for cell in read for point in cell.points})
        runs: dict[int, list[Run]] = defaultdict(list)
        score = measured(quoted(goal.metric))
        worst = f"'{ends(goal.metric, goal.better)[0]}'::DOUBLE"
        for cell, seed, number, total, *costs in views.fetch(
            f"SELECT cell, members.seed, if(status = 'diverged', {worst}, {score}), "
            "coalesce(independent, total), seconds, endings.train_flops "
            f"FROM raw.members JOIN raw.endings USING ({views.member}) "
            f"WHERE status IN {RAN} AND cell IN (SELECT unnest(?))",
            cells,
        ):
            final = None if number is None else Final(number, total)
            runs[cell].append(Run(seed, final, *costs))
        rules = "SELECT cell, settles FROM raw.rules WHERE settles NOTNULL"
        return cls(runs, dict(views.fetch(f"{rules} AND cell IN (SELECT unnest(?))", cells)))

    def rates(self, cell: Cell) -> list[AtRate]:
        """Returns how the seeds of a cell ended with each of its nuisance values but the steps."""
        rates = []
        for rest, points in _by_rate(cell).items():
            finals: dict[int, dict[int, Final]] = defaultdict(dict)
            for point in points:
                for run in self.runs.get(point.row["cell"], ()):
                    if run.final is not None:
                        finals[run.seed][point.steps] = run.final
            peak = place({**cell.row, **dict(rest)}, "lr") if "lr" in dict(rest) else None
            rates += [AtRate(peak or 0.0, finals)] if finals else []
        return rates

    def effort(self, row: MinRow) -> float | None:
        """Returns how many times the training FLOPs of the row's pass the deciding cells had, over
        all rates and seeds. A seed counts with its longest run, which shorter ones are part of.
        Returns None where nothing passed, and where FLOPs are not known."""
        if not (passes := row.passes):
            return None
        passed = min(passes, key=lambda point: point.steps)
        rates = (same for cell in row.passing for same in _by_rate(cell).values())
        at_its_rate = next(same for same in rates if passed in same)
        whole = self._longest([point for point in at_its_rate if point.steps <= passed.steps])
        spent = sum(self._longest(p) for cell in row.deciding for p in _by_rate(cell).values())
        return spent / whole if whole and spent else None

    def _longest(self, points: Sequence[Cell]) -> float:
        """The FLOPs of the longest run of each seed, of cells at one rate."""
        longest: dict[int, float] = {}
        for point in points:
            for run in self.runs.get(point.row["cell"], ()):
                longest[run.seed] = max(run.flops or 0.0, longest.get(run.seed, 0.0))
        return sum(longest.values())

    def price(self, deciding: Sequence[Cell], steps: int) -> str:
        """Returns words on how long the doubling of this budget would take for cells that move,
        with all their seeds in one slot, one after the other. Each seed continues from the state at
        the start of its decay, but a user's own loop starts anew. Empty without recorded times."""
        points = [p for cell in deciding for p in cell.points if p.steps == steps]
        runs = [self.runs.get(point.row["cell"], ()) for point in points]
        took = [[run.seconds for run in same if run.seconds is not None] for same in runs]
        if not any(took):
            return ""
        decay = points[0].row.get("decay")
        longest = max(map(fmean, filter(None, took)))
        seconds = (1 + (1 if decay is None else decay)) * longest * points[0].row["seeds"]
        return f"; {2 * steps} steps take some {duration(seconds)}"


def tried_columns(
    views: Views, rows: Sequence[MinRow], goal: Goal | None, ends: Ends | None
) -> Iterator[dict[str, Any]]:
    """Yields TRIED_COLUMNS of each of the rows. `goal` is None where the condition is not a goal on
    one score, and so is `ends` there and where the question minimises a score."""

    def line(row: MinRow) -> tuple[Any, ...]:
        """What a row has in common with the rows that differ from it in their size alone."""
        size_field = views.selection.size_fields.get(row.columns["task"])
        return tuple(v for n, v in row.columns.items() if n not in ("size", "L", size_field))

    # The least budget of each row's pass, and the greatest of these for each set of such rows. It
    # is 0 where nothing passes, and where the cells that pass have no `steps`.
    budgets = [min((point.steps for point in row.passes), default=0) for row in rows]
    slowest: dict[tuple[Any, ...], int] = defaultdict(int)
    for row, steps in zip(rows, budgets, strict=True):
        slowest[line(row)] = max(slowest[line(row)], steps)
    for row, steps in zip(rows, budgets, strict=True):
        deciding = row.deciding
        failed = [p.steps for cell in deciding for p in cell.points if p.failed]
        rates = [ends.rates(cell) for cell in deciding] if ends else []
        expected = _forecast(views, steps or slowest[line(row)], row, goal, ends, rates)
        last, price = expected.last_doubling, ""
        if ends and last and expected.kind == "moving":
            price = ends.price(deciding, last.steps)
        yield {
            "steps": steps or None,
            "fail_steps": max(failed, default=None) or None,
            "effort": ends and ends.effort(row),
            "gain": last and last.gain,
            "missing": last and (last.missing if isfinite(last.missing) else None),
            "rates": ends and max(map(len, rates), default=None),
            "holds_to": expected.holds_to,
            "why": expected.reason + price,
        }


def _forecast(
    views: Views,
    budget: int,
    row: MinRow,
    goal: Goal | None,
    ends: Ends | None,
    rates: Sequence[Sequence[AtRate]],
) -> Forecast:
    """What the cells that decide one row would do with more training. budget: that which a pass
    needs, here or, as the search has it, at another size; 0 where nothing passes. rates: those of
    each of the cells."""
    if ends is None or goal is None:
        return Forecast("untested", "the question is not about one score")
    if row.verdict.kind == "not monotone":
        return Forecast("untested", "cells contradict each other")
    if not row.deciding:
        return Forecast("untested", "the grid has no smaller value")
    # A pass needs no confirmation if only one of its cell's points was measured, so that it is not
    # the best of several, or if one seed is enough to pass.
    confirmed = any(
        sum(point.measured for point in cell.points) == 1
        or cell.row["pass"] == "any"
        or any(point.outcome and point.confirmed for point in cell.points)
        for cell in row.passing
    )
    if row.passing and not confirmed:
        return Forecast("untested", UNCONFIRMED)
    budget = budget or min(point.steps for cell in row.deciding for point in cell.points)
    deciding = {point.row["cell"] for cell in row.deciding for point in cell.points}
    sweeps = {ends.settles[cell] for cell in deciding & ends.settles.keys()}
    settle = views.selection.settle(sweeps)
    if row.deciding[0].row["L"] is None:  # a loop of the user's own, whose steps may be anything
        settle = settle if sweeps else replace(settle, least=1)
        if not budget:
            return Forecast("untested", "its loop has no `steps`: nobody knows how long it ran")
    forecasts = [
        forecast(of_cell, goal, cell.row["pass"], settle, budget)
        for cell, of_cell in zip(row.deciding, rates, strict=True)
    ]
    order = {"untested": 0, "moving": 1, "holds": 2}
    return min(forecasts, key=lambda one: (order[one.kind], one.holds_to or 0))


def _by_rate(cell: Cell) -> dict[tuple[tuple[str, Any], ...], list[Cell]]:
    """The points of a cell by their nuisance values other than the steps."""
    by_rate: dict[tuple[tuple[str, Any], ...], list[Cell]] = defaultdict(list)
    for point in cell.points:
        rest = tuple((axis, point.row[axis]) for axis in cell.tuned if axis != "steps")
        by_rate[rest].append(point)
    return by_rate


def least_columns(row: MinRow) -> dict[str, Any]:
    """Returns LEAST_COLUMNS of one row. These are the least values with which at least one seed,
    more than half of the seeds, and all of them pass, each with its verdict."""
    columns: dict[str, Any] = {}
    for rule, verdict in zip(RULES, row.by_rule, strict=True):
        columns |= {f"least_{rule}": verdict.value, f"least_{rule}_verdict": verdict.kind}
    return columns
