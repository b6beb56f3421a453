"""Simulated accuracy surfaces, and searches run over them, which benchmarks/staircase.py counts.

A surface has a latent frontier. For each size this is a width, anywhere on the grid or above it,
from which on the accuracy exceeds .9. It rises with the size. The accuracy is a logistic function
of log d, .9 at the frontier, as steep as real training was seen to be (docs/search.md). Seeds
scatter around it, some hang far below, and each is measured on a verdict sample. Some surfaces are
made not monotone on purpose: the frontier falls, or one of the larger widths is bad at every size.
"""

from __future__ import annotations

import heapq
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path

import numpy as np

from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.judge.cells import FAIL
from sweepd.judge.rows import NONE, Cells, Points, values_of, verdicts
from sweepd.query.answers import ask
from sweepd.query.minima import Verdict
from sweepd.run.driver import sweep_info
from sweepd.search.base import Search
from sweepd.search.seeds import CellSeeds, Outcome
from sweepd.search.stairs import Stair
from sweepd.search.walk import Position
from sweepd.store.store import Store
from sweepd.trial.attempt import ledger_columns

GRID = """
name: ensemble
task: {{name: arithmetic, operators: {sizes}}}
model: {{name: standard, d: {widths}, layers: 3, heads: 4}}
train: {{weight_decay: {lines}}}
seeds: {seeds}
pass: {rule}
search: {{staircase: {{spot_checks: {spot_checks}, speculate: {speculate}}}}}
"""
WIDTHS, SIZES = (32, 64, 128, 256, 512, 1024), (6, 10, 13, 16)
STEEPNESS = 1.5, 6.0
"""Least and greatest rise of the accuracy's logit over one octave of d."""
SCATTER = 0.1
"""Standard deviation over seeds, times sqrt(p (1 - p)): .03 at .9."""
HANGS = 0.08
"""Share of seeds that end at .1 to .9 times what their cell can do."""
NOT_MONOTONE = 0.1
"""Share of surfaces that are made so."""
SAMPLES = 1024

Votes = Mapping[Position, bool | None]
Ledger = dict[str, Outcome]


@dataclass(frozen=True)
class Setting:
    """A grid, how it is searched, and the share of trials that fail whenever they are run."""

    name: str
    sizes: tuple[int, ...] = SIZES
    widths: tuple[int, ...] = WIDTHS
    seeds: str = "[0, 1, 2]"
    rule: str = "median"
    spot_checks: int = 1
    speculate: str = "true"
    lines: int = 1
    slots: int = 2
    failing: float = 0.0

    def planned(self) -> Plan:
        """Returns the plan of the setting's grid. Its lines differ in an axis that costs
        nothing."""
        lists = {"sizes": list(self.sizes), "widths": list(self.widths)}
        decays = [i / 100 for i in range(self.lines)]
        text = GRID.format(**{**vars(self), **lists, "lines": decays})
        return plan(parse_grid(text, self.name, [], Path()))


@dataclass(frozen=True)
class Surface:
    """What is drawn for one line. latent: what each position's cell can do. outcomes: those of
    every trial of the line."""

    latent: Mapping[Position, float]
    outcomes: Mapping[str, Outcome]

    @property
    def truth(self) -> Votes:
        """Whether each position passes without noise."""
        return {position: acc > 0.9 for position, acc in self.latent.items()}


def draw(stair: Stair, rng: np.random.Generator, failing: float = 0.0) -> Surface:
    """Returns a surface over one line of a grid, which has every width at every size."""
    rows = stair.line.rows
    widths = rows[0][1]
    edges = np.sort(rng.uniform(-1, len(widths), len(rows)))
    kind = rng.random() / NOT_MONOTONE
    if kind < 0.5:
        edges = edges[::-1]
    height = np.arange(len(widths)) - edges[:, None]  # octaves above the frontier: (sizes, widths)
    steepness = math.exp(rng.uniform(*np.log(STEEPNESS)))
    acc = 1 / (1 + np.exp(-(math.log(9) + steepness * height)))
    if 0.5 <= kind < 1 and len(widths) > 1:
        acc[:, rng.integers(1, len(widths))] *= 0.5
    latent = {
        (size, width): float(acc[i, j])
        for i, (size, _) in enumerate(rows)
        for j, width in enumerate(widths)
    }
    return Surface(latent, _outcomes(stair, latent, rng, failing))


def _outcomes(
    stair: Stair, latent: Mapping[Position, float], rng: np.random.Generator, failing: float
) -> Ledger:
    drawn = [
        (trial.id, latent[position])
        for position, cells in stair.cells.items()
        for seeds in cells
        for trial in seeds.trials
    ]
    ids, means = zip(*drawn, strict=True)
    mean = np.array(means)
    share = np.clip(rng.normal(mean, SCATTER * np.sqrt(mean * (1 - mean))), 0, 1)
    share *= np.where(rng.random(len(ids)) < HANGS, rng.uniform(0.1, 0.9, len(ids)), 1)
    scores = rng.binomial(SAMPLES, share) / SAMPLES
    fails = rng.random(len(ids)) < failing
    return {
        id_: Outcome("failed") if failed else Outcome("completed", float(score), SAMPLES)
        for id_, score, failed in zip(ids, scores, fails, strict=True)
    }


@dataclass(frozen=True)
class Run:
    """A search at its end: how many trials it ran, their FLOPs, and the time on its slots."""

    search: Search
    trials: int
    flops: float
    time: float


def run(
    search: Search,
    outcomes: Mapping[str, Outcome],
    slots: int,
    duration: Callable[[Trial], float],
) -> Run:
    """Drives a search to its end on so many slots, through the interface that the engine uses.
    Returns what it took."""
    search.learn({}, outcomes.keys())
    out: list[tuple[float, int, Trial]] = []
    now, trials, flops = 0.0, 0, 0.0
    while not search.finished:
        while len(out) < slots and (trial := search.next()):
            heapq.heappush(out, (now + duration(trial), trials, trial))
            trials, flops = trials + 1, flops + trial.train_flops
        now, _, trial = heapq.heappop(out)
        search.ended(trial, outcomes[trial.id])
    return Run(search, trials, flops, now)


def answers(votes: Votes) -> dict[float, Verdict]:
    """Returns what `min d` says of each size, over one line of cells."""
    places = sorted(votes)
    sizes, widths = (sorted({place[axis] for place in places}) for axis in (0, 1))
    number, steps = np.arange(len(places)), np.zeros(len(places), np.int64)
    outcome = np.array(
        [0 if votes[place] is None else 2 * bool(votes[place]) - 1 for place in places]
    )
    size = np.array([sizes.index(place[0]) for place in places])
    setting = np.array([widths.index(place[1]) for place in places])
    known = values_of(
        Points(number, outcome, outcome == FAIL, steps, setting),
        Cells(number, outcome, outcome == FAIL, size, setting),
        len(places),
        across_sizes=True,
    )
    starts = [*np.searchsorted(size, range(len(sizes))).tolist(), len(places)]
    return {
        at: Verdict(
            kind,
            None if value == NONE else places[value][1],
            None if fail == NONE else places[fail][1],
            inferred,
        )
        for at, (kind, value, fail, inferred) in zip(sizes, verdicts(known, starts), strict=True)
    }


def voted(stair: Stair, search: Search) -> Votes:
    """Returns what the seeds that have ended say of each position. A further seed counts once it
    has ended."""
    return {
        position: _with_members(seeds, search).passes(search.outcomes, search.abandoned)
        for position, [seeds] in stair.cells.items()
    }


def _with_members(seeds: CellSeeds, search: Search) -> CellSeeds:
    extra = seeds.trials[seeds.first :]
    ended = [t for t in extra if t.id in search.outcomes or t.id in search.abandoned]
    members = (*seeds.trials[: seeds.first], *ended)
    return replace(seeds, trials=members, first=len(members))


def asked(planned: Plan, searches: Sequence[Search]) -> list[dict[float, Verdict]]:
    """Returns the same answers from the question itself, asked of one store with a surface for each
    search."""
    grid = planned.grid
    plan_rows, endings = [], []
    for i, search in enumerate(searches):
        for trial in planned.trials:
            who = dict.fromkeys(("id", "trunk", "config"), f"{trial.id}-{i}") | {"surface": i}
            plan_rows.append(trial.row() | who)
            columns = ledger_columns(trial, 1000, grid.name) | who
            if outcome := search.outcomes.get(trial.id):
                score = {"acc": outcome.score, "total": SAMPLES}
                endings.append({**columns, "status": outcome.status, **score})
            elif trial.id in search.abandoned:
                endings.append({**columns, "status": "failed"})
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(f"{folder}/results")
        store.save_sweep(grid.name, "", sweep_info(planned), plan_rows)
        store.write_trials(endings)
        rows = ask(
            store, "min d by surface, size where acc > 0.9", code=lambda task, model: None
        ).rows
    found: list[dict[float, Verdict]] = [{} for _ in searches]
    for row in rows:
        told = (row[name] for name in ("verdict", "value", "fail", "inferred"))
        found[row["surface"]][row["size"]] = Verdict(*told)
    return found


def contradicted(votes: Votes) -> bool:
    """Returns whether some cell failed although one of at most its width passed at its size or a
    larger one."""
    passing = [position for position, passed in votes.items() if passed]
    failing = [position for position, passed in votes.items() if passed is False]
    return any(f[0] <= p[0] and f[1] >= p[1] for f, p in product(failing, passing))


def least_possible(stair: Stair, votes: Votes, outcomes: Mapping[str, Outcome]) -> float:
    """Returns the FLOPs below which no search shows what is least at each size. What shows it is
    the cell that passes, and the next smaller width failing there or, where that is cheaper, at a
    smaller size."""
    shown: set[Position] = set()
    for size, verdict in answers(votes).items():
        if verdict.value is not None:
            shown.add((size, verdict.value))
        below = [w for s, w in votes if s == size and w < (verdict.value or math.inf)]
        failing = [
            s
            for s, w in votes
            if s <= size and w == max(below, default=None) and votes[s, w] is False
        ]
        if failing:
            shown.add((min(failing), max(below)))
    return sum(_least_flops(stair.cells[position][0], outcomes) for position in shown)


def _least_flops(seeds: CellSeeds, outcomes: Mapping[str, Outcome]) -> float:
    """Returns the FLOPs of the seeds that decide a cell with the fewest of its outcomes."""
    ended = [trial for trial in seeds.trials if trial.id in outcomes]
    for count in range(1, len(ended) + 1):
        for trials in combinations(ended, count):
            if seeds.passes({trial.id: outcomes[trial.id] for trial in trials}) is not None:
                return sum(trial.train_flops for trial in trials)
    raise AssertionError("only cells that are decided are shown")
