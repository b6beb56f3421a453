"""The staircase search beside the whole grid, on a simulated ensemble of accuracy surfaces.

    python benchmarks/staircase.py [--ensemble 5000] [--seed 0]

Each surface has a latent least width for every size, not decreasing (some surfaces are made not
monotone on purpose), accuracies that climb over about an octave of d around it, seeds that differ
and sometimes hang far below (both seen in real training: outcomes are bimodal), and verdict
samples of 1024. The search runs through the interface that the driver uses, its trials ending in
random order; the peer is the whole grid with the same outcomes. What is compared is the least d
that passes at each size, and the trials and training FLOPs that it took.
"""

from __future__ import annotations

import argparse
import heapq
import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sweepd.answers import ask
from sweepd.attempt import ledger_columns
from sweepd.jury import Jury, Outcome
from sweepd.plan import Plan, Trial, plan
from sweepd.search import GridSearch, Search, juries
from sweepd.spec import parse_grid
from sweepd.staircase import search_of
from sweepd.store import Store
from sweepd.verdicts import Candidate, Verdict, judge, wilson

GRID = """
name: ensemble
task: {{name: arithmetic, operators: {sizes}}}
model: {{name: standard, d: {widths}, layers: 3, heads: 4}}
seeds: {seeds}
pass: {rule}
search: {{staircase: {{spot_checks: {spot_checks}, speculate: {speculate}}}}}
"""
WIDTHS, SIZES = (32, 64, 128, 256, 512, 1024), (6, 10, 13, 16)
SAMPLES = 1024
HANGS = 0.08
"""Share of seeds that end far below what their cell can do."""
NOT_MONOTONE = 0.1
"""Share of surfaces on which a smaller size needs more than a larger one, or a width that is not
the least fails."""
ASKED = 20
"""Surfaces of each setting that are also asked about through a store."""
TABLE_2 = {
    "standard": (64, 128, 128, 128),
    "sparse": (128, 256, 256, 256),
    "linear": (256, 512, 512, 512),
}
"""Least widths that P1's Table 2 implies for arithmetic."""

Cell = tuple[int, int]
Ledger = dict[str, Outcome]


@dataclass(frozen=True)
class Setting:
    name: str
    sizes: tuple[int, ...] = SIZES
    widths: tuple[int, ...] = WIDTHS
    seeds: str = "[0, 1, 2]"
    rule: str = "median"
    spot_checks: int = 1
    speculate: str = "true"
    slots: int = 2

    def planned(self) -> Plan:
        fields = {**vars(self), "sizes": list(self.sizes), "widths": list(self.widths)}
        return plan(parse_grid(GRID.format(**fields), self.name, [], Path()))


REFERENCE = Setting("6 x 4, median of 3 seeds, 2 slots")
SETTINGS = (
    REFERENCE,
    replace(REFERENCE, name="6 x 4, all of 3 seeds", rule="all"),
    replace(REFERENCE, name="6 x 4, 1 seed", seeds="[0]"),
    replace(REFERENCE, name="6 x 4, 1 to 5 seeds", seeds="{start: 1, max: 5}"),
    replace(REFERENCE, name="6 x 4, no spot checks", spot_checks=0),
    replace(REFERENCE, name="5 x 4", widths=WIDTHS[:5]),
    replace(REFERENCE, name="4 x 3", sizes=SIZES[:3], widths=WIDTHS[:4]),
    replace(REFERENCE, name="6 x 1", sizes=SIZES[:1]),
    replace(REFERENCE, name="8 x 8", sizes=tuple(range(2, 18, 2)), widths=(16, *WIDTHS, 2048)),
    replace(REFERENCE, name="6 x 4, 1 slot", slots=1),
    replace(REFERENCE, name="6 x 4, 8 slots", slots=8),
    replace(REFERENCE, name="6 x 4, 8 slots, no speculation", slots=8, speculate="false"),
)


@dataclass(frozen=True)
class Surface:
    """latent: the accuracy of each cell without noise; outcomes: of every trial."""

    monotone: bool
    latent: Mapping[Cell, float]
    outcomes: Mapping[str, Outcome]


@dataclass(frozen=True)
class Run:
    """A search at its end: what is known, what it cost, and how long it took, the time of a trial
    going with its FLOPs."""

    search: Search
    trials: int
    flops: float
    time: float


def cell_of(trial: Trial) -> Cell:
    return trial.size, int(trial.axes["d"] or 0)


def surface(planned: Plan, setting: Setting, rng: np.random.Generator) -> Surface:
    """Accuracies climb from .73 to .98 over the octave above a latent edge, lower at its fail."""
    count = len(setting.widths)
    edges = np.sort(rng.integers(0, count + 1, len(setting.sizes)))
    monotone = rng.random() >= NOT_MONOTONE
    hole = None
    if not monotone and len(edges) > 1 and rng.random() < 0.5:
        edges = edges[::-1]
    elif not monotone:
        hole = rng.integers(1, count)
    height = np.arange(count)[None] - edges[:, None] + rng.normal(0.3, 0.15)  # (sizes, widths)
    acc = 1 / (1 + np.exp(-(math.log(9) + 3 * height)))
    if hole is not None:
        acc[:, hole] *= 0.5
    latent = {
        (size, width): float(acc[i, j])
        for i, size in enumerate(setting.sizes)
        for j, width in enumerate(setting.widths)
    }
    outcomes = {}
    for trial in planned.trials:
        mean = latent[cell_of(trial)]
        share = np.clip(mean + rng.normal(0, 0.1 * math.sqrt(mean * (1 - mean))), 0, 1)
        if rng.random() < HANGS:
            share *= rng.uniform(0.1, 0.9)
        correct = rng.binomial(SAMPLES, share)
        outcomes[trial.id] = Outcome("completed", correct / SAMPLES, SAMPLES)
    return Surface(monotone, latent, outcomes)


def run(search: Search, outcomes: Mapping[str, Outcome], slots: int) -> Run:
    """Drive a search to its end on so many slots."""
    search.learn({}, outcomes.keys())
    out: list[tuple[float, str, Trial]] = []
    now = flops = 0.0
    trials = 0
    while not search.finished:
        while len(out) < slots and (trial := search.next()):
            heapq.heappush(out, (now + trial.train_flops, trial.id, trial))
            trials, flops = trials + 1, flops + trial.train_flops
        now, _, trial = heapq.heappop(out)
        search.ended(trial, outcomes[trial.id])
    return Run(search, trials, flops, now)


def answers(cells: Sequence[Jury], ledger: Ledger) -> dict[int, Verdict]:
    """What `min d` says of each size: the fast twin of the question, over one line."""
    votes = {cell_of(jury.trials[0]): jury.verdict(ledger) for jury in cells}
    found = {}
    for size in sorted({size for size, _ in votes}):
        candidates = [
            Candidate(
                width,
                votes[size, width],
                any(votes[s, w] is False for s, w in votes if w == width and s < size),
            )
            for at, width in sorted(votes)
            if at == size
        ]
        found[size] = judge(candidates)
    return found


def asked(planned: Plan, ledger: Ledger) -> dict[int, Verdict]:
    """The same through a store and the question itself."""
    grid = planned.grid
    with tempfile.TemporaryDirectory() as folder:
        store = Store.create(f"{folder}/results")
        info = {
            "goal": str(grid.goal),
            "pass": grid.pass_rule,
            "size_fields": planned.size_fields,
            "extra_seeds": list(grid.seeds[grid.first_seeds :]),
        }
        store.save_sweep(grid.name, "", info, [trial.row() for trial in planned.trials])
        store.write_trials(
            [
                {
                    **ledger_columns(trial, 1000, grid.name),
                    "status": ledger[trial.id].status,
                    "acc": ledger[trial.id].score,
                    "total": SAMPLES,
                    "correct": round((ledger[trial.id].score or 0) * SAMPLES),
                }
                for trial in planned.trials
                if trial.id in ledger
            ]
        )
        rows = ask(store, "min d where acc > 0.9", code=lambda task, model: None).rows
    return {r["size"]: Verdict(r["verdict"], r["value"], r["fail"], r["inferred"]) for r in rows}


def least(latent: Mapping[Cell, float], size: int) -> int | None:
    return min(
        (width for (s, width), acc in latent.items() if s == size and acc > 0.9), default=None
    )


def is_right(verdict: Verdict, truth: int | None, contradicted: bool) -> bool:
    """Whether what a verdict says holds of the true least width."""
    match verdict.claim:
        case "exact" | "bracketed":
            return truth == verdict.value
        case "above":
            return truth is None
        case "at most":
            return truth is not None and truth <= (verdict.value or 0)
        case "not monotone":
            return contradicted
    return True


def contradicted(latent: Mapping[Cell, bool | None]) -> bool:
    """Whether some cell failed and one of at most its width passed at its size or a larger one."""
    failed = [at for at, passed in latent.items() if passed is False]
    return any(
        f[0] <= p[0] and f[1] >= p[1] for p, passed in latent.items() if passed for f in failed
    )


class Tally:
    """What is counted over the surfaces of one setting."""

    def __init__(self) -> None:
        self.shares: dict[str, list[float]] = defaultdict(list)
        self.agree: dict[bool, Counter[bool]] = defaultdict(Counter)
        self.verdicts: dict[str, Counter[tuple[bool, bool]]] = defaultdict(Counter)
        self.roles: Counter[str] = Counter()
        self.twins = 0

    def add(self, surface: Surface, cells: Sequence[Jury], ours: Run, whole: Run) -> None:
        for name in ("trials", "flops", "time"):
            self.shares[name].append(getattr(ours, name) / getattr(whole, name))
        self.roles.update(ours.search.tally())
        found = answers(cells, ours.search.outcomes)
        full = answers(cells, whole.search.outcomes)
        votes = {cell_of(jury.trials[0]): jury.verdict(whole.search.outcomes) for jury in cells}
        latent = {at: acc > 0.9 for at, acc in surface.latent.items()}
        for size, verdict in found.items():
            self.agree[surface.monotone][verdict.value == full[size].value] += 1
            by_grid = is_right(verdict, full[size].value, contradicted(votes))
            by_truth = is_right(verdict, least(surface.latent, size), contradicted(latent))
            self.verdicts[verdict.claim][by_grid, by_truth] += 1

    def lines(self) -> Iterator[str]:
        for name, shares in self.shares.items():
            middle, late = np.quantile(shares, [0.5, 0.9])
            ends = f"{middle:6.1%} median, {late:6.1%} at 90%, {max(shares):6.1%} at worst"
            yield f"  {name:6} {ends}"
        for monotone, count in sorted(self.agree.items(), reverse=True):
            what = "monotone" if monotone else "not monotone"
            yield f"  same least d, surfaces {what}: {share_of(count[True], count.total())}"
        for claim, count in sorted(self.verdicts.items()):
            total = count.total()
            by_grid = sum(n for (grid, _), n in count.items() if grid)
            by_truth = sum(n for (_, truth), n in count.items() if truth)
            yield (
                f"  {claim:12} {total:6}: right by the whole grid {share_of(by_grid, total)}, "
                f"by the latent surface {by_truth / total:.1%}"
            )
        tried = ", ".join(f"{n / len(self.shares['flops']):.2f} {r}" for r, n in self.roles.items())
        yield f"  cells tried, on average: {tried}; {self.twins} surfaces also asked by `query`"


def share_of(part: int, total: int) -> str:
    low, high = wilson(part / total, total)
    return f"{part / total:.2%} ({low:.2%} to {high:.2%} of {total})"


def ensemble(setting: Setting, count: int, rng: np.random.Generator) -> Tally:
    planned, tally = setting.planned(), Tally()
    cells = juries(planned)
    for i in range(count):
        drawn = surface(planned, setting, rng)
        ours = run(search_of(planned), drawn.outcomes, setting.slots)
        whole = run(GridSearch(planned), drawn.outcomes, setting.slots)
        tally.add(drawn, cells, ours, whole)
        if i < ASKED:
            ledger = ours.search.outcomes
            assert asked(planned, ledger) == answers(cells, ledger), "the twins differ"
            tally.twins += 1
    return tally


def table_2() -> Iterator[str]:
    """The share of the grid's FLOPs on the frontiers that P1's Table 2 implies, without noise."""
    setting = replace(REFERENCE, widths=WIDTHS[:5], slots=1)
    planned = setting.planned()
    total = sum(trial.train_flops for trial in planned.trials)
    for model, edges in TABLE_2.items():
        edge = dict(zip(setting.sizes, edges, strict=True))
        outcomes = {
            t.id: Outcome("completed", 0.99 if cell_of(t)[1] >= edge[t.size] else 0.5, SAMPLES)
            for t in planned.trials
        }
        found = run(search_of(planned), outcomes, 1)
        yield f"  {model:8} {found.flops / total:6.1%} of the FLOPs, {found.trials} of 60 trials"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--ensemble", type=int, default=5000, help="surfaces a setting")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    print("P1's Table 2, d from 32 to 512 by 4 sizes, 3 seeds:")
    print("\n".join(table_2()))
    for setting in SETTINGS:
        print(f"{setting.name}:", flush=True)
        tally = ensemble(setting, given.ensemble, np.random.default_rng(given.seed))
        print("\n".join(tally.lines()), flush=True)


if __name__ == "__main__":
    main()
