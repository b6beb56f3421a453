"""Slow and obvious twins of the search and of questions. One says what the seeds of a cell say,
from all the ways in which open seeds may still end. The other says what a row of `min` says of its
cells."""

import itertools
import statistics
from collections.abc import Callable, Mapping
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


Point = tuple[int, int, str]
"""size, d, lr"""


def min_verdicts(cells: Mapping[Point, bool | None]) -> dict[int, tuple[Any, ...]]:
    """Verdict, value, fail and inferred by size, word for word from the design page."""

    def at(size: int, d: int) -> bool | None:
        found = [ok for (s, e, _), ok in cells.items() if (s, e) == (size, d)]
        if True in found:
            return True
        return False if found and None not in found else None

    rows = {}
    sizes = sorted({size for size, _, _ in cells})
    for size in sizes:
        ds = sorted({d for s, d, _ in cells if s == size})
        ran_and_failed = {d for d in ds if at(size, d) is False}
        failed_smaller = {d for d in ds if any(at(s, d) is False for s in sizes if s < size)}
        failed = ran_and_failed | failed_smaller
        passed = [d for d in ds if at(size, d)]
        value = min(passed, default=None)
        smaller = [d for d in ds if value is None or d < value]
        if value is None:
            verdict = "above" if max(ds) in failed else "open"
        elif any(d > value for d in ran_and_failed) or value in failed_smaller:
            verdict = "not monotone"
        elif smaller and set(smaller) <= ran_and_failed:
            verdict = "exact"
        elif smaller and max(smaller) in failed:
            verdict = "bracketed"
        else:
            verdict = "at most"
        fail = max(failed & set(smaller), default=None)
        below = [d for d in smaller if fail is not None and d <= fail]
        rows[size] = (verdict, value, fail, sum(d not in ran_and_failed for d in below))
    return rows
