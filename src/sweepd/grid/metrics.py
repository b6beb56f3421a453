"""What the `metrics` of a user's task or loop say: their names, and which way each is better."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sweepd.grid.options import BETTER, Better

NAME = re.compile(r"[a-z][a-z0-9_]{0,59}(?<!_min)(?<!_max)(?<!_least)(?<!_most)")


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
        if not isinstance(name, str) or not NAME.fullmatch(name):
            return (
                f"has a metric named {name!r}; a name has small letters, digits and _, a letter "
                "first, and does not end in _min, _max, _least or _most"
            )
        if better not in ("up", "down"):
            return f"has the metric {name}: {better!r}; say 'up' if more is better, else 'down'"
        if BETTER.get(name, better) != better:
            return f"has the metric {name}: {better!r}; everywhere, {name} is {BETTER[name]!r}"
    return None
