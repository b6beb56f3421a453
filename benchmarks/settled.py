"""Settled answers beside the truth at infinite budget, on simulated learning curves.

    python benchmarks/settled.py [--truths 400] [--seed 0] [--wrong] [--still-to-come 2] [--keep-on]

curves.py says how truths are drawn and what is true of a row. Each truth is searched through a real
plan and the real search, on 2 slots, to its end. A trial costs the FLOPs from the furthest state
that the trials before it have kept. The peer is the staircase of the same grid without `settle`.

Three tables are printed. The first says, by family, how many rows say `yes` and how many of these
are right. It also says how many of the rows whose least d has a smaller one in the grid say `yes`,
what the others say, and how many a search could settle that knew the least d beforehand
(`could_settle`). The second says what settling costs. The third says how often cells pass that
should not, and how often cells are refused that should pass.

--still-to-come: the rule's factor (`sweepd.search.settle`), to see what another one would do.
--keep-on: with `give_up: false` and `share: 1`.
"""

from __future__ import annotations

import argparse
import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from curves import GOAL, RATES, SAMPLES, SEEDS, Row, Truth, draw, generator

from sweepd.grid.options import Goal, Settle
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.intervals import wilson
from sweepd.search import settle
from sweepd.search.base import Search
from sweepd.search.seeds import Outcome, is_near, pooled
from sweepd.search.staircase import StaircaseSearch, search_of

GRID = """
name: settled
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


REASONS = {"close:": "close", "would": "no budget", "the": "edge"}
"""by the first word of what `settle` says of a row that is not settled"""
APART = ("late", "too close")
COIN_WIDTHS, COIN_BASE = (8, 16), 1000


class Answer(NamedTuple):
    """What a search says of one size at its end. value: the least d, or None where none passes.
    settled: `yes`, or why not."""

    value: float | None
    settled: str


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
    return plan(parse_grid(text, "settled.yaml", sets, Path()))


def grid_of(truth: Truth, sets: tuple[str, ...] = ()) -> Plan:
    return planned(truth.sizes, truth.widths, truth.rates, truth.base, truth.rule, sets)


def answers_of(search: Search) -> Answers:
    """Returns what the staircase says of each size at its end: the least d that passes, and whether
    the next smaller d would fail whatever its training. Where none passes, this is whether the
    largest d would."""
    assert isinstance(search, StaircaseSearch)
    [stair], [known] = search.stairs, search.known
    asked = search.plan.grid.settle
    assert asked is not None
    found = {}
    for size, at in stair.answers(known, search.outcomes, search.abandoned).items():
        told = stair.settled_mark(at, asked, search.outcomes)
        word = "smallest" if at.deciding is None else REASONS.get(told.reason.split()[0])
        found[size] = Answer(at.value, word or told.settled)
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


def could_settle(truth: Truth, size: int) -> bool:
    """Returns whether a row could settle if its least d were known, by the rule's own conditions.

    The least d has to pass with a budget P of which `factor` times as much is within the largest
    one. At one rate all seeds of the next smaller d have to fail with a budget of at least that,
    and the evaluation error must not hold the goal. A row that settles rightly meets this, but for
    rates beyond those of the grid, which the search may add. More is asked of it than this.
    """
    goal, budgets = Goal("acc", ">", GOAL), RULE.budgets(truth.base)
    least = truth.row(size).least
    assert least is not None
    below = truth.widths[truth.widths.index(least) - 1]

    def best(d: int, rate: float, steps: int) -> list[float]:
        """Returns the best score of each seed within a budget."""
        upto = [budget for budget in budgets if budget <= steps]
        scores = ((truth.test_score(size, d, rate, s, b) for b in upto) for s in SEEDS)
        return [max(seed) for seed in scores]

    passes = (
        steps
        for steps in budgets
        if any(goal.met(pooled(best(least, r, steps), truth.rule, "up")) for r in truth.rates)
    )
    needed = RULE.needed(next(passes, RULE.most))
    return any(
        not any(map(goal.met, found := best(below, rate, steps)))
        and not is_near(found, [SAMPLES], goal, truth.rule)
        for rate in truth.rates
        for steps in budgets
        if steps >= needed
    )


@dataclass
class Count:
    """Rows of one kind. yes: those settled. right: those settled that are true. here: those whose
    least d has a smaller one in the grid. here_yes: those of `here` that are settled. could: those
    of `here` that could be (`could_settle`)."""

    rows: int = 0
    yes: int = 0
    right: int = 0
    here: int = 0
    here_yes: int = 0
    could: int = 0
    marks: Counter[str] = field(default_factory=Counter)
    """what the rows `here` say"""
    lower: int = 0
    """settled rows whose true least d is smaller"""

    def add(self, row: Row, answer: Answer, here: bool, could: bool) -> None:
        """Counts a row."""
        yes = answer.settled == "yes"
        self.rows += 1
        self.yes += yes
        self.right += yes and answer.value == row.least
        self.lower += yes and (row.least or math.inf) < (answer.value or math.inf)
        self.here += here
        self.here_yes += here and yes
        self.could += could
        self.marks.update([answer.settled] if here else [])


@dataclass
class Tally:
    kinds: dict[str, Count] = field(default_factory=dict)
    """by family, or by what sets a row apart"""
    claims: dict[str, Count] = field(default_factory=dict)
    """of rows that are not set apart, by whether some d passes"""
    costs: list[float] = field(default_factory=list)
    """of each truth, FLOPs as a share of those without settling"""
    row_costs: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """by what a row says: the same of the row alone, if it is searched without settling at all, and
    what settling it adds to its truth's"""
    wrong: list[str] = field(default_factory=list)

    def add(self, truth: Truth, method: Method) -> None:
        search = method.search(grid_of(truth, method.sets(truth.base)))
        spent, peer = run(search, truth), run(search_of(grid_of(truth)), truth)
        without = sum(peer.values())
        self.costs.append(sum(spent.values()) / without)
        answers = method.answers(search)
        for size in truth.sizes:
            row, answer = truth.row(size), answers[size]
            here = row.least is not None and row.least > truth.widths[0]
            could = here and could_settle(truth, size)
            alone = spent.get(size, 0.0) / peer[size] if size in peer else math.nan
            added = (spent.get(size, 0.0) - peer.get(size, 0.0)) / without
            self.row_costs.setdefault(answer.settled, []).append((alone, added))
            kind = "late" if row.late else "too close" if row.too_close else truth.family
            self.kinds.setdefault(kind, Count()).add(row, answer, here, could)
            if kind not in APART:
                claim = "above" if answer.value is None else "a d passes"
                self.claims.setdefault(claim, Count()).add(row, answer, here, could)
            if answer.settled == "yes" and answer.value != row.least:
                self.wrong.append(
                    f"truth {truth.seed}, size {size}, {kind}, {truth.rule} of 3, base {truth.base}"
                    f", {len(truth.rates)} rates: says {answer.value}, is {row.least}"
                    + ("" if row.monotone else ", not monotone")
                )


def tallied(truths: Iterable[Truth], method: Method) -> Tally:
    tally = Tally()
    for truth in truths:
        tally.add(truth, method)
    return tally


def together(counts: Iterable[Count]) -> Count:
    total = Count()
    for count in counts:
        for name, value in vars(count).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def share(part: int, total: int) -> str:
    """Returns a share with its Wilson interval, as text."""
    if not total:
        return f"{'-':>23}"
    low, high = wilson(part / total, total)
    return f"{part / total:7.1%} ({low:6.1%}-{high:6.1%})"


def rows(tally: Tally) -> Iterator[str]:
    families = sorted(kind for kind in tally.kinds if kind not in APART)
    kinds = {kind: tally.kinds[kind] for kind in families}
    kinds["all of these"] = together(kinds.values())
    kinds |= {f"  {claim}": count for claim, count in sorted(tally.claims.items())}
    kinds |= {f"apart: {kind}": tally.kinds[kind] for kind in APART if kind in tally.kinds}
    marks = sorted({mark for count in kinds.values() for mark in count.marks})
    yield (
        f"{'':18}{'rows':>6}{'yes':>6}{'right':>24}{'less is true':>14}{'in the grid':>13}"
        f"{'of these yes':>24}{'could':>8}" + "".join(f"{mark:>10}" for mark in marks)
    )
    for kind, count in kinds.items():
        yield (
            f"{kind:18}{count.rows:6}{count.yes:6} {share(count.right, count.yes)}"
            f"{count.lower:14}{count.here:13} {share(count.here_yes, count.here)}"
            f"{count.could / max(count.here, 1):8.1%}"
            + "".join(f"{count.marks[mark] / max(count.here, 1):10.1%}" for mark in marks)
        )


def costs(tally: Tally) -> Iterator[str]:
    yield f"{'':22}" + "".join(f"{name:>9}" for name in ("10%", "median", "90%", "worst", "adds"))
    yield f"{'a truth':22}{_quantiles(tally.costs)}{np.mean(tally.costs) - 1:9.2f}"
    for word, found in sorted(tally.row_costs.items()):
        alone, added = zip(*found, strict=True)
        adds = sum(added) / len(tally.costs)
        yield f"{f'a row: {word}':15}{len(found):7}{_quantiles(alone)}{adds:9.2f}"


def _quantiles(found: Sequence[float]) -> str:
    return "".join(f"{cost:9.2f}" for cost in np.nanquantile(found, (0.1, 0.5, 0.9, 1.0)))


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


def section(title: str, lines: Iterable[str]) -> None:
    print(f"\n{title}\n", flush=True)
    for line in lines:
        print(line.rstrip(), flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--truths", type=int, default=400)
    arguments.add_argument("--seed", type=int, default=0, help="the first truth's")
    arguments.add_argument("--wrong", action="store_true", help="list settled rows that are wrong")
    arguments.add_argument("--still-to-come", type=float, default=settle.STILL_TO_COME)
    arguments.add_argument("--keep-on", action="store_true")
    given = arguments.parse_args()
    method = PATIENT if given.keep_on else REAL
    settle.STILL_TO_COME = given.still_to_come
    tally = tallied(map(draw, range(given.seed, given.seed + given.truths)), method)
    section("rows", rows(tally))
    section("cost, as a share of the staircase without settling", costs(tally))
    section("cells by chance", coins(method, given.truths))
    if given.wrong:
        section("settled and wrong", tally.wrong)


if __name__ == "__main__":
    main()
