"""What a grid says besides its blocks: goal, search, seeds, the resources of a trial."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal

OPERATORS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}

PassRule = Literal["median", "all", "any", "mean"]


@dataclass(frozen=True)
class Goal:
    """When a trial passes: `acc > 0.9`."""

    metric: str
    comparison: str
    threshold: float

    def __str__(self) -> str:
        return f"{self.metric} {self.comparison} {self.threshold!r}"

    def met(self, value: float) -> bool:
        return bool(OPERATORS[self.comparison](value, self.threshold))


@dataclass(frozen=True)
class Resources:
    """What one trial occupies; fractions share a core or a card."""

    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if not self.cpus > 0:
            raise ValueError(f"cpus = {self.cpus}: must be positive")
        if self.gpus < 0:
            raise ValueError(f"gpus = {self.gpus}: must not be negative")


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
