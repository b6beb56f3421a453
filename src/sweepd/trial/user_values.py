"""Reads what a user's code hands over while it trains or scores. It is read as numbers, or refused
with the file and the line of the method that gave it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping
from typing import Any

from sweepd.errors import UserError
from sweepd.grid.metrics import RANGES
from sweepd.limits import LARGEST_INT

TOTAL = "total"
"""The name of a value that a loop's row may hold besides its metrics. It is the number of test
samples on which `acc` was counted."""
LIMITS = {**RANGES, TOTAL: (0.0, float(LARGEST_INT))}
"""The least and the greatest number that a value of each name may be. Values of other names may be
any number."""
MOST_SHOWN = 60
"""The most characters of a wrong value that a message shows."""


class Unusable(UserError):
    """What the user's code handed over cannot be used. place: the file and line of the method that
    gave it; empty where the method was not written in a file."""

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message, place)
        self.message, self.place = message, place

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


def unusable(owner: Any, method: str, message: str) -> Unusable:
    """Returns an error that says which method did something wrong, and its file and line."""
    culprit: Any = getattr(type(owner), method, type(owner))
    message = f"{type(owner).__name__}.{method} {message}"
    try:
        line = inspect.getsourcelines(culprit)[1]
        return Unusable(message, f"{inspect.getsourcefile(culprit)}:{line}")
    except (OSError, TypeError):  # what was not written in a file
        return Unusable(message, "")


def numbers(
    owner: Any, method: str, given: object, wanted: Collection[str], allowed: Collection[str] = ()
) -> dict[str, float]:
    """Returns a mapping that a method returned as numbers by their names. It must have all names
    that are wanted, may have those that are allowed, and no others. Raises Unusable if it is
    anything else."""
    if not isinstance(given, Mapping):
        names = ", ".join(wanted)
        message = f"returned {shown(given)}; it must return a mapping of its metrics ({names})"
        raise unusable(owner, method, message)
    if unknown := [name for name in given if name not in wanted and name not in allowed]:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        message = (
            f"reported {shown(unknown[0])}{more}, which its `metrics` do not name; "
            "name it there, or leave it out"
        )
        raise unusable(owner, method, message)
    if missing := [name for name in wanted if name not in given]:
        message = f"did not report {' and '.join(missing)}; give all of its `metrics` every time"
        raise unusable(owner, method, message)
    return {name: _number(owner, method, name, value) for name, value in given.items()}


def _number(owner: Any, method: str, name: str, value: Any) -> float:
    """Returns a value of a row as a number. NumPy's and torch's arrays that hold a single number
    are read too. Raises Unusable for anything else, and for a number out of its range."""
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        number = float(value)
    # OverflowError: an integer too large for a float; RuntimeError: torch's, for several numbers
    except (TypeError, ValueError, OverflowError, RuntimeError):
        message = f"reported {name} = {shown(value)}; it must be one number"
        raise unusable(owner, method, message) from None
    if name == TOTAL and not number.is_integer():
        raise unusable(owner, method, f"reported {name} = {number}; it is a count")
    low, high = LIMITS.get(name, (-math.inf, math.inf))
    if not math.isnan(number) and not low <= number <= high:
        message = f"reported {name} = {number:g}; it lies between {low:g} and {high:g}"
        raise unusable(owner, method, message)
    return number


def shown(value: object) -> str:
    """Returns the text of a value, shortened, with the name of its type."""
    try:
        text = repr(value)
    except Exception:  # a user's class may do anything
        text = "a value"
    text = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
    return f"{text} ({type(value).__name__})"
