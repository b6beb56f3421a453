"""Forecasts of `holds_to` beside simulated learning curves, whose score at any budget is known.

    python benchmarks/horizon_simulated.py [--truths 400] [--seed 0] [--wrong] [--keep-on]

curves.py says how truths are drawn. Each truth is searched through a real plan and the real search,
on 2 slots, to its end. A trial costs the FLOPs from the furthest state that the trials before it
have kept. The peer is the staircase of the same grid without `settle`.

Three tables are printed. The first says, by family, how many rows have a deciding cell that fails,
of how many of them the forecast reaches 2 and 4 times the steps that it was trained for, and of
how many of these the cell passes by then at one of the grid's rates. The second says what settling
costs. The third says how often cells pass that should not, and how often cells are refused that
should pass.

--keep-on: with `give_up: false` and `share: 1`.
"""

from __future__ import annotations

import argparse
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from curves import GOAL, RATES, SAMPLES, Truth, draw, generator
from printed import section, share

from sweepd.grid.options import Settle
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.search.base import Search
from sweepd.search.seeds import Outcome
from sweepd.search.staircase import StaircaseSearch, search_of

GRID = """
name: simulated
task: {{name: lis, n: {sizes}}}
model: {{name: standard, d: {widths}, layers: 2, heads: 2, positions: learned}}
train: {{steps: {base}, lr: {rates}}}
tune: [train.lr]
seeds: [0, 1, 2]
pass: {rule}
search: staircase
"""
RULE = Settle(factor=4, least=2000, most=32_000)
SETTLE = f"settle={{factor: {RULE.factor}, least: {RULE.least}, most: {RULE.most}}}"
SLOTS = 2
LOOKS = {"kept": False, "drawn anew": True}
"""Whether a seed that passes at one budget passes at all, or is drawn anew at each."""


TIMES = (2, 4)
COIN_WIDTHS, COIN_BASE = (8, 16), 1000


class Answer(NamedTuple):
    """What a search says of one size at its end. value: the least d, or None where none passes.
    deciding: the next smaller d, or the largest one, if it was trained longer. steps: for how many
    steps. holds_to: up to how many steps it is forecast to fail."""

    value: float | None
    deciding: int | None = None
    steps: int = 0
    holds_to: int | None = None

    @property
    def times(self) -> int:
        return (self.holds_to or self.steps) // self.steps if self.steps else 1


Answers = Mapping[float, Answer]


@dataclass(frozen=True)
class Method:
    """A search that settles, and how to read it. sets: gives the options, as of `--set`, that the
    grid needs for it at a base budget."""

    sets: Callable[[int], tuple[str, ...]]
    search: Callable[[Plan], Search]
    answers: Callable[[Search], Answers]


class Curves(Protocol):
    def test_score(self, size: int, d: int, rate: float, seed: int, steps: int) -> float: ...


@dataclass(frozen=True)
class Coins:
    """Seeds that pass by chance at the lesser of two widths, alike at every rate."""

    seed: int
    chance: float
    drawn_anew: bool

    def test_score(self, size: int, d: int, rate: float, seed: int, steps: int) -> float:
        key = (self.seed, size, d, rate, seed)
        luck = generator(*key, steps if self.drawn_anew else None).random()
        score = 0.96 if d > COIN_WIDTHS[0] or luck < self.chance else 0.6
        return float(generator(*key, steps, "test").binomial(SAMPLES, score)) / SAMPLES


@cache
def planned(
    sizes: Sequence[int],
    widths: Sequence[int],
    rates: Sequence[float],
    base: int,
    rule: str,
    sets: tuple[str, ...] = (),
) -> Plan:
    lists = {"sizes": list(sizes), "widths": list(widths), "rates": list(rates)}
    text = GRID.format(**lists, base=base, rule=rule)
    return plan(parse_grid(text, "simulated.yaml", sets, Path()))


def grid_of(truth: Truth, sets: tuple[str, ...] = ()) -> Plan:
    return planned(truth.sizes, truth.widths, truth.rates, truth.base, truth.rule, sets)


def answers_of(search: Search) -> Answers:
    """Returns what the staircase says of each size at its end."""
    assert isinstance(search, StaircaseSearch)
    [stair], [known] = search.stairs, search.known
    asked = search.plan.grid.settle
    assert asked is not None
    found = {}
    for size, at in stair.answers(known, search.outcomes, search.abandoned).items():
        foreseen = stair.forecast(at, asked, search.outcomes)
        last, deciding = foreseen.last_doubling, at.deciding and int(at.deciding[1])
        found[size] = Answer(at.value, deciding, last.steps if last else 0, foreseen.holds_to)
    return found


REAL = Method(lambda base: (SETTLE,), search_of, answers_of)
PATIENT = replace(REAL, sets=lambda base: (SETTLE, "settle.give_up=false", "settle.share=1"))


def run(search: Search, curves: Curves) -> dict[float, float]:
    """Drives a search to its end. Returns the FLOPs that it spends, by size."""
    search.learn({}, {trial.id for trial in search.plan.trials})
    kept: dict[str, list[int]] = {}
    """of each trunk, the steps at which its ended trials left their states"""
    out: list[tuple[float, int, Trial]] = []
    spent: dict[float, float] = defaultdict(float)
    now, count = 0.0, 0
    while not search.finished:
        while len(out) < SLOTS and (trial := search.next()):
            ends, steps = trial.train.trunk_end, trial.train.steps
            start = max((at for at in kept.get(trial.trunk, ()) if at <= ends), default=0)
            flops = trial.effort * (steps - start) / steps
            spent[trial.size] += flops
            count += 1
            heapq.heappush(out, (now + flops, count, trial))
        now, _, trial = heapq.heappop(out)
        kept.setdefault(trial.trunk, []).append(trial.train.trunk_end)
        search.ended(trial, Outcome("completed", measured(curves, trial), SAMPLES))
    return spent


def measured(curves: Curves, trial: Trial) -> float:
    d, rate = trial.values.model["d"], trial.train.lr
    assert isinstance(rate, float)
    return curves.test_score(trial.size, d, rate, trial.seed, trial.train.steps)


@dataclass
class Count:
    """Rows of one kind. tried: those whose deciding cell was trained at two budgets or more.
    reach: how many forecasts reach so many times the steps. passed: of how many of these the cell
    passes by then."""

    rows: int = 0
    tried: int = 0
    reach: Counter[int] = field(default_factory=Counter)
    passed: Counter[int] = field(default_factory=Counter)


@dataclass
class Tally:
    kinds: dict[str, Count] = field(default_factory=dict)
    """by family"""
    costs: list[float] = field(default_factory=list)
    """of each truth, FLOPs as a share of those without settling"""
    wrong: list[str] = field(default_factory=list)

    def add(self, truth: Truth, method: Method) -> None:
        search = method.search(grid_of(truth, method.sets(truth.base)))
        spent, peer = run(search, truth), run(search_of(grid_of(truth)), truth)
        self.costs.append(sum(spent.values()) / sum(peer.values()))
        answers = method.answers(search)
        for size in truth.sizes:
            answer, count = answers[size], self.kinds.setdefault(truth.family, Count())
            count.rows += 1
            if answer.deciding is None or not answer.steps:
                continue
            count.tried += 1
            for times in TIMES:
                if answer.times < times:
                    continue
                passes = truth.pooled(size, answer.deciding, times * answer.steps) > GOAL
                count.reach[times] += 1
                count.passed[times] += passes
                if passes and times == answer.times:
                    self.wrong.append(
                        f"truth {truth.seed}, {truth.family}, size {size}, {truth.rule} of 3, base "
                        f"{truth.base}, {len(truth.rates)} rates: d = {answer.deciding} failed with"
                        f" {answer.steps} steps, and passes by {times} times as many"
                    )


def tallied(truths: Iterable[Truth], method: Method) -> Tally:
    tally = Tally()
    for truth in truths:
        tally.add(truth, method)
    return tally


def together(counts: Iterable[Count]) -> Count:
    total = Count()
    for count in counts:
        total.rows += count.rows
        total.tried += count.tried
        total.reach += count.reach
        total.passed += count.passed
    return total


def rows(tally: Tally) -> Iterator[str]:
    kinds = {kind: tally.kinds[kind] for kind in sorted(tally.kinds)}
    kinds["all"] = together(kinds.values())
    yield f"{'':12}{'rows':>6}{'tried':>6}" + "".join(
        f"{f'reach {times}S':>24}{f'passed by {times}S':>24}" for times in TIMES
    )
    for kind, count in kinds.items():
        yield f"{kind:12}{count.rows:6}{count.tried:6}" + "".join(
            f" {share(count.reach[times], count.tried)} "
            f"{share(count.passed[times], count.reach[times])}"
            for times in TIMES
        )


def costs(tally: Tally) -> Iterator[str]:
    quantiles = np.nanquantile(tally.costs, (0.1, 0.5, 0.9, 1.0))
    yield "".join(f"{name:>9}" for name in ("10%", "median", "90%", "worst", "mean"))
    yield "".join(f"{cost:9.2f}" for cost in [*quantiles, np.mean(tally.costs)])


def passes(method: Method, chance: float, rates: int, drawn_anew: bool, count: int) -> int:
    """Returns how many of `count` cells, whose seeds pass by that chance, count as passing at the
    end."""
    grid = planned((4,), COIN_WIDTHS, RATES[rates], COIN_BASE, "median", method.sets(COIN_BASE))
    found = 0
    for seed in range(count):
        search = method.search(grid)
        run(search, Coins(seed, chance, drawn_anew))
        found += method.answers(search)[4].value == COIN_WIDTHS[0]
    return found


def coins(method: Method, count: int) -> Iterator[str]:
    yield f"{'seeds that pass':28}{'rates':>6}  {'the cell passes':24}  {'is refused':24}"
    for chance, rates in ((0.2, 5), (0.95, 5), (0.95, 1)):
        for name, drawn_anew in LOOKS.items():
            found = passes(method, chance, rates, drawn_anew, count)
            yield (
                f"{f'{chance:.0%}, {name}':28}{rates:6}  {share(found, count)}  "
                f"{share(count - found, count)}"
            )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--truths", type=int, default=400)
    arguments.add_argument("--seed", type=int, default=0, help="the first truth's")
    arguments.add_argument("--wrong", action="store_true", help="list forecasts that are wrong")
    arguments.add_argument("--keep-on", action="store_true")
    given = arguments.parse_args()
    method = PATIENT if given.keep_on else REAL
    tally = tallied(map(draw, range(given.seed, given.seed + given.truths)), method)
    section("rows", rows(tally))
    section("cost, as a share of the staircase without settling", costs(tally))
    section("cells by chance", coins(method, given.truths))
    if given.wrong:
        section("wrong forecasts", tally.wrong)


if __name__ == "__main__":
    main()
