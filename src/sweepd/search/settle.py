"""Whether more training would change an answer: the rule behind `settled`.

The least d that passes is a property of the architecture only if the next smaller d fails however
long it is trained. The cell at that smaller d *decides* the answer. It is trained on budgets that
double, each with a decay of its own, and judged by the final test scores after each. Scores on
the way say little, since a rate that has not decayed hides what the weights can do. The cell
stands still if the gain that is still to come, with 95% confidence, is less than what is missing
from its score to the goal.

The gain still to come is extrapolated. Where a score approaches its limit as a power of the
steps, c · steps^-β, each doubling gains r = 2^-β times as much as the one before. All doublings
that follow the last one gain r / (1 - r) times as much as that one (Aitken 1926). Where the last
two doublings show how fast the gains fall, the upper end of r is taken from them, with their
errors. `STILL_TO_COME` is the factor for the slowest approach that is allowed for, and holds where
they do not show it. A jump that comes later than the last budget cannot be foreseen.

Everything here is a function of trials that have ended. A search asks it what to train next. A
question asks it what its rows may claim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean, stdev
from typing import Literal, NamedTuple

from sweepd.grid.options import LEAST_SEEDS, Goal, PassRule, Settle
from sweepd.search.seeds import is_near, pooled

STILL_TO_COME = 2.0
"""The most that all further doublings may gain, as a multiple of the last one's gain. It
corresponds to β = .58."""
LEAST_TO_COME = 0.5
"""The least that they are taken to gain. It corresponds to β = 1.58."""
Z = 1.645
"""The number of standard errors above which 5% of a normal distribution lie."""
BEST_RATES = 2
"""The number of a cell's rates that are trained for longer. It is more than one, since the best
rate at first need not be the best later."""

Settled = Literal["yes", "moving", "untested"]


class Final(NamedTuple):
    """The final test score of one seed at one budget. total: the size of its test sample."""

    score: float
    total: int | None = None


Runs = Mapping[int, Mapping[int, Final]]
"""The final scores of one cell at one rate, by seed and then by steps."""


class AtRate(NamedTuple):
    """The final scores of a cell at one combination of nuisance values. peak_lr: the highest
    learning rate of its training."""

    peak_lr: float
    runs: Runs


@dataclass(frozen=True)
class LastDoubling:
    """What more training did to a cell that fails, at one rate."""

    steps: int
    """The largest budget, in steps, to which all seeds that fail were trained."""
    gain: float
    """The average improvement of the failing seeds' scores for each doubling of the budget, from
    the budget before `steps` to `steps`."""
    missing: float
    """The distance from the cell's score to the goal. It is infinite where a cell diverges whose
    goal is on a loss."""
    error: float
    """The standard error of `gain`. It includes the evaluation error and the spread of the
    seeds."""
    close: bool
    """Whether the seeds disagree, or the goal lies within the evaluation error. Seeds disagree too
    where one of them diverged at one of the two budgets alone and so has an infinite score. Where
    all seeds must pass, those that do decide nothing, and so do not disagree."""
    still_to_come: float
    """The gain of all further doublings, as a multiple of `gain`, at the most."""

    @property
    def ahead(self) -> float:
        """The upper end, with 95% confidence, of the gain still to come."""
        return self.still_to_come * (max(self.gain, 0.0) + Z * self.error)

    @property
    def stands_still(self) -> bool:
        return not self.close and self.ahead < self.missing

    @property
    def moves(self) -> bool:
        """Whether the cell plainly does not stand still. That is so if the gain still to come,
        without its error, is more than what is missing."""
        return self.still_to_come * self.gain > self.missing


@dataclass(frozen=True)
class SettledMark:
    """Whether the cell that decides an answer would still fail after more training."""

    settled: Settled
    reason: str
    last_doubling: LastDoubling | None = None
    """The progress at the rate on which the verdict rests, where there is one."""


def last_doubling(
    runs: Runs, goal: Goal, rule: PassRule, least: int = LEAST_SEEDS
) -> LastDoubling | None:
    """Returns what more training did to the cell. Returns None where that cannot be told. That is
    so if the cell has fewer than `least` seeds, if those that fail were not all trained at two
    budgets, or if the cell passes."""
    if not _trained_on(runs):
        return None
    passed = {seed: _passed_at(finals, goal) for seed, finals in runs.items()}
    failing = [seed for seed, at in passed.items() if at is None]
    sign = 1 if goal.comparison.startswith(">") else -1
    if not failing or len(runs) < least:
        return None
    failed = {seed: runs[seed] for seed in failing}
    steps = max(set.intersection(*map(set, failed.values())), default=0)
    last = _doubling(failed, steps, sign)
    if last is None:
        return None
    finals = {seed: runs[seed][steps if at is None else at] for seed, at in passed.items()}
    scores = [final.score for final in finals.values()]
    score = pooled(scores, rule, goal.better)
    missing = sign * (goal.threshold - score)
    if goal.met(score):
        return None
    before = _doubling(failed, last.since, sign)
    totals = [final.total for final in finals.values() if final.total]
    disagree = (len(failing) < len(runs) and rule != "all") or last.gains < len(failing)
    close = disagree or is_near(scores, totals, goal, rule)
    return LastDoubling(steps, last.gain, missing, last.error, close, _still_to_come(before, last))


def _trained_on(runs: Runs) -> bool:
    """Returns whether any seed has run at two budgets. Of many cells none has."""
    return any(len(finals) > 1 for finals in runs.values())


class _Gain(NamedTuple):
    """What one doubling did to seeds. gain: their average improvement. error: its standard error.
    gains: how many of them have a finite improvement. since: the largest budget from which all of
    them were trained on; 0 if it differs."""

    gain: float
    error: float
    gains: int
    since: int


def _doubling(runs: Runs, steps: int, sign: int) -> _Gain | None:
    """Returns what training from the budget before `steps` to `steps` did to seeds. Returns None if
    they were not all trained at both. sign: 1 where more is better, else -1."""
    earlier = [max((s for s in finals if s < steps), default=0) for finals in runs.values()]
    if 0 in (steps, *earlier) or not all(steps in finals for finals in runs.values()):
        return None
    gains, errors = [], []
    for finals, before in zip(runs.values(), earlier, strict=True):
        now, then = finals[steps], finals[before]
        if now.score == then.score:  # both infinite where it diverged twice
            gains.append(0.0)
        elif math.isfinite(now.score - then.score):
            gains.append(sign * (now.score - then.score) / math.log2(steps / before))
        errors.append(math.hypot(_error(now), _error(then)) / math.log2(steps / before))
    error = math.sqrt(sum(e**2 for e in errors)) / len(errors)
    if len(gains) > 1:
        error = max(error, stdev(gains) / math.sqrt(len(gains)))
    since = earlier[0] if len(set(earlier)) == 1 else 0
    return _Gain(fmean(gains or [0.0]), error, len(gains), since)


def _still_to_come(before: _Gain | None, last: _Gain) -> float:
    """Returns how much all further doublings may gain, as a multiple of the last one's gain, by how
    that compares with the gain `before` it. Both have one standard error added where that makes
    the gains fall more slowly."""
    if before is None or before.gain <= before.error or before.gains < last.gains:
        return STILL_TO_COME
    ratio = (max(last.gain, 0.0) + last.error) / (before.gain - before.error)
    if ratio >= STILL_TO_COME / (1 + STILL_TO_COME):
        return STILL_TO_COME
    return max(ratio / (1 - ratio), LEAST_TO_COME)


def settled_mark(
    rates: Sequence[AtRate], goal: Goal, rule: PassRule, settle: Settle, budget: int
) -> SettledMark:
    """Returns whether a cell that fails, at each of its rates, would still fail after more
    training.

    budget: the steps with which the next larger value passed.
    """
    needed = settle.needed(budget)
    if needed > settle.most:
        return SettledMark(
            "moving", f"would need {needed} steps, above the {settle.most} of settle"
        )
    best = best_rates(rates, goal, rule)
    if not best:
        return SettledMark("untested", "no trial ran its budget at this size")
    if edge(rates, best[0]):
        return SettledMark("untested", "the best rate is at the edge of those tried")
    leads = [lead_doubling(rate.runs, goal, rule) for rate in best]
    wholes = [last_doubling(rate.runs, goal, rule) for rate in best[: all_seeds_at(leads)]]
    long_enough = [whole if whole and whole.steps >= needed else None for whole in wholes]
    found = [whole or one for whole, one in zip_longest(long_enough, leads)]
    for one in found:
        if one is None or one.steps < needed:
            if one is found[0] and _any_met(best[0].runs, goal):
                return SettledMark("moving", "close: some of its seeds pass", one)
            return SettledMark("untested", f"not trained for {needed} steps", one)
        if one.close:
            return SettledMark("moving", "close: its seeds or the evaluation error disagree", one)
        if one.moves or (one in long_enough and not one.stands_still):
            told = f"{one.gain:+.3f} a doubling, {one.missing:.3f} missing"
            return SettledMark("moving", told, one)
    if None in long_enough:
        at = long_enough.index(None)
        return SettledMark("untested", _ONE_SEED[at], found[at])
    return SettledMark("yes", "stands still", found[0])


_ONE_SEED = (
    "one seed stands still, the others were not trained",
    "one seed at the second best rate comes nearer to the goal, the others were not trained",
)
"""Why a row is untested where one seed alone was trained for long, at the best rate and at the
second best."""


def all_seeds_at(leads: Sequence[LastDoubling | None]) -> int:
    """Returns at how many of the best rates all seeds are trained for longer. leads: what more
    training did to the lead of each, the best rate first (`lead_doubling`).

    It is the best one alone, unless the lead at the second best has come nearer to the goal than
    at the best, and does not stand still by itself. Then one seed says too little of it.
    """
    first, *others = leads
    return 1 + sum(
        bool(first and one and one.missing < first.missing and not one.stands_still)
        for one in others
    )


def lead(runs: Runs, goal: Goal, rule: PassRule) -> int:
    """Returns the seed on which the cell's result depends, by the scores at the seeds' first
    budgets. It is the best one for `any`, the worst one for `all`, and otherwise the middle one.
    It is trained for longer before the others are."""
    sign = 1 if goal.comparison.startswith(">") else -1
    order = sorted(runs, key=lambda seed: (sign * runs[seed][min(runs[seed])].score, seed))
    place = {"any": len(order) - 1, "all": 0}
    return order[place.get(rule, len(order) // 2)]


def lead_doubling(runs: Runs, goal: Goal, rule: PassRule) -> LastDoubling | None:
    """Returns what more training did to the lead. Returns None where that cannot be told, or
    where the lead passes."""
    if not _trained_on(runs):
        return None
    seed = lead(runs, goal, rule)
    return last_doubling({seed: runs[seed]}, goal, rule, least=1)


def best_rates(rates: Sequence[AtRate], goal: Goal, rule: PassRule) -> list[AtRate]:
    """Returns at most `BEST_RATES` rates, the best first, by the mean scores at their first
    budgets. Where a seed diverged under a goal on a loss, the pass rule takes the mean's place.

    A score counts as equal to the best if the two differ by at most one standard error of their
    difference (after Breiman et al. 1984, the one-SE rule). Otherwise, where all rates stand at
    chance, noise alone would choose one. Of equal rates the one further from the ends of the
    tried range comes first. So a rate at an end is the best only if it is plainly better than
    those within.
    """
    ran = [rate for rate in rates if rate.runs]
    if len(ran) < 2:
        return ran
    tried = [(rate, *_at_first(rate.runs, goal, rule)) for rate in ran]
    peaks = sorted({rate.peak_lr for rate, _, _ in tried})
    _, best, its_error = max(tried, key=lambda one: one[1])

    def merit(one: tuple[AtRate, float, float]) -> tuple[int, float]:
        """Returns a key to sort by: first how far within the tried range an equally good rate
        lies, or -1 for the other rates; then the score."""
        rate, score, error = one
        place = peaks.index(rate.peak_lr)
        equal = score == best or best - score <= math.hypot(error, its_error)
        return min(place, len(peaks) - 1 - place) if equal else -1, score

    return [rate for rate, _, _ in sorted(tried, key=merit, reverse=True)[:BEST_RATES]]


def _at_first(runs: Runs, goal: Goal, rule: PassRule) -> tuple[float, float]:
    """Returns the mean score over seeds after their first budgets, and its standard error. The
    mean is signed so that more is better. The error takes in both the evaluation error and the
    spread of the seeds. Where scores are infinite, they are pooled by the rule."""
    sign = 1 if goal.comparison.startswith(">") else -1
    finals = [by_steps[min(by_steps)] for by_steps in runs.values()]
    scores = [final.score for final in finals]
    error = math.sqrt(sum(_error(final) ** 2 for final in finals)) / len(finals)
    if not all(map(math.isfinite, scores)):
        return sign * pooled(scores, rule, goal.better), error
    if len(scores) > 1:
        error = max(error, stdev(scores) / math.sqrt(len(scores)))
    return sign * fmean(scores), error


def edge(rates: Sequence[AtRate], best: AtRate) -> Literal["low", "high"] | None:
    """Returns at which end of the tried rates the best one lies. Returns None where it lies at
    neither, or where there is no other rate."""
    peaks = {rate.peak_lr for rate in rates if rate.runs}
    if len(peaks) > 1 and best.peak_lr == min(peaks):
        return "low"
    return "high" if len(peaks) > 1 and best.peak_lr == max(peaks) else None


def _passed_at(finals: Mapping[int, Final], goal: Goal) -> int | None:
    """Returns the least budget at which a seed met the goal, or None if it never did."""
    return min((steps for steps, final in finals.items() if goal.met(final.score)), default=None)


def _any_met(runs: Runs, goal: Goal) -> bool:
    """Returns whether any seed met the goal at any budget."""
    return any(goal.met(final.score) for finals in runs.values() for final in finals.values())


def _error(final: Final) -> float:
    """Returns the standard error of a share, with Agresti and Coull's two more answers of either
    kind. Returns 0 for a score that is not a share, as a run that diverged may have, or where the
    size of the sample is unknown."""
    if not final.total or not 0 <= final.score <= 1:
        return 0.0
    total = final.total + 4
    share = (final.score * final.total + 2) / total
    return math.sqrt(share * (1 - share) / total)
