"""How hard the cells that decide the rows of `min` were tried, and up to how many steps they are
forecast to fail, by the rule of `search.horizon`. This module also gives the least values that
some, most and all seeds reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan
from statistics import fmean
from typing import Any

from sweepd.grid.options import LEAST_SEEDS, Goal
from sweepd.listing import duration
from sweepd.query.cells import RULES, Cell, Value
from sweepd.query.cells_sql import quoted
from sweepd.query.database import Views
from sweepd.query.expressions import Node, goal_of
from sweepd.query.grouping import Grouping
from sweepd.query.minima import Candidate, MinRow, verdict_of
from sweepd.query.nuisance import place
from sweepd.search.horizon import AtRate, Final, Forecast, forecast
from sweepd.statuses import RAN

TRIED_COLUMNS = ("steps", "fail_steps", "effort", "gain", "missing", "rates", "holds_to", "why")
UNCONFIRMED = "its pass at the best of several is not confirmed on a fresh seed"
LineKey = tuple[Any, ...]
"""What rows that differ in their size alone have in common: the values of their other columns."""
LEAST_COLUMNS = tuple(name for rule in RULES for name in (f"least_{rule}", f"least_{rule}_verdict"))


@dataclass(frozen=True)
class Ends:
    """How the trials of cells ended. Only seeds that ran at a cell's own budget count."""

    rates: Mapping[Cell, Sequence[AtRate]]
    """How they ended at each combination of a cell's nuisance values other than the steps."""
    seconds: Mapping[int, float]
    """For how many seconds a seed of each cell trained on average, from its first step on."""
    flops: Mapping[int, Mapping[int, float]]
    """The training FLOPs of the seeds of each cell, from their first step on."""
    settles: Mapping[int, str]
    """The latest sweep that settles its answers and plans the cell, by cell."""

    @classmethod
    def of(cls, views: Views, goal: Goal, rows: Sequence[MinRow]) -> Ends:
        """Returns how the trials ended of the cells that give and decide these rows, read from the
        views. A seed that diverged has the worst score. goal: what the question's condition
        says."""
        deciding = [cell for row in rows for cell in row.deciding]
        read = [*deciding, *(cell for row in rows for cell in row.passing)]
        cells = sorted({point.row["cell"] for cell in read for point in cell.points})
        ended = views.fetch(
            f"SELECT cell, seed, {quoted(goal.metric)}, worth, seconds, train_flops "
            f"FROM raw.outcomes WHERE NOT carried AND status IN {RAN} "
            "AND cell IN (SELECT unnest(?))",
            cells,
        )
        finals: dict[int, dict[int, Final]] = defaultdict(dict)
        times: dict[int, list[float]] = defaultdict(list)
        flops: dict[int, dict[int, float]] = defaultdict(dict)
        for number, seed, score, total, took, spent in ended:
            if took is not None:
                times[number].append(took)
            if spent is not None:
                flops[number][seed] = spent
            if score is not None and not isnan(score):
                finals[number][seed] = Final(score, total)
        rates = {cell: _rates(cell, finals) for cell in deciding}
        seconds = {number: fmean(found) for number, found in times.items()}
        told = (
            "SELECT cell, settles FROM raw.rules "
            "WHERE settles NOTNULL AND cell IN (SELECT unnest(?))"
        )
        settles = dict(views.fetch(told, cells)) if views.selection.settles else {}
        return cls(rates, seconds, flops, settles)

    def effort(self, row: MinRow) -> float | None:
        """Returns how many times the training FLOPs of the row's pass the deciding cells had, over
        all rates and seeds. A seed counts with its longest run, which shorter ones are part of.
        Returns None where nothing passed, and where FLOPs are not known."""
        passed = min(
            (point for cell in row.passing for point in _passing(cell)),
            key=lambda point: point.steps,
            default=None,
        )
        if passed is None:
            return None
        [at_its_rate] = [
            same for cell in row.passing for same in _by_rate(cell).values() if passed in same
        ]
        whole = self._longest([point for point in at_its_rate if point.steps <= passed.steps])
        spent = sum(self._longest(p) for cell in row.deciding for p in _by_rate(cell).values())
        return spent / whole if whole and spent else None

    def _longest(self, points: Sequence[Cell]) -> float:
        """Returns the FLOPs of the longest run of each seed, of cells at one rate."""
        longest: dict[int, float] = {}
        for point in points:
            for seed, spent in self.flops.get(point.row["cell"], {}).items():
                longest[seed] = max(spent, longest.get(seed, 0.0))
        return sum(longest.values())


def tried_columns(
    views: Views, rows: Sequence[MinRow], condition: Node, ends: Ends | None
) -> Iterator[dict[str, Any]]:
    """Yields TRIED_COLUMNS of each of the rows. `ends` is None where the condition is not a goal
    on one score, or where the question minimises a score."""
    goal, slowest = goal_of(condition), _slowest(views, rows)
    for row in rows:
        deciding = row.deciding
        failed = [p.steps for cell in deciding for p in cell.points if p.failed]
        found = _forecast(views, slowest, row, goal, ends)
        yield {
            "steps": _least_steps(row) or None,
            "fail_steps": max(failed, default=None) or None,
            "effort": ends and ends.effort(row),
            "gain": found.last_doubling and found.last_doubling.gain,
            "missing": found.last_doubling and _finite(found.last_doubling.missing),
            "rates": ends and max((len(ends.rates[cell]) for cell in deciding), default=None),
            "holds_to": found.holds_to,
            "why": found.reason + (_price(deciding, ends, found) if ends else ""),
        }


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _forecast(
    views: Views, slowest: Mapping[LineKey, int], row: MinRow, goal: Goal | None, ends: Ends | None
) -> Forecast:
    """Returns what the cells that decide one row would do with more training. A row without a value
    takes the budget that a pass needs from the rows of other sizes, as the search does. These
    budgets stand in `slowest`, which `_slowest` returns."""
    if ends is None or goal is None:
        return Forecast("untested", "the question is not about one score")
    if row.verdict.kind == "not monotone":
        return Forecast("untested", "cells contradict each other")
    if not row.deciding:
        return Forecast("untested", "the grid has no smaller value")
    if row.passing and not any(map(_confirmed, row.passing)):
        return Forecast("untested", UNCONFIRMED)
    first = min(point.steps for cell in row.deciding for point in cell.points)
    budget = _least_steps(row) or slowest.get(_line(views, row)) or first
    deciding = {point.row["cell"] for cell in row.deciding for point in cell.points}
    sweeps = {ends.settles[cell] for cell in deciding & ends.settles.keys()}
    settle = views.selection.settle(sweeps)
    if row.deciding[0].row["L"] is None:  # a loop of the user's own, whose steps may be anything
        settle = settle if sweeps else replace(settle, least=1)
        if not budget:
            return Forecast("untested", "its loop has no `steps`: nobody knows how long it ran")
    found = [
        forecast(ends.rates[cell], goal, cell.row["pass"], settle, budget) for cell in row.deciding
    ]
    order = {"untested": 0, "moving": 1, "holds": 2}
    return min(found, key=lambda one: (order[one.kind], one.holds_to or 0))


def _price(deciding: Sequence[Cell], ends: Ends, found: Forecast) -> str:
    """Returns words on how long the next doubling of the budget would take for a cell that moves,
    with all its seeds in one slot, one after the other. Each seed continues from the state at the
    start of its decay, but a user's own loop starts anew. The text is empty if no cell moves or if
    no times are recorded."""
    if found.kind != "moving" or found.last_doubling is None:
        return ""
    steps = found.last_doubling.steps
    points = [p for cell in deciding for p in cell.points if p.steps == steps]
    took = [ends.seconds[p.row["cell"]] for p in points if p.row["cell"] in ends.seconds]
    if not took:
        return ""
    decay = points[0].row.get("decay")
    seconds = (1 + (1 if decay is None else decay)) * max(took) * points[0].row["seeds"]
    return f"; {2 * steps} steps take some {duration(seconds)}"


def _least_steps(row: MinRow) -> int | None:
    """Returns the least budget of steps with which the row's value passes. Returns None if nothing
    passes, and 0 where the cells that pass have no `steps`."""
    return min((point.steps for cell in row.passing for point in _passing(cell)), default=None)


def _slowest(views: Views, rows: Sequence[MinRow]) -> dict[LineKey, int]:
    """Returns, for each set of rows that differ in their size alone, the greatest budget that one
    of them needs to pass. Rows without a value need none."""
    found: dict[LineKey, int] = {}
    for row in rows:
        if needed := _least_steps(row):
            line = _line(views, row)
            found[line] = max(needed, found.get(line, 0))
    return found


def _line(views: Views, row: MinRow) -> LineKey:
    """Returns what a row has in common with the rows that differ from it in their size alone."""
    size_field = views.selection.size_fields.get(row.columns["task"])
    return tuple(v for name, v in row.columns.items() if name not in ("size", "L", size_field))


def _rates(cell: Cell, ended: Mapping[int, Mapping[int, Final]]) -> list[AtRate]:
    """Returns how the trials of a cell ended, for each combination of its nuisance values other
    than the steps. ended: how those of each point ended, by seed."""
    rates = []
    for rest, points in _by_rate(cell).items():
        runs: dict[int, dict[int, Final]] = defaultdict(dict)
        for point in points:
            for seed, final in ended.get(point.row["cell"], {}).items():
                runs[seed][point.steps] = final
        if runs:
            rates.append(AtRate(_peak_lr(cell, dict(rest)), runs))
    return rates


def _by_rate(cell: Cell) -> dict[tuple[tuple[str, Any], ...], list[Cell]]:
    """Returns the points of a cell by their nuisance values other than the steps."""
    found: dict[tuple[tuple[str, Any], ...], list[Cell]] = defaultdict(list)
    for point in cell.points:
        rest = tuple((axis, point.row[axis]) for axis in cell.tuned if axis != "steps")
        found[rest].append(point)
    return found


def _peak_lr(cell: Cell, axes: Mapping[str, Any]) -> float:
    found = place({**cell.row, **axes}, "lr") if "lr" in axes else None
    return found or 0.0


def _confirmed(cell: Cell) -> bool:
    """Returns whether the pass of a cell needs no confirmation, or fresh seeds have confirmed it. A
    cell needs none if only one of its points was measured, so that its pass is not the best of
    several, or if one seed is enough to pass."""
    points = [point for point in cell.points if point.measured]
    if len(points) == 1 or cell.row["pass"] == "any":
        return True
    return any(point.confirmed for point in _passing(cell))


def _passing(cell: Cell) -> list[Cell]:
    return [point for point in cell.points if point.outcome]


def least_columns(grouping: Grouping, row: MinRow, decisive: bool) -> dict[str, Any]:
    """Returns LEAST_COLUMNS of one row. These are the least values with which at least one seed,
    the median of the seeds, and all of them pass, each with its verdict. They are None where no
    cell of the row has LEAST_SEEDS seeds that passed or failed. decisive: the outcome that is
    enough for cells that are taken together (`cells.together`)."""
    found: dict[str, Any] = dict.fromkeys(LEAST_COLUMNS)
    points = {value: _with_enough(cells) for value, cells in row.by_value.items()}
    if any(p.decided >= LEAST_SEEDS for same in points.values() for one in same for p in one):
        every = [_by_rules(value, same, decisive) for value, same in points.items()]
        for rule, candidates in zip(RULES, zip(*every, strict=True), strict=True):
            verdict = verdict_of(grouping, candidates)
            found[f"least_{rule}"] = verdict.value
            found[f"least_{rule}_verdict"] = verdict.kind
    return found


def _with_enough(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Returns the points of the grid with at least LEAST_SEEDS seeds. Those of one list belong to
    one cell and differ in their budgets alone."""
    every = (same for cell in cells for same in _by_rate(cell).values())
    enough = ([point for point in same if point.row["seeds"] >= LEAST_SEEDS] for same in every)
    return [same for same in enough if same]


def _by_rules(value: Value, points: Sequence[list[Cell]], decisive: bool) -> list[Candidate]:
    """Returns what `_by_rule` says for each of RULES. One point alone says so itself."""
    if len(points) == 1 == len(points[0]):
        [[point]] = points
        return [Candidate(value, outcome, budget=point.steps) for outcome in point.by_rule]
    return [_by_rule(value, points, number, decisive) for number in range(len(RULES))]


def _by_rule(value: Value, points: Sequence[list[Cell]], rule: int, decisive: bool) -> Candidate:
    """Returns what the points `_with_enough` seeds, which share a value, say over their nuisance
    axes by one of RULES, of which `rule` is the number. One list of them with the outcome
    `decisive` is enough for it. A budget that is open does not count where another one is
    decided."""
    steps: dict[bool | None, list[int]] = {True: [], False: [], None: []}
    all_fall_short = bool(points)
    for same in points:
        outcomes = [point.by_rule[rule] for point in same]
        for point, outcome in zip(same, outcomes, strict=True):
            steps[outcome].append(point.steps)
        all_fall_short = all_fall_short and (not decisive) in outcomes
    outcome = decisive if steps[decisive] else not decisive if all_fall_short else None
    return Candidate(value, outcome, budget=(min if outcome else max)(steps[outcome], default=0))
