"""When Python looks for cycles of garbage. Where a million objects stay, each look takes long.

torch and Ray make some hundred thousand as they are imported, and a large plan makes more.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (100_000, 50, 10)
"""To look as often as Python would takes a quarter of the time of a large `sweepd plan`."""


def look_seldom() -> None:
    """Have this process look seldom, and not as it exits: through all of torch and Ray that takes
    most of a second."""
    gc.set_threshold(*SELDOM)
    atexit.register(_keep)


@contextmanager
def importing() -> Iterator[None]:
    """Do not look within this block, and never again at what there is after it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _keep()
        if enabled:
            gc.enable()


def _keep() -> None:
    """Never look again at what there is. DuckDB, where it is loaded, wants its own to go."""
    if "duckdb" not in sys.modules:
        gc.freeze()
