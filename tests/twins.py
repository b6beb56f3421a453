"""Slow and obvious: what a cell's seeds say, from all the ways in which open ones may still end."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

SEEDS = st.sampled_from(
    [
        ("completed", 0.0), ("completed", 0.5), ("completed", 0.9), ("completed", 0.95),
        ("completed", 1.0), ("solved", 0.85), ("solved", 0.95), ("diverged", None),
        ("stopped", 0.3), ("stopped", 0.97), ("failed", None), ("interrupted", None), None,
    ]
)  # fmt: skip


def as_written(number: float) -> Fraction:
    """0.9 and not the nearest float."""
    return Fraction(str(number))


POOL: dict[str, Callable[[list[bool], list[float], Callable[[float], bool]], bool]] = {
    "median": lambda _, accs, passes: passes(statistics.median(accs)),
    "mean": lambda _, accs, passes: passes(float(sum(map(as_written, accs)) / len(accs))),
    "all": lambda oks, *_: all(oks),
    "any": lambda oks, *_: any(oks),
}


ANY_ACC = (0.0, 0.4, 0.85, 0.93, 0.95, 1.0)


def endings(seed: Any) -> tuple[float, ...]:
    """Accuracies, extreme and in between, that a seed may turn out to have."""
    match seed:
        case ("completed", acc):
            return (acc,)
        case ("solved", acc):
            return tuple(a for a in ANY_ACC if a >= acc)
        case ("diverged", _):
            return (0.0,)
        case _:
            return ANY_ACC


def outcome(seeds: Any, rule: str, passes: Callable[[float], bool]) -> bool | None:
    """What all ways in which the seeds may end agree on."""
    ways = {
        POOL[rule]([passes(acc) for acc in way], list(way), passes)
        for way in itertools.product(*map(endings, seeds))
    }
    return ways.pop() if len(ways) == 1 else None
