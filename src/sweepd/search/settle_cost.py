"""What settling may cost, before it is known where the frontier lies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from sweepd.grid.options import Settle
from sweepd.grid.trials import Trial
from sweepd.search.base import Search
from sweepd.search.frontier import Position
from sweepd.search.ladder import Ladder
from sweepd.search.seeds import Outcomes
from sweepd.search.settle import BEST_RATES
from sweepd.search.staircase import StaircaseSearch
from sweepd.search.stairs import Stair

Weight = Callable[[Trial], float]
Added = tuple[Trial, float]
"""A trial, and the share of its steps that it adds to the run before it."""
Frontier = tuple[Callable[[Position], bool], Collection[Position]]
"""Which positions pass, and which of them the search tries, or may still try, without settling."""


def settling_ranges(
    search: Search, settle: Settle, weights: Sequence[Weight]
) -> tuple[list[float], list[float]]:
    """Returns a low and a high sum of each weight over the trials that only settling may still
    run. They are the least and the greatest over every monotone frontier.

    Low: each deciding cell fails at one rate and stands still as soon as it may. High: in each
    row the dearest of the failing cells is trained at its best rates for as long as `settle`
    allows. That is no bound, since a value may fall more than once. Both hold the fresh seeds
    with which a row's value is confirmed. The first weight counts trials. By the other weights a
    trial that continues a shorter one weighs the share of its steps that it adds.
    """
    least, greatest = [0.0] * len(weights), [0.0] * len(weights)
    for i, stair in enumerate(search.stairs):
        confirming = {
            at: _left(
                stair.confirming(ladders[0], ladders[0].base, search.outcomes), search.outcomes
            )
            for at, ladders in stair.ladders.items()
        }
        longer = {
            (at, tried): _settling(ladders, settle, search.outcomes, tried)
            for at, ladders in stair.ladders.items()
            for tried in (False, True)
        }
        frontiers = list(_frontiers(search, i))
        for j, weight in enumerate(weights):

            def price(trials: Sequence[Added], j: int = j, weight: Weight = weight) -> float:
                return sum(weight(trial) * (share if j else 1) for trial, share in trials)

            fresh = {at: price(trials) for at, trials in confirming.items()}
            cost = {at: [price(trials) for trials in both] for at, both in longer.items()}
            sums = [_over_rows(stair, fresh, cost, frontier) for frontier in frontiers]
            least[j] += min(low for low, _ in sums)
            greatest[j] += max(high for _, high in sums)
    return least, greatest


def _frontiers(search: Search, i: int) -> Iterator[Frontier]:
    """Yields every monotone frontier of a stair."""
    stair = search.stairs[i]
    for passes in stair.line.frontiers():
        if isinstance(search, StaircaseSearch):
            yield passes, stair.line.complete(search.known[i], passes)
        else:
            yield passes, stair.cells


def _over_rows(
    stair: Stair,
    fresh: Mapping[Position, float],
    cost: Mapping[tuple[Position, bool], Sequence[float]],
    frontier: Frontier,
) -> tuple[float, float]:
    """Returns what settling costs at the least and at the most if this is the frontier."""
    passes, tried = frontier
    low = high = 0.0
    for size, widths in stair.line.rows:
        positions = [(size, width) for width in widths]
        failing = [cost[at, at in tried] for at in positions if not passes(at)]
        confirmed = sum(fresh[at] for at in [at for at in positions if passes(at)][:1])
        low += confirmed + (failing[-1][0] if failing else 0.0)
        high += confirmed + max((most for _, most in failing), default=0.0)
    return low, high


def _settling(
    ladders: Sequence[Ladder], settle: Settle, outcomes: Outcomes, tried: bool
) -> tuple[list[Added], list[Added]]:
    """Returns the trials with which a position stands still as soon as it may, and those with
    which it never does. tried: whether the trials of its first budget run without settling."""
    found = []
    for most, rates in ((None, 1), (settle.most, BEST_RATES)):
        trials: list[Added] = []
        for ladder in [one for one in ladders if not one.in_reserve][:rates]:
            until = most or settle.needed(ladder.base.trials[0].train.steps)
            start = 0
            for rung in ladder.rungs:
                train = rung.trials[0].train
                if not (tried and rung is ladder.base):
                    trials += _left(rung.trials[: rung.first], outcomes, 1 - start / train.steps)
                start = train.trunk_end if train.extensible else 0
                if train.steps >= until:
                    break
        found.append(trials)
    return found[0], found[1]


def _left(trials: Sequence[Trial], outcomes: Outcomes, share: float = 1.0) -> list[Added]:
    return [(trial, share) for trial in trials if trial.id not in outcomes]
