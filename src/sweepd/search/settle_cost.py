"""What settling may cost, before it is known where the frontier lies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sweepd.grid.options import Settle
from sweepd.grid.trials import Trial
from sweepd.search.frontier import Position
from sweepd.search.ladder import Ladder
from sweepd.search.seeds import Outcomes
from sweepd.search.settle import BEST_RATES
from sweepd.search.stairs import Stair


def settling_ranges(
    stairs: Iterable[Stair],
    settle: Settle,
    outcomes: Outcomes,
    weights: Sequence[Callable[[Trial], float]],
) -> tuple[list[float], list[float]]:
    """Returns a low and a high sum of each weight over the trials that settling may still run.
    They are the least and the greatest over every monotone frontier.

    Low: each deciding cell fails at one rate and stands still as soon as it may. High: in each
    row the dearest of the failing cells is trained at its best rates for as long as `settle`
    allows. That is no bound, since a value may fall more than once. The first weight counts
    trials. By the other weights a trial that continues a shorter one weighs the share of its
    steps that it adds.
    """
    least, greatest = [0.0] * len(weights), [0.0] * len(weights)
    for stair in stairs:
        positions = {
            at: _settling(ladders, settle, outcomes) for at, ladders in stair.ladders.items()
        }
        for i, weight in enumerate(weights):
            cost = {
                at: [
                    sum(weight(trial) * (share if i else 1) for trial, share in found)
                    for found in both
                ]
                for at, both in positions.items()
            }
            sums = [_over_rows(stair, cost, passes) for passes in stair.line.frontiers()]
            least[i] += min(low for low, _ in sums)
            greatest[i] += max(high for _, high in sums)
    return least, greatest


def _over_rows(
    stair: Stair,
    cost: Mapping[Position, Sequence[float]],
    passes: Callable[[Position], bool],
) -> tuple[float, float]:
    """Returns what settling costs at the least and at the most if this is the frontier."""
    low = high = 0.0
    for size, widths in stair.line.rows:
        failing = [(size, width) for width in widths if not passes((size, width))]
        if failing:
            low += cost[failing[-1]][0]
            high += max(cost[at][1] for at in failing)
    return low, high


def _settling(
    ladders: Sequence[Ladder], settle: Settle, outcomes: Outcomes
) -> tuple[list[tuple[Trial, float]], list[tuple[Trial, float]]]:
    """Returns the trials with which a position stands still as soon as it may, and those with
    which it never does. Each trial comes with the share of its steps that it adds to the run
    before it."""
    found = []
    for most, rates in ((None, 1), (settle.most, BEST_RATES)):
        trials: list[tuple[Trial, float]] = []
        for ladder in [one for one in ladders if not one.in_reserve][:rates]:
            until = most or settle.needed(ladder.base.trials[0].train.steps)
            start = 0
            for rung in ladder.rungs:
                train = rung.trials[0].train
                left = (t for t in rung.trials[: rung.first] if t.id not in outcomes)
                trials += [(trial, 1 - start / train.steps) for trial in left]
                start = train.trunk_end if train.extensible else 0
                if train.steps >= until:
                    break
        found.append(trials)
    return found[0], found[1]
