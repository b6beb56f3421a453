"""Metrics: which way each is better, which values it can have, and what the `metrics` of a user's
task or loop say.

A trial runs this code, so a change here makes new trials. What a grid says of its search and its
answers is in `grid.options`, which no trial runs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from sweepd.limits import METRIC

Better = Literal["up", "down"]
"""The way in which a score is better: higher (`up`) or lower (`down`)."""
BETTER: dict[str, Better] = {"acc": "up", "chain_acc": "up", "loss": "down"}
"""The scores that any trial may have, with the way in which each is better. A user's own task or
loop may report others."""
RANGES = {"acc": (0.0, 1.0), "chain_acc": (0.0, 1.0), "loss": (0.0, math.inf)}
"""The least and the greatest value that each of these scores can have."""


def range_of(score: str) -> tuple[float, float]:
    """Returns the least and the greatest value that a score can have. Nothing is known of a user's
    own score, so its range is infinite."""
    return RANGES.get(score, (-math.inf, math.inf))


def is_share(score: str) -> bool:
    """Returns whether a score is a share, from 0 to 1."""
    return RANGES.get(score) == (0, 1)


def directions(metrics: Any) -> dict[str, Better]:
    """Returns the metrics of a class or an instance, each with the way in which it is better.

    metrics: a mapping, or names of what any trial may report. `fault` must find nothing wrong with
    it.
    """
    return (
        dict(metrics) if isinstance(metrics, Mapping) else {name: BETTER[name] for name in metrics}
    )


def own(metrics: Any) -> dict[str, Better]:
    """Returns those metrics that other trials do not have."""
    return {name: way for name, way in directions(metrics).items() if name not in BETTER}


def fault(metrics: object) -> str | None:
    """Returns why these can't be the metrics of a class, or None."""
    if isinstance(metrics, list | tuple) and metrics:
        if unknown := [name for name in metrics if name not in BETTER]:
            return (
                f"has `metrics` that do not say whether more of {unknown[0]} is better; "
                f"write a mapping, as {{{unknown[0]!r}: 'up'}}, or 'down'"
            )
        return None
    if not isinstance(metrics, Mapping) or not metrics:
        return "has `metrics` that are no mapping of names to 'up' or 'down', as {'f1': 'up'}"
    for name, better in metrics.items():
        if not isinstance(name, str) or not re.fullmatch(METRIC, name):
            return (
                f"has a metric named {name!r}; a name has small letters, digits and _, a letter "
                "first, and does not end in _min, _max, _least or _most"
            )
        if better not in ("up", "down"):
            return f"has the metric {name}: {better!r}; say 'up' if more is better, else 'down'"
        if BETTER.get(name, better) != better:
            return f"has the metric {name}: {better!r}; everywhere, {name} is {BETTER[name]!r}"
    return None
