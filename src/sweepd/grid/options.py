"""What a grid says besides its blocks: goal, search, seeds, the resources of a trial; and what is
said of the place where its trials run."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self, get_args

from sweepd.statuses import STATUSES

OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_GOAL = re.compile(
    rf"\s*(?P<metric>\w+)\s*(?P<comparison>{'|'.join(OPERATORS)})\s*(?P<number>[-+.\w]+)\s*"
)

Better = Literal["up", "down"]
"""Which way a score is better: the higher, or the lower."""
BETTER: dict[str, Better] = {"acc": "up", "chain_acc": "up", "loss": "down"}
"""The scores that any trial may have. A user's own task or loop may report others."""
RANGES = {"acc": (0.0, 1.0), "chain_acc": (0.0, 1.0), "loss": (0.0, math.inf)}
"""The least and the greatest that each of these can be."""

OF_CELLS = ("cell", "pass", "seeds", "worth", "worth_of_one", *STATUSES)
"""Columns of cells, besides their scores, whose names no field and no metric may take."""


def range_of(score: str) -> tuple[float, float]:
    """The least and the greatest that a score can be; nothing is known of a user's own."""
    return RANGES.get(score, (-math.inf, math.inf))


def is_share(score: str) -> bool:
    """Whether a score is a share, from 0 to 1."""
    return RANGES.get(score) == (0, 1)


PassRule = Literal["median", "all", "any", "mean"]
PASS_RULES: tuple[PassRule, ...] = get_args(PassRule)
MEAN_DIGITS = 14
"""To which means over seeds are rounded: more would depend on the order in which they are added,
and with it whether 0.85, 0.9 and 0.95 meet a goal of 0.9."""


TrackerName = Literal["tensorboard", "wandb", "trackio", "mlflow"]
"""Trackers that a sweep can be told to while it runs (`sweepd.trackers`)."""


@dataclass(frozen=True)
class Goal:
    """When a trial passes: `acc > 0.9`."""

    metric: str
    comparison: str
    threshold: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `METRIC > NUMBER`, also with >=, < or <=. ValueError if the text is no such thing.

        Which metrics there are, and which thresholds they can have, whoever asks must know.
        """
        match = _GOAL.fullmatch(text)
        try:
            return cls(match["metric"], match["comparison"], float(match["number"]))  # type: ignore[index]
        except (TypeError, ValueError):
            raise ValueError("write METRIC > NUMBER, such as acc > 0.9") from None

    def __str__(self) -> str:
        return f"{self.metric} {self.comparison} {self.threshold!r}"

    @property
    def better(self) -> Better:
        """Which way its metric is better. For a metric of a user's own, this is the way that
        the goal asks for: a grid refuses any other."""
        return BETTER.get(self.metric) or ("up" if self.comparison.startswith(">") else "down")

    def met(self, value: float) -> bool:
        return bool(OPERATORS[self.comparison](value, self.threshold))


@dataclass(frozen=True)
class Resources:
    """What one trial occupies; fractions share a core or a card."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if not self.cpus > 0:
            raise ValueError(f"cpus = {self.cpus}: must be positive")
        if self.gpus < 0:
            raise ValueError(f"gpus = {self.gpus}: must not be negative")

    def __str__(self) -> str:
        parts = ((self.cpus, "core"), (self.gpus, "GPU"))
        return " and ".join(f"{n:g} {one}{'s' * (n != 1)}" for n, one in parts if n)


@dataclass(frozen=True)
class Nodes:
    """Machines of one type that a cluster has or may grow to."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    most: int
    cpus: float
    gpus: float = 0.0
    price: float = 0.0
    """dollars an hour and node"""
    least: int = 0
    """how many are there also when nothing runs"""

    def __post_init__(self) -> None:
        for name in ("most", "cpus", "gpus", "price", "least"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} = {getattr(self, name)}: must not be negative")

    def held(self, per_trial: Resources) -> int:
        """How many trials one of them runs at once."""
        by_cpus = int(self.cpus / per_trial.cpus + 1e-9)
        return min(by_cpus, int(self.gpus / per_trial.gpus + 1e-9)) if per_trial.gpus else by_cpus


def slots(nodes: Iterable[Nodes], per_trial: Resources) -> int:
    """How many trials run at once on all of them."""
    return sum(one.most * one.held(per_trial) for one in nodes)


def no_room(per_trial: Resources, nodes: Iterable[Nodes]) -> str:
    """Why no trial runs on any of these nodes."""
    largest = max(nodes, key=lambda one: (one.gpus, one.cpus))
    return (
        f"a trial asks for {per_trial}, and the largest node has "
        f"{Resources(largest.cpus, largest.gpus)}: "
        "change `resources` in the grid or `per_trial` in the cluster file"
    )


@dataclass(frozen=True)
class Placement:
    """Where a driver runs its trials."""

    per_trial: Resources
    ray: str | None = None
    """address of the Ray to join; None starts a private one on this machine"""
    nodes: tuple[Nodes, ...] = ()
    """what that Ray may grow to; if nothing is said, what it has when the driver joins"""


@dataclass(frozen=True)
class Staircase:
    """Walk up the frontier of every line of the grid instead of trying all its cells."""

    minimize: str = "d"
    """the axis whose least passing value is asked for"""
    along: str = "size"
    """the axis along which the problem grows, and with it the least value: `size` or a field"""
    spot_checks: int = 1
    """cells off the staircase that test the assumption, on either side of each line's"""
    speculate: bool = True
    """whether idle slots run trials that will more likely be needed than not"""

    def __post_init__(self) -> None:
        if self.minimize == self.along:
            raise ValueError(f"along = {self.along}: minimize another axis than that")
        if self.spot_checks < 0:
            raise ValueError(f"spot_checks = {self.spot_checks}: must not be negative")


@dataclass(frozen=True)
class Searches:
    """The searches that have settings of their own."""

    staircase: Staircase | None


LEAST_SEEDS = 3
"""With which an answer may settle: one seed alone, or two, may be stuck or lucky."""
FRESH_SEEDS = 2
"""How many fresh seeds confirm a pass. Where 95% of seeds pass, both do in 90% of cases; where 20%
pass, in 4%."""


@dataclass(frozen=True)
class Settle:
    """Train the cells that an answer hangs on for longer, until more training would not change it.

    A budget is a number of steps. The first is `train.steps`, each next one is twice as large, and
    the last is `most`.
    """

    factor: float = 4.0
    """how many times as long as the passing cell needed the failing one is trained at least"""
    least: int = 2000
    """steps that the failing cell is trained for in any case"""
    most: int = 32_000
    """steps that no trial exceeds"""
    share: float = 1.0
    """how much of the line's whole grid, at the first budget, one step of settling may cost"""

    def __post_init__(self) -> None:
        if not self.factor >= 2:
            raise ValueError(f"factor = {self.factor}: must be at least 2, one more budget")
        if not 0 < self.least <= self.most:
            raise ValueError(f"least = {self.least}: must be above 0 and at most most, {self.most}")
        if not self.share > 0:
            raise ValueError(f"share = {self.share}: must be positive")

    def budgets(self, base: int) -> tuple[int, ...]:
        """The budgets of a cell, from `base` steps on."""
        found = [base]
        while found[-1] < self.most:
            found.append(min(2 * found[-1], self.most))
        return tuple(found)

    def needed(self, passed: int) -> int:
        """Steps that the next smaller cell must fail at where `passed` steps were enough."""
        return max(math.ceil(self.factor * passed), self.least)


@dataclass(frozen=True)
class Seeds:
    """Every cell gets `start` seeds; where they leave a close call, one more at a time."""

    start: int
    max: int

    def __post_init__(self) -> None:
        if self.start < 1:
            raise ValueError(f"start = {self.start}: a cell needs at least 1 seed")
        if self.max < self.start:
            raise ValueError(f"max = {self.max}: must be at least start, {self.start}")
