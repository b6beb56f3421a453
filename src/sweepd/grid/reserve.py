"""Settings that a grid holds in reserve, to be run only where an answer depends on them. These are
longer budgets (`settle`), and learning rates beyond those of the grid (`tune: [train.lr]`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sweepd.grid.options import Settle
from sweepd.grid.settings import LrRule, Train

WIDER = 2
"""The number of rates that are held in reserve beyond each end of the tried range."""
REFERENCE_D = 32
"""The width for which rates are computed when they are put in order."""


def reserved(trains: Sequence[Train], settle: Settle, tune: Sequence[str]) -> list[Train]:
    """Returns what `settle` may train besides `trains`: their longer budgets, and, if rates are
    tuned, further rates with all budgets."""
    rated = [*trains, *(_wider(trains) if "train.lr" in tune else ())]
    every = (replace(one, steps=steps) for one in rated for steps in settle.budgets(one.steps))
    return [one for one in dict.fromkeys(every) if one not in trains]


def _wider(trains: Sequence[Train]) -> Iterator[Train]:
    """Yields settings with rates beyond both ends of each range of rates. At an end, the ratio
    between neighbours is that of the two rates that are there."""
    ranges: dict[Train, list[Train]] = defaultdict(list)
    for one in trains:
        ranges[replace(one, lr=1.0)].append(one)
    for found in ranges.values():
        if len(found) < 2:
            continue
        found = sorted(found, key=_peak)
        for end, beside in ((found[0], found[1]), (found[-1], found[-2])):
            apart = _peak(end) / _peak(beside)
            for times in range(1, WIDER + 1):
                yield replace(end, lr=_scaled(end.lr, apart**times))


def _peak(train: Train) -> float:
    return train.peak_lr(REFERENCE_D)


def _scaled(lr: float | LrRule, factor: float) -> float | LrRule:
    """Returns a rate that is `factor` times as high at every width."""
    if isinstance(lr, LrRule):
        return replace(lr, base=_short(lr.base * factor), max=_short(lr.max * factor))
    return _short(lr * factor)


def _short(value: float) -> float:
    """Returns a rate rounded to six digits, which are enough for a rate, and readable."""
    return float(f"{value:.6g}")
