"""Grids whose trials have outcomes from a table, and a driver that runs these trials in any
order."""

import math
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.search.base import Search
from sweepd.search.seeds import Outcome

GRID = """
name: simulated
task: {name: lis, n: [4, 6, 8, 10]}
model: {name: standard, d: [4, 8, 12, 16, 20, 24], layers: 1, heads: 1}
seeds: [0, 1, 2]
search: staircase
"""


SETTLING = """
name: s
task: {name: lis, n: [4, 6, 8], value_range: 32}
model: {name: standard, d: [4, 8, 16, 32], layers: 1, heads: 1}
train: {steps: 1000}
seeds: [0, 1, 2]
settle: {factor: 4, least: 2000, most: 16000, share: 100}
search: staircase
"""
"""A grid that trains for longer what its answers depend on."""


def simulated(*sets: str, text: str = GRID) -> Plan:
    return plan(parse_grid(text, "simulated.yaml", sets, Path()))


@cache
def settling(*sets: str) -> Plan:
    return simulated(*sets, text=SETTLING)


def truth(
    seed: int,
    noise: float = 0.02,
    total: int = 1024,
    diverged: float | None = None,
    stuck: float = 0.0,
) -> Callable[[Trial], Outcome]:
    """Outcomes of trials of SETTLING whose scores approach a limit as a power of the steps, at
    rates of which .003 is best. The limit rises with d and falls with the size. The share `stuck`
    of the seeds stays at .5 whatever its budget. Where some trials may diverge, the scores are
    losses."""
    rng = random.Random(seed)
    needs = dict(zip((4, 6, 8), sorted(rng.uniform(2, 40) for _ in range(3)), strict=True))
    power, early = rng.uniform(0.4, 0.9), rng.uniform(100, 600)

    def outcome_of(trial: Trial) -> Outcome:
        peak, d = trial.train.peak_lr(32), int(str(trial.axes["d"]))
        if random.Random(f"{trial.size} {d} {peak} {trial.seed}").random() < stuck:
            score = 0.5 + random.Random(trial.id).gauss(0, 0.02)
        else:
            limit = 1 / (1 + math.exp(-(2.2 + 1.5 * math.log2(d / needs[trial.size]))))
            missing = (trial.train.steps / early) ** -power + 0.05 * abs(math.log(peak / 3e-3))
            by_chance = random.Random(f"{seed} {trial.id}").gauss(0, noise)
            score = min(1.0, max(0.0, limit - missing + by_chance))
        if diverged is None:
            return Outcome("completed", score, total)
        if random.Random(f"diverged {trial.id}").random() < diverged:
            return Outcome("diverged")
        return Outcome("completed", 3 * (1 - score), total)

    return outcome_of


def drive(
    new_search: Callable[[], Search],
    outcome_of: Callable[[Trial], Outcome],
    slots: int = 1,
    order: random.Random | None = None,
    restart_chance: float = 0.0,
    known: dict[str, Outcome] | None = None,
) -> tuple[dict[str, Outcome], list[Trial], Search]:
    """Run a search to its end, on so many slots, trials ending in random order; every now and
    then the driver dies, and what was out is lost. Returns the ledger, what ended in the order of
    its end, and the last search."""
    order = order or random.Random(0)
    ledger = dict(known or {})
    ended: list[Trial] = []
    while True:
        search = new_search()
        search.learn(ledger, {trial.id for trial in search.plan.trials})
        out: list[Trial] = []
        while not search.finished:
            while len(out) < slots and (trial := search.next()):
                assert trial.id not in search.outcomes and trial not in out
                out.append(trial)
            trial = out.pop(order.randrange(len(out)))
            outcome = outcome_of(trial)
            if outcome.status != "failed":
                ledger[trial.id] = outcome
            ended.append(trial)
            search.ended(trial, outcome)
            if order.random() < restart_chance:
                break
        else:
            return ledger, ended, search
