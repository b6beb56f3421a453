"""Simulated learning curves whose score at infinite budget is known.

benchmarks/horizon_simulated.py compares forecasts with these scores. The curves were fixed before
any rule was tuned, and do not depend on it.

A truth is one task with one architecture. It has 4 or 5 sizes; 5 or 6 widths d, doubling from 8;
1, 3 or 5 learning rates; a base budget of 500, 1000 or 2000 steps; and a pass rule over 3 seeds,
which is median (60%), all or any (20% each). Its score is a pure function of (truth, size, d, rate,
seed, steps). The score is the accuracy on 1024 test samples after the decay, one for each budget. A
seed keeps its limit and its pace over all budgets. The evaluation error is drawn anew for each
budget. The goal is acc > .9. Below, U is drawn uniformly, LU log-uniformly, and N normally with
mean 0. Each is drawn once a truth, but for those of seeds.

Capacity. Each size has an edge, U(-1, widths) octaves above the least d. It rises with the size.
The limit of a seed is its score at infinite budget. h octaves of d above the edge, it is

    chance + (1 - chance) * logistic(c + rise * h + N(spread)),

with chance = U(.05, .5), rise = LU(1.5, 6), spread = U(.1, .5), and c such that the goal is met
from h = 0 on.

Time. At h = 1 it takes LU(150, 3000) steps to the goal at the first size, and LU(1, 2) times as
many at each next one. Each halving of d makes it LU(1.3, 6) times slower, and each seed
N(U(.1, .7)) octaves slower. The curve is chance + (limit - chance) * progress. Its progress depends
on the family:

- `power` (40% of truths): 1 - (1 + steps / time) ** -exponent, exponent = LU(.35, 1.4).
- `plateau` (25%): U(0, .6) of the rise comes by such a law; the rest is a logistic jump around the
  time, of LU(.1, .6) octaves of steps.
- `late jump` (15%): the same, but at h = 1 and the first size it comes after LU(16, 256) budgets.
- `stuck` (20%): half of them power and half plateau, but a share of the seeds never gets beyond
  U(0, .6) of its rise. That share is U(.05, .5) at h = 0, and U(.4, .9) times as large with each
  octave of d.

Rates. There is one, 3e-3; or there are three around it, threefold apart; or five, twofold apart.
The best rate is off by N(.4 of that spacing), or of one octave where there is one rate. It falls by
U(0, .3) octaves with each octave of d. Half a window is LU(1.5, 3) octaves. With several rates it
is LU(1, 1.5) for every other truth, as recurrent models have it (arXiv 2508.19029). u half windows
above or below the best rate the rise falls to 1 / (1 + u ** 16) of it, so it falls sharply at the
window's end. Above the best rate, 4 ** u times as many seeds are stuck. A run there is
2 ** (U(.5, 2.5) * u ** 2) times slower, above and below. The rate that is best for its pace falls
by U(0, .25) octaves with each octave of steps, so what is best at the base need not be best later.

Truth. A row is one size. What is true of it is the least d that passes at infinite budget. A cell
passes where, at the best of the grid's rates, its seeds' limits meet the goal by the pass rule,
without evaluation error. Two kinds of rows are reported apart. A row is `late` if its least d is
learned by a jump after more than 16 base budgets, whatever the family. A row is `too close` to tell
if the limit of its least d, or of one below it, is within one standard error of an evaluation
(.0094) of the goal.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from statistics import median
from typing import Literal

import numpy as np

Family = Literal["power", "plateau", "late jump", "stuck"]
Rule = Literal["median", "all", "any"]

GOAL = 0.9
SAMPLES = 1024
ERROR = math.sqrt(GOAL * (1 - GOAL) / SAMPLES)
SIZES = (4, 6, 8, 10, 12)
WIDTHS = (8, 16, 32, 64, 128, 256)
SEEDS = (0, 1, 2)
BASES = (500, 1000, 2000)
RATE = 3e-3
RATES = {
    1: (RATE,),
    3: tuple(RATE * 3.0**i for i in (-1, 0, 1)),
    5: tuple(RATE * 2.0**i for i in (-2, -1, 0, 1, 2)),
}
SPACING = {1: 1.0, 3: math.log2(3), 5: 1.0}
"""octaves"""
FAMILIES: Mapping[Family, float] = {"power": 0.4, "plateau": 0.25, "late jump": 0.15, "stuck": 0.2}
RULES: Mapping[Rule, float] = {"median": 0.6, "all": 0.2, "any": 0.2}
POOLS: Mapping[Rule, Callable[[list[float]], float]] = {"median": median, "all": min, "any": max}
"""of scores; a pass rule"""
WAITS: Mapping[Rule, Callable[[list[float]], float]] = {"median": median, "all": max, "any": min}
"""of times"""
LATE = 16
"""base budgets"""
MIDDLE = 4000
"""steps for which the fastest rate is the middle of the window"""
MOST_OFF = 1.5
"""half windows from which on no run gets any slower"""


def generator(*key: object) -> np.random.Generator:
    """Returns random numbers that are a function of the key."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -500 else 0.0


@dataclass(frozen=True)
class Landscape:
    """What is drawn once a truth. The module's docstring describes it."""

    chance: float
    rise: float
    spread: float
    first_time: float
    slower_by_size: float
    slower_by_halving: float
    scatter: float
    jumps: bool
    exponent: float
    plateau: float
    jump_width: float
    stuck: float
    stuck_by_octave: float
    stuck_level: float
    best_shift: float
    best_by_width: float
    fastest_by_steps: float
    half_window: float
    slower_off_best: float

    def limit(self, height: float) -> float:
        """Returns the score at infinite budget, `height` octaves of d above the edge."""
        share = (GOAL - self.chance) / (1 - self.chance)
        logit = math.log(share / (1 - share)) + self.rise * height
        return self.chance + (1 - self.chance) * logistic(logit)

    def progress(self, times: float) -> float:
        """Returns the share of the rise that is done after `times` times `Truth.time`."""
        power: float = 1 - (1 + times / self._constant) ** -self.exponent
        if not self.jumps:
            return power
        jump = logistic(math.log2(times) / self.jump_width)
        return self.plateau * power + (1 - self.plateau) * jump

    @cached_property
    def _constant(self) -> float:
        """The power law's constant, in units of the time it takes to the goal at h = 1."""
        limit = self.limit(1.0)
        ratio: float = ((limit - self.chance) / (limit - GOAL)) ** (1 / self.exponent)
        return 1 / (ratio - 1)


@dataclass(frozen=True)
class Fate:
    """What a seed keeps over all budgets: normal deviates of its limit and its pace, and a uniform
    number, which is small where the seed gets stuck."""

    limit: float
    pace: float
    luck: float


@dataclass(frozen=True)
class Row:
    """What is true of one size. least: the least d that passes at infinite budget, or None if none
    in the grid does. monotone: whether every larger d passes too."""

    least: int | None
    late: bool
    too_close: bool
    monotone: bool


@dataclass(frozen=True)
class Truth:
    """One task with one architecture: a grid, and the curves behind it."""

    seed: int
    family: Family
    base: int
    sizes: tuple[int, ...]
    widths: tuple[int, ...]
    rates: tuple[float, ...]
    rule: Rule
    edges: tuple[float, ...]
    land: Landscape

    def test_score(self, size: int, d: int, rate: float, seed: int, steps: int) -> float:
        """Returns the score that a trial measures, evaluation error included."""
        expected = self.score(size, d, rate, seed, steps)
        drawn = generator(self.seed, "test", size, d, rate, seed, steps)
        return float(drawn.binomial(SAMPLES, expected)) / SAMPLES

    def score(self, size: int, d: int, rate: float, seed: int, steps: float) -> float:
        """Returns the expected score of a seed after a budget, which may be infinite."""
        land, height = self.land, self.height(size, d)
        fate, off = self._fate(size, d, rate, seed), self._off(d, rate, MIDDLE)
        rise = land.limit(height + land.spread * fate.limit / land.rise) - land.chance
        rise /= 1 + off**16
        if fate.luck < land.stuck * land.stuck_by_octave**height * 4 ** max(off, 0):
            rise *= land.stuck_level
        return land.chance + rise * land.progress(steps / self.time(size, d, rate, seed, steps))

    def time(self, size: int, d: int, rate: float, seed: int, steps: float) -> float:
        """Returns the pace of a seed in steps. This is when its curve jumps, or when it would be at
        the goal if it had h = 1."""
        land, off = self.land, self._off(d, rate, steps)
        octaves = land.scatter * self._fate(size, d, rate, seed).pace
        octaves += land.slower_off_best * min(abs(off), MOST_OFF) ** 2
        by_size = land.slower_by_size ** self.sizes.index(size)
        by_width = land.slower_by_halving ** (1 - self.height(size, d))
        return float(land.first_time * by_size * by_width * 2**octaves)

    def pooled(self, size: int, d: int, steps: float = math.inf) -> float:
        """Returns the expected score of a cell, by the pass rule over the seeds, at its best
        rate."""
        return max(self._pooled(size, d, rate, steps) for rate in self.rates)

    def row(self, size: int) -> Row:
        pooled = {d: self.pooled(size, d) for d in self.widths}
        passing = [d for d in self.widths if pooled[d] > GOAL]
        least = min(passing, default=None)
        below = [d for d in self.widths if least is None or d <= least]
        return Row(
            least=least,
            late=least is not None and self._wait(size, least) > LATE * self.base,
            too_close=any(abs(pooled[d] - GOAL) < ERROR for d in below),
            monotone=len(passing) == sum(d >= (least or math.inf) for d in self.widths),
        )

    def _wait(self, size: int, d: int) -> float:
        """Returns for how many steps a cell that passes waits for its jumps."""
        if not self.land.jumps:
            return 0
        return min(
            WAITS[self.rule]([self.time(size, d, rate, seed, LATE * self.base) for seed in SEEDS])
            for rate in self.rates
            if self._pooled(size, d, rate, math.inf) > GOAL
        )

    def _pooled(self, size: int, d: int, rate: float, steps: float) -> float:
        return POOLS[self.rule]([self.score(size, d, rate, seed, steps) for seed in SEEDS])

    def height(self, size: int, d: int) -> float:
        """Returns how many octaves of d a width lies above the size's edge."""
        return math.log2(d / self.widths[0]) - self.edges[self.sizes.index(size)]

    def _off(self, d: int, rate: float, steps: float) -> float:
        """Returns how far a rate lies above the best one for so many steps, in half windows."""
        land = self.land
        best = math.log2(RATE) + land.best_shift - land.best_by_width * math.log2(d / 32)
        best -= land.fastest_by_steps * math.log2(steps / MIDDLE)
        return (math.log2(rate) - best) / land.half_window

    def _fate(self, size: int, d: int, rate: float, seed: int) -> Fate:
        return fate(self.seed, size, d, rate, seed)


@lru_cache(maxsize=2**14)
def fate(truth: int, size: int, d: int, rate: float, seed: int) -> Fate:
    """Returns the fate of one seed of the truth with the number `truth`. It is kept, since each
    budget asks for it again."""
    drawn = generator(truth, "fate", size, d, rate, seed)
    return Fate(drawn.normal(), drawn.normal(), drawn.random())


def draw(seed: int) -> Truth:
    """Returns the truth with this number."""
    rng = generator(seed, "truth")

    def log_uniform(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    family = list(FAMILIES)[rng.choice(len(FAMILIES), p=list(FAMILIES.values()))]
    rule = list(RULES)[rng.choice(len(RULES), p=list(RULES.values()))]
    base = BASES[rng.integers(len(BASES))]
    sizes, widths = SIZES[: rng.integers(4, 6)], WIDTHS[: rng.integers(5, 7)]
    rates = list(RATES)[rng.integers(len(RATES))]
    narrow = rates > 1 and rng.random() < 0.5
    first_time = log_uniform(LATE, 256) * base if family == "late jump" else log_uniform(150, 3000)
    land = Landscape(
        chance=rng.uniform(0.05, 0.5),
        rise=log_uniform(1.5, 6),
        spread=rng.uniform(0.1, 0.5),
        first_time=first_time,
        slower_by_size=log_uniform(1, 2),
        slower_by_halving=log_uniform(1.3, 6),
        scatter=rng.uniform(0.1, 0.7),
        jumps=family != "power" and (family != "stuck" or rng.random() < 0.5),
        exponent=log_uniform(0.35, 1.4),
        plateau=rng.uniform(0, 0.6),
        jump_width=log_uniform(0.1, 0.6),
        stuck=rng.uniform(0.05, 0.5) if family == "stuck" else 0.0,
        stuck_by_octave=rng.uniform(0.4, 0.9),
        stuck_level=rng.uniform(0, 0.6),
        best_shift=rng.normal(0, 0.4 * SPACING[rates]),
        best_by_width=rng.uniform(0, 0.3),
        fastest_by_steps=rng.uniform(0, 0.25),
        half_window=log_uniform(1, 1.5) if narrow else log_uniform(1.5, 3),
        slower_off_best=rng.uniform(0.5, 2.5),
    )
    edges = tuple(map(float, np.sort(rng.uniform(-1, len(widths), len(sizes)))))
    return Truth(seed, family, base, sizes, widths, RATES[rates], rule, edges, land)
