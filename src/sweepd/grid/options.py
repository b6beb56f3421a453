"""What a grid says besides its blocks: the goal, the search, the seeds, and how answers settle.

Questions ask this module too, and start without pydantic. What has several fields is therefore a
plain dataclass, which `spec.Options` has pydantic read.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Literal, Self

from sweepd.grid.metrics import BETTER, Better
from sweepd.limits import GOAL
from sweepd.limits import PASS_RULES as PASS_RULES
from sweepd.limits import PassRule as PassRule
from sweepd.statuses import STATUSES

OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

RESERVED = (
    *("id", "trunk", "config", "code", "attempt", "sweep", "task", "model", "size", "L", "seed"),
    *("status", "acc", "loss", "chain_acc", "correct", "chain_correct", "total", "step", "tokens"),
    *("independent", "commonest", "loss_at", "acc_at", "score_lengths"),
    *("params", "flops", "flops_weights", "state_bytes", "train_bytes", "train_flops"),
    *("flops_to_goal", "seconds", "parent", "error"),
    *("host", "card", "torch", "threads", "started", "ended", "on_demand"),
)
"""The columns of results whose names no field of a task, model or loop may take, and no metric of a
loop. A setting of such a name becomes a column with its block in front, such as `stop_tokens`."""
OF_CELLS = ("cell", "pass", "seeds", "worth", "worth_of_one", *STATUSES)
"""The columns of cells that are no scores. No field and no metric may take these names."""
OF_SQL = (
    *("fresh", "family", "carried", "carries", "maker", "trial", "until"),
    *("latest_sweep", "settling_sweep", "rowid"),
)
"""The names by which the SQL of questions tells seeds apart (`query.cells_sql`), taken as well."""
_OF_A_CELL = (
    *("at", "edge", "acc_low", "acc_high", "acc_seed_min", "acc_seed_max"),
    *("loss_seed_min", "loss_seed_max"),
)
OF_ANSWERS = {
    "min": (
        *_OF_A_CELL,
        *("value", "fail", "inferred", "passed", "close", "verdict"),
        *("fail_steps", "effort", "gain", "missing", "rates", "holds_to", "why"),
        *("least_any", "least_median"),
        *("least_all", "least_any_verdict", "least_median_verdict", "least_all_verdict"),
        *("per_halving", "per_halving_low", "per_halving_high"),
    ),
    "fit": (
        *("exponent", "low", "high", "growth", "factor", "points", "censored", "predicted"),
        *("weight_constant", "weight_log", "weight_power", "weight_sqrt", "weight_plateau"),
        *("least_steps", "most_steps", "first_exponent", "first_low", "first_high"),
        *("over_standard", "over_standard_low", "over_standard_high"),
        *("slope_log", "slope_sqrt", "reason"),
    ),
    **dict.fromkeys(("frontier", "best", "max"), _OF_A_CELL),
}
"""The columns that answers to a verb add to those of cells, but for `steps` of `min`, which are
those of the cells that pass, and `values` of `best`, which gives way to an axis. An answer cannot
be grouped by a field of such a name."""


SETTINGS_KINDS = ("train", "evaluate", "stop")


@cache
def column(kind: str, field: str) -> str:
    """Returns the name of the column that holds a field of a block."""
    return f"{kind}_{field}" if kind in SETTINGS_KINDS and field in RESERVED else field


MOST_TRIALS = 100_000
"""The largest number of trials of a grid."""
MEAN_DIGITS = 14
"""The decimal places to which means over seeds are rounded. More would depend on the order of the
seeds, and so would whether 0.85, 0.9 and 0.95 meet a goal of 0.9."""


CHECKED = {"extra": "forbid", "allow_inf_nan": False}
"""How pydantic reads these dataclasses."""

TrackerName = Literal["tensorboard", "wandb", "trackio", "mlflow"]
"""The trackers to which a sweep can report while it runs (`sweepd.trackers`)."""


@dataclass(frozen=True)
class Goal:
    """When a trial passes: `acc > 0.9`."""

    metric: str
    comparison: str
    threshold: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the goal that a text states as `METRIC > NUMBER`, also with >=, < or <=; the
        caller knows which metrics and thresholds there can be. Raises ValueError for any other
        text."""
        try:
            match = re.fullmatch(GOAL, text)
            return cls(match["metric"], match["comparison"], float(match["number"]))  # type: ignore[index]
        except (TypeError, ValueError):
            raise ValueError("write METRIC > NUMBER, such as acc > 0.9") from None

    def __str__(self) -> str:
        return f"{self.metric} {self.comparison} {self.threshold!r}"

    @property
    def better(self) -> Better:
        """Which way its metric is better. For a user's own metric, this is the way that the goal
        asks for, since a grid refuses any other."""
        return BETTER.get(self.metric) or self.asks_for

    @property
    def asks_for(self) -> Better:
        """Which way values that meet the goal lie from its threshold."""
        return "up" if self.comparison.startswith(">") else "down"

    def met(self, value: float) -> bool:
        return bool(OPERATORS[self.comparison](value, self.threshold))


@dataclass(frozen=True)
class Staircase:
    """Walk up the frontier of every line of the grid instead of trying all its cells."""

    __pydantic_config__ = CHECKED

    minimize: str = "d"
    """The axis whose least passing value is asked for."""
    along: str = "size"
    """The axis (`size` or a field) along which the problem and the least passing value grow."""
    spot_checks: int = 1
    """How many cells on either side of each line's frontier test the assumption."""
    speculate: bool = True
    """Whether idle slots run trials that are more likely to be needed than not."""

    def __post_init__(self) -> None:
        if self.minimize == self.along:
            raise ValueError(f"along = {self.along}: minimize another axis than that")
        if self.spot_checks < 0:
            raise ValueError(f"spot_checks = {self.spot_checks}: must not be negative")


@dataclass(frozen=True)
class Searches:
    """The searches that have settings of their own."""

    __pydantic_config__ = CHECKED

    staircase: Staircase | None = None


LEAST_SEEDS = 3
"""The least seeds with which a fail is forecast to last. One or two may be stuck or lucky."""
TRIAL_CELLS = 1.9
"""The average cells of a line's grid, at the first budget, that one trial may cost that settles,
where the grid does not say otherwise."""
CONFIRMING = 2
"""How many more fresh seeds must pass than fail to confirm a pass. Where 95% of seeds pass, the
first two of them pass in 90% of cases. Where 20% pass, both pass in 4%."""


@dataclass(frozen=True)
class Settle:
    """Train the cells that an answer hangs on for longer, until more training would not change it.

    A budget is a number of steps. The first is `train.steps`, each next one is twice as large, and
    the last is `most`.
    """

    __pydantic_config__ = CHECKED

    factor: float = 4.0
    """The failing cell is trained for at least this many times the passing cell's steps."""
    least: int = 2000
    """The least number of steps that the failing cell is trained for."""
    most: int = 32_000
    """The largest budget of a trial, in steps."""
    share: float | None = None
    """The most that one trial that settles may cost, as a share of the line's whole grid at the
    first budget. Without it, that is `TRIAL_CELLS` of its cells on average."""
    give_up: bool = True
    """Whether a cell that nothing passes at waits for a smaller size to pass. Otherwise it is
    trained up to `most`, too."""

    def __post_init__(self) -> None:
        if not self.factor >= 2:
            raise ValueError(f"factor = {self.factor}: must be at least 2, one more budget")
        if not 0 < self.least <= self.most:
            raise ValueError(f"least = {self.least}: must be above 0 and at most most, {self.most}")
        if self.share is not None and not self.share > 0:
            raise ValueError(f"share = {self.share}: must be positive")

    def budgets(self, base: int) -> tuple[int, ...]:
        """Returns the budgets of a cell, from `base` steps on."""
        found = [base]
        while found[-1] < self.most:
            found.append(min(2 * found[-1], self.most))
        return tuple(found)

    def most_a_trial(self, costs: Collection[float]) -> float:
        """Returns the most that one trial may cost where the cells of the line's whole grid cost
        this at the first budget."""
        share = TRIAL_CELLS / len(costs) if self.share is None else self.share
        return share * sum(costs)

    def needed(self, passed: int) -> int:
        """Returns the steps that the next smaller cell must fail at where `passed` were enough."""
        return max(math.ceil(self.factor * passed), self.least)


@dataclass(frozen=True)
class Seeds:
    """Every cell gets `start` seeds; where they leave a close call, one more at a time."""

    __pydantic_config__ = CHECKED

    start: int
    max: int

    def __post_init__(self) -> None:
        if self.start < 1:
            raise ValueError(f"start = {self.start}: a cell needs at least 1 seed")
        if not self.start <= self.max <= MOST_TRIALS:
            raise ValueError(
                f"max = {self.max}: must be from start, {self.start}, to {MOST_TRIALS:,}"
            )
