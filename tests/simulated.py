"""Grids whose trials have outcomes from a table, and a driver that runs these trials in any
order."""

from __future__ import annotations

import random
from collections.abc import Callable
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
