"""How long a plan will take, by a rough model of a trial's time that recorded times correct.

The model's time is the cost of dispatching the steps plus the FLOPs at a core's rate. Its
constants were measured on one core of a shared machine (2 layers, d = 8 to 64, batch 64). The
range between its low and its high time is wide because machines differ. Where the store holds
enough trials, another range replaces it. That one goes from the 10th to the 90th percentile of
the ratio of their times to the middle of the model's range.

Nothing is known beforehand of a user's own loop, and nothing of a GPU. Their times are judged by
trials of theirs that the store holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from statistics import quantiles
from typing import Any

import numpy as np
import pyarrow as pa

from sweepd.grid.trials import Trial
from sweepd.search.base import Search
from sweepd.search.horizon import BEST_RATES
from sweepd.search.staircase import StaircaseSearch
from sweepd.store.schema import Numbers

STEP_SECONDS = (2.5e-3, 8e-3)
FLOPS_PER_SECOND = (60e9, 8e9)
ENOUGH = 5
"""The number of recorded trials from which on their measured times are used."""


def trial_seconds(steps: int, train_flops: float) -> tuple[float, float]:
    """Returns the model's low and high time of one trial on one core, in seconds."""
    low, high = (
        steps * step + train_flops / rate
        for step, rate in zip(STEP_SECONDS, FLOPS_PER_SECOND, strict=True)
    )
    return low, high


@dataclass(frozen=True)
class Bill:
    """What is left to run: how many trials, their training FLOPs, and low and high wall time. The
    FLOPs are None where a loop does not state them. The high wall time is infinite where nobody
    knows it."""

    trials: float
    train_flops: float | None
    seconds_low: float
    seconds_high: float


def bills(
    search: Search,
    slots: int,
    recorded: pa.Table,
    gpus: float = 0.0,
    measured: tuple[float, float] | None = None,
) -> dict[str, Bill]:
    """Returns what is left to run, by name. `grid` is the whole grid. If the search is a
    staircase, `least`, `likely` and `worst` are what it may run of the grid. If the grid asks for
    settling, `settle_most` is about the most that this adds. At the least it adds nothing.

    slots: how many trials run at once. recorded: the store's `trials` table, by which the times
    are judged. gpus: how much of a GPU each trial has. One with a share is judged by trials that
    ran on a GPU, and one without by the others. measured: the least and the most ratio of times to
    the middle of the model's, if some were measured for this plan. They stand for the recorded.
    """
    grid = search.plan.grid
    first = set(grid.seeds[: grid.first_seeds])
    left = [
        trial
        for trial in search.plan.planned
        if trial.seed in first and trial.id not in search.outcomes
    ]
    factors, of_loops = _recorded_times(recorded, on_gpu=bool(gpus))
    factors = measured or factors

    def cost(trial: Trial) -> Numbers:
        if trial.loop_where:
            least, most = of_loops.get(trial.model_name, (0.0, inf))
            low, high = trial.effort * least, trial.effort * most
        else:
            low, high = trial_seconds(trial.train.steps, trial.train_flops or 0.0)
            if factors:
                middle = (low + high) / 2
                low, high = middle * factors[0], middle * factors[1]
            elif gpus:
                low, high = 0.0, inf
        budget = trial.values.stop.seconds or inf
        return np.array([1.0, trial.train_flops or 0.0, min(low, budget), min(high, budget)])

    costs = [np.zeros(4), *map(cost, left)]
    sums = {"grid": (np.sum(costs, axis=0), slots)}
    if isinstance(search, StaircaseSearch):
        lines = max(1, min(slots, len(search.wanted())))
        for name, total in zip(("least", "likely", "worst"), search.ranges(cost), strict=True):
            sums[name] = (total, lines)
    if grid.settle:
        sums["settle_most"] = (_settling(search, grid.settle.most, cost), slots)
    longest = np.max(costs, axis=0)  # no number of slots ends before the longest trial
    states_flops = all(trial.train_flops is not None for trial in search.plan.trials)
    named = {}
    for name, (total, at_once) in sums.items():
        trials, train_flops, low, high = map(float, total)
        of_one = longest if name == "grid" else np.zeros(4)
        low, high = max(low / at_once, of_one[2]), max(high / at_once, of_one[3])
        named[name] = Bill(trials, train_flops if states_flops else None, low, high)
    return named


def _settling(search: Search, most: int, cost: Callable[[Trial], Numbers]) -> Numbers:
    """Returns about the most that settling adds. In each row the dearest cell is trained at its
    best rates for up to `most` steps, and fresh seeds confirm a pass. A value that falls more than
    once costs more. A trial that continues a shorter one costs the share of its steps that it adds.
    """
    total = np.zeros(4)
    for stair in search.stairs if search.wanted() else ():
        of_row: dict[Any, Numbers] = defaultdict(lambda: np.zeros((2, 4)))
        for (size, _), ladders in stair.ladders.items():
            longer = np.zeros(4)
            for ladder in [one for one in ladders if not one.in_reserve][:BEST_RATES]:
                first = ladder.base.trials[0].train
                start = first.trunk_end if first.extensible else 0
                for rung in ladder.rungs[1:]:
                    train = rung.trials[0].train
                    share = 1 - start / train.steps
                    left = (t for t in rung.trials[: rung.first] if t.id not in search.outcomes)
                    longer += sum(map(cost, left), np.zeros(4)) * [1.0, share, share, share]
                    start = train.trunk_end if train.extensible else 0
                    if train.steps >= most:
                        break
            seeds = stair.confirming(ladders[0], ladders[0].base, search.outcomes)
            fresh = sum((cost(t) for t in seeds if t.id not in search.outcomes), np.zeros(4))
            of_row[size] = np.maximum(of_row[size], [longer, fresh])
        total += sum(map(sum, of_row.values()), np.zeros(4))
    return total


def _recorded_times(
    recorded: pa.Table, on_gpu: bool
) -> tuple[tuple[float, float] | None, dict[str, tuple[float, float]]]:
    """Returns what trials that ran their budget took. First come the 10th and the 90th percentile
    of real over modelled time; loops do not count. Each kind of card counts by itself, and the
    range covers all that have `ENOUGH` trials, or is None where none has. Then come, by a loop's
    name, the least and the most seconds for each unit of effort."""
    names = ("status", "L", "model", "step", "steps", "train_flops", "seconds", "card")
    columns = [name for name in names if name in recorded.column_names]
    ratios: dict[str | None, list[float]] = defaultdict(list)
    of_loops: dict[str, list[float]] = defaultdict(list)
    for row in recorded.select(columns).to_pylist():
        ran = row["status"] == "completed" and row["step"] and row["seconds"]
        if not ran or bool(row.get("card")) != on_gpu:
            continue
        if row["L"] is None:  # a loop, which has no tokens
            effort = row["train_flops"] or row.get("steps") or 1
            of_loops[row["model"]].append(row["seconds"] / effort)
        else:
            modelled = sum(trial_seconds(row["step"], row["train_flops"])) / 2
            ratios[row.get("card")].append(row["seconds"] / modelled)
    deciles = [quantiles(of, n=10) for of in ratios.values() if len(of) >= ENOUGH]
    ends = [(of[0], of[-1]) for of in deciles]
    factors = (min(ends)[0], max(high for _, high in ends)) if ends else None
    return factors, {model: (min(costs), max(costs)) for model, costs in of_loops.items()}
