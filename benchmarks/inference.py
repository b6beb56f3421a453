"""How often `fit` is right about growth, on simulated truths.

    python benchmarks/inference.py [growth|intervals|laws|cost ...] [--truths 2000] [--seed 0]

A truth is a law for the level of each size, which is the width at which half of the trials pass. A
size may lie off the law by an error that all its trials share. Each trial needs more or less than
the level by noise of its own (`shared`: all trials of one seed at one size need the same). Both are
normal, in octaves. The trials that the search runs, or those of the whole grid, are handed to the
fit that the question uses. The peer is what a reader of the rows of `min` would say: it grows if
the least width of the largest size lies above that of the smallest. docs/query.md says what the
words mean. The outcome lies in results/inference.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

import numpy as np
from staircase import REFERENCE, Tally, lines_of, section, table_2, three
from surfaces import run

from sweepd.grid.options import Staircase
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.query.laws import LAW_NAMES, Law, Point, Tried, fit, refusal, weights
from sweepd.search.seeds import Outcome
from sweepd.search.staircase import StaircaseSearch

GRID = """
name: truths
task: {{name: arithmetic, operators: {sizes}}}
model: {{name: standard, d: {widths}, layers: 1, heads: 1}}
seeds: {seeds}
pass: median
search: {{staircase: {{speculate: false}}}}
"""
OCTAVES = (8, 16, 32, 64, 128, 256)
HALVES = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
LEAST_L = 32


@dataclass(frozen=True)
class Truth:
    """A law, how trials scatter about it, and the grid that is to find it."""

    exponent: float
    noise: float
    error: float = 0.0
    reach: float = 2.0
    """Octaves of L."""
    widths: tuple[int, ...] = HALVES
    seeds: int = 3
    sizes: int = 6
    search: str = "staircase"
    shared: bool = False
    lowest: bool = False
    """Whether the level of the first size lies within an octave of the smallest width, on either
    side, so that the grid sees some sizes from above alone."""

    @property
    def lengths(self) -> list[float]:
        return [LEAST_L * 2**x for x in np.linspace(0, self.reach, self.sizes)]

    def planned(self) -> Plan:
        """Returns the plan of the truth's grid. The sizes stand for the lengths, since only their
        order matters to a search."""
        sizes, seeds = list(range(2, 2 + self.sizes)), list(range(self.seeds))
        text = GRID.format(sizes=sizes, widths=list(self.widths), seeds=seeds)
        return plan(parse_grid(text, "truths", [], Path()))

    @property
    def name(self) -> str:
        steps = "½" if self.widths == HALVES else "1"
        shared = " shared" if self.shared else " lowest" if self.lowest else ""
        return (
            f"{self.exponent:4.1f}{self.noise:7.1f}{shared:7}{self.error:6.2f}"
            f"{self.sizes:5}/{self.reach:.0f} {steps:>4}{self.seeds:6}  {self.search:10}"
        )


TITLE = f"{'law':>4}{'noise':>7}{'':7}{'error':>6}{'sizes/oct.':>7}{'step':>5}{'seeds':>6}  {'':10}"


@dataclass(frozen=True)
class Found:
    """What is said of one truth. points: what was tried. plain: whether a reader of the rows says
    that it grows (1), falls (-1), or neither (0)."""

    points: Sequence[Point]
    law: Law | None
    plain: int


def found(truth: Truth, count: int, rng: np.random.Generator, shape: str = "") -> Iterator[Found]:
    """Yields the fits to `count` draws of a truth. shape: another law than a power's (see
    `bends`)."""
    planned = truth.planned()
    lengths = dict(zip(sorted({t.size for t in planned.trials}), truth.lengths, strict=True))
    rules = planned.grid.search
    assert isinstance(rules, Staircase)
    least, most = np.log2(truth.widths[0]) + 1, np.log2(truth.widths[-1]) - 1
    climbs = bends(truth, shape)
    for _ in range(count):
        start = rng.uniform(least, max(least, most - max(climbs)))
        if truth.lowest:
            start = rng.uniform(least - 2, least)
        levels = start + np.array(climbs) + truth.error * rng.normal(size=truth.sizes)
        level = dict(zip(lengths, levels, strict=True))
        needs: dict[object, float] = {}
        outcomes = {}
        for trial in planned.trials:
            key = (trial.size, trial.seed) if truth.shared else trial.id
            need = needs.setdefault(key, level[trial.size] + truth.noise * rng.normal())
            score = float(np.log2(trial.axes["d"]) >= need)
            outcomes[trial.id] = Outcome("completed", score, 10_000)
        ran = {trial.id for trial in planned.trials}
        if truth.search == "staircase":
            search = StaircaseSearch(planned, rules)
            run(search, outcomes, 1, lambda trial: trial.train_flops)
            ran = set(search.outcomes)
        votes: dict[tuple[int, int], Counter[bool]] = {}
        for trial in planned.trials:
            if trial.id in ran:
                passed = outcomes[trial.id].score == 1
                votes.setdefault((trial.size, trial.axes["d"]), Counter())[passed] += 1
        points = [
            Point(
                length,
                tuple(Tried(d, v[True], v[False]) for (s, d), v in votes.items() if s == size),
            )
            for size, length in lengths.items()
        ]
        yield Found(points, None if refusal(points) else fit(points), plain(votes))


def bends(truth: Truth, shape: str) -> list[float]:
    """Returns, by size, how far the law has climbed, in octaves."""
    x = np.array(truth.lengths)
    if shape == "sqrt":
        climbed = np.log2(x / np.log(x)) / 2
    elif shape == "log":
        climbed = np.log2(np.log(x))
    elif shape == "plateau":
        climbed = np.maximum(0, np.log2(x / np.sqrt(x[0] * x[-1])))
    else:
        climbed = truth.exponent * np.log2(x)
    return [float(c) for c in climbed - climbed[0]]


def plain(votes: dict[tuple[int, int], Counter[bool]]) -> int:
    """Returns whether the least width grows (1), falls (-1), or neither (0). It compares the
    interval of the least width that passes at the first size with that at the last. What failed at
    a smaller size counts as failed."""
    sizes = sorted({size for size, _ in votes})
    ends = []
    for size in (sizes[0], sizes[-1]):
        passing = [d for (s, d), v in votes.items() if s == size and v[True] > v[False]]
        value = min(passing, default=float("inf"))
        failing = [d for (s, d), v in votes.items() if s <= size and v[False] > v[True]]
        ends.append((max((d for d in failing if d < value), default=0), value))
    (first_low, first), (last_low, last) = ends
    return (last_low >= first) - (first_low >= last)


def share(flags: Sequence[bool]) -> str:
    return f"{fmean(flags):8.1%}" if flags else f"{'-':>8}"


def of_growth(truths: Sequence[Truth], count: int, seed: int) -> Iterator[str]:
    yield f"{TITLE}{'grows':>8}{'falls':>8}{'mean':>8}{'no fit':>8}   rows: grow    fall"
    for i, truth in enumerate(truths):
        all_found = list(found(truth, count, np.random.default_rng([seed, i])))
        laws = [one.law for one in all_found if one.law]
        grows, falls = (
            share([one.law is not None and one.law.direction == word for one in all_found])
            for word in ("grows", "falls")
        )
        said = [share([one.plain == side for one in all_found]) for side in (1, -1)]
        none = share([one.law is None for one in all_found])
        mean = fmean(law.exponent for law in laws)
        yield f"{truth.name}{grows}{falls}{mean:8.3f}{none}   {''.join(said)}"


def of_intervals(truths: Sequence[Truth], count: int, seed: int) -> Iterator[str]:
    yield f"{TITLE}{'covered':>8}{'apart':>8}{'width':>8}{'mean':>8}"
    for i, truth in enumerate(truths):
        laws = [one.law for one in found(truth, count, np.random.default_rng([seed, i])) if one.law]
        other = 0.5 - truth.exponent
        covered = share([law.low <= truth.exponent <= law.high for law in laws])
        apart = share([not law.low <= other <= law.high for law in laws])
        width = median(law.high - law.low for law in laws)
        mean = fmean(law.exponent for law in laws)
        yield f"{truth.name}{covered}{apart}{width:8.2f}{mean:8.3f}"


def of_laws(truth: Truth, count: int, seed: int) -> Iterator[str]:
    """Yields a table with a row for each law that is true, and in the columns the mean weight of
    each law."""
    yield f"{'truth':12}" + "".join(f"{name:>10}" for name in LAW_NAMES)
    for i, name in enumerate(LAW_NAMES):
        drawn = replace(truth, exponent=0.0 if name == "constant" else 0.5)
        rng = np.random.default_rng([seed, i])
        weighed = [weights(one.points) for one in found(drawn, count, rng, name) if one.law]
        means = (fmean(weight[each] for weight in weighed) for each in LAW_NAMES)
        yield f"{name:12}" + "".join(f"{mean:10.2f}" for mean in means)


def of_cost(count: int, seed: int) -> Iterator[str]:
    """Yields the search's share of the whole grid's training FLOPs: median, 90th percentile,
    worst."""
    yield from table_2(count, np.random.default_rng(seed))
    tally = Tally()
    for line in lines_of(REFERENCE, REFERENCE.planned(), count, np.random.default_rng([seed, 0])):
        tally.add(line)
    yield f"{REFERENCE.name:32}{three(tally.shares['flops'])}"


NOISY, HALF = Truth(0.0, 0.7), Truth(0.5, 0.3)
GROWTH = (
    NOISY,
    replace(NOISY, search="grid"),
    replace(NOISY, widths=OCTAVES),
    replace(NOISY, shared=True),
    replace(NOISY, noise=0.3),
    replace(NOISY, sizes=4),
    HALF,
    replace(HALF, widths=OCTAVES),
    replace(HALF, shared=True),
    replace(HALF, sizes=4),
    replace(NOISY, lowest=True),
    replace(NOISY, noise=0.3, lowest=True),
    replace(HALF, lowest=True),
)
WIDE = Truth(0.0, 0.3, reach=3.0, search="grid")
INTERVALS = tuple(
    replace(WIDE, exponent=exponent, error=error, seeds=seeds, search=search)
    for search in ("grid", "staircase")
    for seeds in (3, 1)
    for error in (0.0, 0.2, 0.45, 0.7)
    for exponent in (0.0, 0.5)
    if search == "grid" or error != 0.45
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("parts", nargs="*", help="growth, intervals, laws, cost; default: all")
    arguments.add_argument("--truths", type=int, default=2000, help="draws of each growth")
    arguments.add_argument("--repetitions", type=int, default=400, help="draws of each other row")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    few, seed = given.repetitions, given.seed
    parts = {
        "growth": ("whether it grows", of_growth(GROWTH, given.truths, seed)),
        "intervals": ("intervals, and 0 told from ½", of_intervals(INTERVALS, few, seed)),
        "laws": ("weights of laws", of_laws(replace(WIDE, error=0.2), few, seed)),
        "cost": ("the search's cost", of_cost(few, seed)),
    }
    for part in given.parts or parts:
        section(*parts[part])


if __name__ == "__main__":
    main()
