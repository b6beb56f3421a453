"""What the failed cell that decides an answer would do with more training: the rule behind
`holds_to`.

A pass is a proof that a width is enough. A fail is not one that it is too little. The cell with the
next smaller d *decides* the answer: it failed with the budgets that it was given, and may pass with
more. It is trained on budgets that double, each with a decay of its own, and judged by the final
test scores after each. Scores on the way say little, since a rate that has not decayed hides what
the weights can do.

The forecast is the simplest one that held on real training (results/horizon): each further doubling
gains at most as much as the last one did, with 95% confidence. So the goal is missed for as many
doublings as that gain goes into what is missing, and at most for `MOST_DOUBLINGS`. Gains that grow,
and seeds that disagree, allow no forecast. A jump later than the last budget cannot be foreseen.

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
from sweepd.judge.cells import is_near
from sweepd.judge.seeds import of_one

MOST_DOUBLINGS = 2
"""How many further doublings of the budget a forecast reaches at the most. As far as that it was
held against real training of tasks that the rule was not chosen by."""
Z = 1.645
"""The number of standard errors above which 5% of a normal distribution lie."""
BEST_RATES = 2
"""How many of a cell's rates are trained for longer: the best rate at first need not stay so."""

Kind = Literal["holds", "moving", "untested"]
"""What is known of a deciding cell. holds: it is forecast to fail. moving: it may pass with more
training. untested: it was not trained long enough to tell."""


class Final(NamedTuple):
    """The final test score of one seed at one budget. total: the size of its test sample."""

    score: float
    total: int | None = None


Runs = Mapping[int, Mapping[int, Final]]
"""The final scores of one cell at one rate, by seed and then by steps."""


class AtRate(NamedTuple):
    """The final scores of a cell at one combination of nuisance values, and its highest rate."""

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
    """The distance from the score to the goal; infinite where it diverges under a loss."""
    error: float
    """The standard error of `gain`, from the evaluation error and the spread of the seeds."""
    close: bool
    """Whether the seeds disagree, or the goal lies within the evaluation error. Seeds disagree too
    where one of them diverged at one of the two budgets alone and so has an infinite score. Where
    all seeds must pass, those that do decide nothing, and so do not disagree."""
    growing: bool | None
    """Whether the gain is larger than that of the doubling before, by more than one standard error
    of their difference. None where the doubling before was not measured."""

    @property
    def holds_to(self) -> int | None:
        """The steps up to which the cell is forecast to miss the goal. None where that is less than
        twice `steps`, and where there is no forecast."""
        if self.close or self.growing is not False:
            return None
        most = max(self.gain, 0.0) + Z * self.error
        doublings = (k for k in range(MOST_DOUBLINGS, 0, -1) if k * most < self.missing)
        return next((self.steps << k for k in doublings), None)

    @property
    def moves(self) -> bool:
        """Whether the cell plainly has no forecast: its gains grow, or one more like the last,
        without its error, brings it to the goal."""
        return bool(self.growing) or self.gain >= self.missing


@dataclass(frozen=True)
class Forecast:
    """What the cell that decides an answer would do with more training."""

    kind: Kind
    reason: str
    last_doubling: LastDoubling | None = None
    """The progress at the rate on which the forecast rests, where there is one."""
    holds_to: int | None = None
    """The steps up to which it is forecast to fail at all rates that were trained for longer."""


def last_doubling(
    runs: Runs, goal: Goal, rule: PassRule, least: int = LEAST_SEEDS
) -> LastDoubling | None:
    """Returns what more training did to the cell. Returns None where it passes, has fewer than
    `least` seeds, or has a seed that fails and was not trained at two budgets."""
    # For each seed, the least budget at which it met the goal.
    passed: dict[int, int | None] = {}
    for seed, finals in runs.items():
        met = [steps for steps, final in finals.items() if goal.met(final.score)]
        passed[seed] = min(met, default=None)
    failing = [seed for seed, at in passed.items() if at is None]
    sign = 1 if goal.comparison.startswith(">") else -1
    if not failing or len(runs) < least:
        return None
    failed = {seed: runs[seed] for seed in failing}
    steps = max(set.intersection(*map(set, failed.values())), default=0)
    last = _doubling(failed, steps, sign)
    if last is None:
        return None
    decisive = [runs[seed][steps if at is None else at] for seed, at in passed.items()]
    scores = [final.score for final in decisive]
    score = of_one(scores, rule, goal.better)
    missing = sign * (goal.threshold - score)
    if goal.met(score):
        return None
    before = _doubling(failed, last.since, sign)
    totals = [final.total for final in decisive if final.total]
    disagree = (len(failing) < len(runs) and rule != "all") or last.gains < len(failing)
    close = disagree or is_near(scores, totals, goal, rule)
    growing = None
    if before is not None and before.gains == last.gains:
        growing = last.gain - before.gain > math.hypot(last.error, before.error)
    return LastDoubling(steps, last.gain, missing, last.error, close, growing)


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


def forecast(
    rates: Sequence[AtRate], goal: Goal, rule: PassRule, settle: Settle, budget: int
) -> Forecast:
    """Returns whether a cell that fails, at each of its rates, would still fail after more
    training, and up to how many steps. budget: the steps with which the next larger value
    passed."""
    needed = settle.needed(budget)
    if needed > settle.most:
        return Forecast("moving", f"would need {needed} steps, above the {settle.most} of settle")
    best = best_rates(rates, goal, rule)
    if not best:
        return Forecast("untested", "no trial ran its budget at this size")
    if edge(rates, best[0]):
        return Forecast("untested", "the best rate is at the edge of those tried")
    leads = [lead_doubling(rate.runs, goal, rule) for rate in best]
    wholes = [last_doubling(rate.runs, goal, rule) for rate in best[: all_seeds_at(leads)]]
    long_enough = [whole if whole and whole.steps >= needed else None for whole in wholes]
    doublings = [whole or one for whole, one in zip_longest(long_enough, leads)]
    for one in doublings:
        if one is None or one.steps < needed:
            finals = (final for ended in best[0].runs.values() for final in ended.values())
            if one is doublings[0] and any(goal.met(final.score) for final in finals):
                return Forecast("moving", "close: some of its seeds pass", one)
            return Forecast("untested", f"not trained for {needed} steps", one)
        if one.close:
            return Forecast("moving", "close: its seeds or the evaluation error disagree", one)
        if one.moves or (one in long_enough and one.holds_to is None):
            reason = f"{one.gain:+.3f} a doubling, {one.missing:.3f} missing"
            grows = ", and the gains grow" if one.growing else ""
            return Forecast("moving", reason + grows, one)
    if None in long_enough:
        at = long_enough.index(None)
        seed = "at the second best rate comes nearer to the goal" if at else "is forecast to fail"
        return Forecast("untested", f"one seed {seed}, the others were not trained", doublings[at])
    # A rate that comes nearer to the goal than the best one counts too, by its lead.
    seen = [one for one in doublings if one is not None]
    count = [one for one in seen if one in long_enough or one.missing < seen[0].missing]
    holds_to = min(one.holds_to or 0 for one in count)
    if holds_to < 2 * max(one.steps for one in count):
        reason = f"at one of its best rates the forecast reaches {holds_to} steps"
        return Forecast("moving", reason, doublings[0])
    return Forecast("holds", f"forecast to fail to {holds_to} steps", doublings[0], holds_to)


def all_seeds_at(leads: Sequence[LastDoubling | None]) -> int:
    """Returns at how many of the best rates all seeds are trained for longer. leads: what more
    training did to the lead of each, the best rate first. It is the best one alone, unless the lead
    at the second best has come nearer to the goal, and has no forecast by itself that reaches twice
    as far as the best was trained. Then one seed says too little of it."""
    first, *others = leads
    return 1 + sum(
        bool(
            first
            and one
            and one.missing < first.missing
            and (one.holds_to or 0) < 2 * max(first.steps, one.steps)
        )
        for one in others
    )


def lead(runs: Runs, goal: Goal, rule: PassRule) -> int:
    """Returns the seed on which the cell's result depends, by the scores at first budgets, which is
    trained for longer first: for `any` the best, for `all` the worst, else the middle one."""
    sign = 1 if goal.comparison.startswith(">") else -1
    order = sorted(runs, key=lambda seed: (sign * runs[seed][min(runs[seed])].score, seed))
    place = {"any": len(order) - 1, "all": 0}
    return order[place.get(rule, len(order) // 2)]


def lead_doubling(runs: Runs, goal: Goal, rule: PassRule) -> LastDoubling | None:
    """Returns what more training did to the lead, or None where it passes or nobody can tell."""
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
    sign = 1 if goal.comparison.startswith(">") else -1
    tried = []
    for rate in ran:
        # The mean score over seeds after their first budgets, signed so that more is better. Its
        # standard error takes in both the evaluation error and the spread of the seeds.
        finals = [by_steps[min(by_steps)] for by_steps in rate.runs.values()]
        scores = [final.score for final in finals]
        error = math.sqrt(sum(_error(final) ** 2 for final in finals)) / len(finals)
        if not all(map(math.isfinite, scores)):
            tried.append((rate, sign * of_one(scores, rule, goal.better), error))
            continue
        if len(scores) > 1:
            error = max(error, stdev(scores) / math.sqrt(len(scores)))
        tried.append((rate, sign * fmean(scores), error))
    peaks = sorted({rate.peak_lr for rate, _, _ in tried})
    _, best, its_error = max(tried, key=lambda one: one[1])

    def merit(one: tuple[AtRate, float, float]) -> tuple[int, float]:
        """Returns a key: how far within the tried range an equal rate lies, else -1; the score."""
        rate, score, error = one
        place = peaks.index(rate.peak_lr)
        equal = score == best or best - score <= math.hypot(error, its_error)
        return min(place, len(peaks) - 1 - place) if equal else -1, score

    return [rate for rate, _, _ in sorted(tried, key=merit, reverse=True)[:BEST_RATES]]


def edge(rates: Sequence[AtRate], best: AtRate) -> Literal["low", "high"] | None:
    """Returns at which end of several tried rates the best one lies, or None."""
    peaks = {rate.peak_lr for rate in rates if rate.runs}
    if len(peaks) > 1 and best.peak_lr == min(peaks):
        return "low"
    return "high" if len(peaks) > 1 and best.peak_lr == max(peaks) else None


def _error(final: Final) -> float:
    """Returns the standard error of a share, with Agresti and Coull's two more answers of either
    kind. Returns 0 for any other score, as where it diverged, and for samples of unknown size."""
    if not final.total or not 0 <= final.score <= 1:
        return 0.0
    total = final.total + 4
    share = (final.score * final.total + 2) / total
    return math.sqrt(share * (1 - share) / total)
