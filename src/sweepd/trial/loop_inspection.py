"""What is wrong with a user's own training loop that its trials would not show.

A loop whose numbers do not hang on its seed, or that goes on otherwise after it was saved: such
code runs, and its numbers mean nothing. Its rows are read here as a trial reads them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from sweepd.grid.loops import metrics_of
from sweepd.grid.settings import Stop
from sweepd.trial.own_loop import OwnLoop

SEED = 1
ROWS = 2
"""How many rows are compared."""
MOST_SECONDS = 20.0
"""A loop whose first row takes longer is not run again."""


def loop_faults(loop: Any) -> Iterator[str]:
    """What is wrong with an instance, each with file and line. UserError for a row that cannot be
    used; whatever the user's code raises."""
    began = time.monotonic()
    first = _run(loop)
    rows = [_next(first)]
    if time.monotonic() - began > MOST_SECONDS:
        return
    saved = first.snapshot()
    rows += [_next(first) for _ in range(ROWS - 1)]
    again = _run(loop)
    if differing := _differing(rows, [_next(again) for _ in rows]):
        yield str(
            again.wrong(
                loop,
                "start",
                f"gives other numbers for the same seed: {differing}; give every generator the "
                "seed, and report nothing that depends on time (sweepd records the seconds)",
            )
        )
    elif saved is not None:
        restored = _run(loop)
        restored.restore(restored.read(saved))
        if differing := _differing(rows[1:], [_next(restored) for _ in rows[1:]]):
            told = f"goes on with other numbers than the run that was saved: {differing}"
            yield str(restored.wrong(restored.running, "load", told))


def _run(loop: Any) -> OwnLoop:
    return OwnLoop(loop, metrics_of(type(loop)), 0, Stop(), SEED, None, "cpu")


def _next(run: OwnLoop) -> Mapping[str, float]:
    """The scores of a run's next row; nothing at its end."""
    row = next(run.advance(), None)
    return row.scores if row else {}


def _differing(rows: list[Mapping[str, float]], others: list[Mapping[str, float]]) -> str | None:
    """Where the rows of two runs differ first, in words. A NaN is like another."""
    for row, other in zip(rows, others, strict=True):
        if row.keys() != other.keys():
            return "one of two runs ends earlier"
        for name, value in row.items():
            if repr(value) != repr(other[name]):
                return f"{name} {value!r} and {other[name]!r}"
    return None
