"""When Python looks for cycles of garbage. Each look takes long where a million objects stay.

torch and Ray make some hundred thousand objects as they are imported, and a large plan makes more.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (100_000, 50, 10)
"""Thresholds for `gc.set_threshold` that make Python look for cycles seldom. With its defaults, a
large `sweepd plan` would spend a quarter of its time on this search."""


def look_seldom() -> None:
    """Makes this process look for cycles seldom, and not at all as it exits. A look through all of
    torch and Ray at the exit takes most of a second."""
    gc.set_threshold(*SELDOM)
    atexit.register(_keep)


@contextmanager
def importing() -> Iterator[None]:
    """Stops the search for cycles for the block. What there is at its end is never looked at
    again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _keep()
        if enabled:
            gc.enable()


def _keep() -> None:
    """Keeps Python from ever looking again at what there is now. It does nothing where DuckDB is
    loaded, whose own objects have to go."""
    if "duckdb" not in sys.modules:
        gc.freeze()
