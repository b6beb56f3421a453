"""What results can hold, wherever a value comes from."""

from __future__ import annotations

from math import isfinite
from typing import Literal, get_args

LARGEST_INT = 2**53
"""The largest whole number that results hold. Larger ones may change in a float64 column."""
NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
"""A regular expression that matches the names of sweeps, and of the files and folders of a
store."""
METRIC = r"[a-z][a-z0-9_]{0,59}(?<!_min)(?<!_max)(?<!_least)(?<!_most)"
"""A regular expression that matches the names of metrics of users' own."""
FIELD = r"[^\W\d]\w{0,99}"
"""A regular expression that matches the names of fields of tasks, models and settings."""
GOAL = r"\s*(?P<metric>\w+)\s*(?P<comparison>>=|<=|>|<)\s*(?P<number>[-+.\w]+)\s*"
"""A regular expression that matches goals, such as `acc > 0.9`."""
PassRule = Literal["median", "all", "any", "mean"]
PASS_RULES: tuple[PassRule, ...] = get_args(PassRule)
"""How the seeds of a cell count together."""


def measured(score: float | None) -> float | None:
    """Returns a score, or None where it is no number: NaN or infinite. `query.cells_sql` says the
    same of a score in SQL."""
    return score if score is not None and isfinite(score) else None


def text_in_column(value: object) -> str:
    """Returns a value as a column holds it whose values have several types. Equal numbers have
    equal texts, whatever their type."""
    match value:
        case bool():
            return str(value).lower()
        case float() if value.is_integer() and abs(value) <= LARGEST_INT:
            return str(int(value))
        case float():
            return repr(float(value))
        case _:
            return str(value).encode(errors="replace").decode()  # no lone surrogates (paths)
