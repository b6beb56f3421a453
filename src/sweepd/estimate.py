"""How long a plan will take: a rough model of a trial's time, corrected by what the store saw.

The model is the cost of dispatching a step plus the FLOPs at a core's rate, with constants
measured on one core of a shared machine (2 layers, d = 8 to 64, batch 64); the range between its
two lines is wide because machines differ. Trials that the store holds replace it by the 10th to
90th percentile of the ratio of their times to the model's middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import quantiles

import pyarrow as pa

from sweepd.plan import Trial

STEP_SECONDS = (2.5e-3, 8e-3)
FLOPS_PER_SECOND = (60e9, 8e9)
ENOUGH = 5
"""Recorded trials from which on their own times are used."""


def trial_seconds(steps: int, train_flops: float) -> tuple[float, float]:
    """The model's low and high time of one trial on one core."""
    low, high = (
        steps * step + train_flops / rate
        for step, rate in zip(STEP_SECONDS, FLOPS_PER_SECOND, strict=True)
    )
    return low, high


def sweep_seconds(trials: Sequence[Trial], slots: int, recorded: pa.Table) -> tuple[float, float]:
    """Low and high wall time of `trials`, that many at once, given the store's `trials` table."""
    if not trials:
        return 0.0, 0.0
    ranges = [trial_seconds(t.train.steps, t.train_flops) for t in trials]
    if factors := _factors(recorded):
        ranges = [((a + b) / 2 * factors[0], (a + b) / 2 * factors[1]) for a, b in ranges]
    low, high = (max(sum(column) / slots, max(column)) for column in zip(*ranges, strict=True))
    return low, high


def _factors(recorded: pa.Table) -> tuple[float, float] | None:
    """10th and 90th percentile of real over modelled time, of trials that ran their budget."""
    columns: Iterable[list[object]] = (
        recorded.column(name).to_pylist() for name in ("status", "step", "train_flops", "seconds")
    )
    ratios = [
        float(seconds) / (sum(trial_seconds(step, flops)) / 2)
        for status, step, flops, seconds in zip(*columns, strict=True)
        if status == "completed" and step and seconds
    ]
    if len(ratios) < ENOUGH:
        return None
    deciles = quantiles(ratios, n=10)
    return deciles[0], deciles[-1]
