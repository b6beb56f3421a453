"""Estimates how exactly a grid will tell an exponent, before any of its trials has run.

Outcomes are simulated at the grid's own sizes, widths and seeds. The true exponent is 0, and the
scatter is that given below. The outcomes are fitted as `fit d ~ L` fits those of trials. The median
width of the intervals is what to expect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log2
from statistics import median
from typing import TYPE_CHECKING

from sweepd.query.laws import LEAST_POINTS, Point, Tried, fit, refusal

if TYPE_CHECKING:
    from sweepd.grid.plan import Plan

NOISE, ERROR = 0.3, 0.2
"""The standard deviations, in octaves, of the scatter of trials and of the error of a size. Both
are assumed, since no run has measured them."""
DRAWS = 7
TELLING, HOPE = 0.28, 0.5
"""Half widths of an interval. Up to TELLING, exponents of 0 and ½ are told apart nine times in ten
or more (results/inference). Above HOPE they hardly ever are."""


def precision_notes(plan: Plan) -> Iterator[str]:
    """Yields what to expect of `fit d ~ L`, for each task and each set of sizes and widths."""
    by_model: dict[tuple[str, str], set[tuple[int, int]]] = defaultdict(set)
    for trial in plan.planned:
        if trial.L is not None and "d" in trial.axes:
            at = (trial.L, int(str(trial.axes["d"])))
            by_model[trial.task_name, trial.model_name].add(at)
    lines: dict[tuple[str, tuple[int, ...], tuple[int, ...]], set[str]] = defaultdict(set)
    for (task, model), points in by_model.items():
        lengths, widths = (tuple(sorted({*numbers})) for numbers in zip(*points, strict=True))
        if len(lengths) > 1 and len(widths) > 1:
            lines[task, lengths, widths].add(model)
    for (task, xs, of_d), models in lines.items():
        what = f"{task} ({', '.join(sorted(models))})"
        if len(xs) < LEAST_POINTS:
            yield f"{what}: {len(xs)} sizes, and `fit d ~ L` needs {LEAST_POINTS}"
            continue
        octaves = log2(max(xs) / min(xs))
        where = f"{what}: over {len(xs)} sizes within {octaves:.1f} octaves of L"
        half = half_width(xs, of_d, len(plan.grid.seeds))
        if half is None:
            yield f"{where}, `fit d ~ L` will mostly find no exponent: widen the range of d"
            continue
        tells = "tells 0 from ½" if half <= TELLING else "may tell 0 from ½"
        if half > HOPE:
            tells = "cannot tell 0 from ½: sizes that lie further apart help most, then a finer d"
        yield f"{where}, expect an exponent of `fit d ~ L` to ±{half:.2f}, which {tells}"


@lru_cache
def half_width(lengths: Sequence[int], widths: Sequence[int], seeds: int) -> float | None:
    """Returns half the median width of the 95% interval, or None if most grids carry no fit."""
    import numpy as np

    rng = np.random.default_rng(0)
    halves = []
    for _ in range(DRAWS):
        start = rng.uniform(log2(min(widths)), log2(max(widths)))
        points = []
        for length in lengths:
            level = start + ERROR * rng.normal()
            needs = level + NOISE * rng.normal(size=(len(widths), seeds))
            passed = (np.log2(widths)[:, None] >= needs).sum(axis=1)
            tried = (Tried(d, int(p), seeds - int(p)) for d, p in zip(widths, passed, strict=True))
            points.append(Point(length, tuple(tried)))
        if not refusal(points):
            law = fit(points)
            halves.append((law.high - law.low) / 2)
    return median(halves) if len(halves) > DRAWS // 2 else None
