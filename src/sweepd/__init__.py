"""sweepd: distributed sweeps over architectures, tasks and sizes.

>>> import sweepd
>>> results = sweepd.open("sweepd-results")
>>> answer = results.query("min d where acc > 0.9", sweep="quickstart").to_pandas()

`open`, `plan` and `launch` are in `sweepd.api`. It is imported when one of them is first used, so
that `import sweepd` takes no time. `report` is for programs that are trials (docs/program.md).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweepd.api import Launch, Results, launch, open, plan
    from sweepd.tabular import Table

__version__ = "0.2.0.dev0"
__all__ = ["Launch", "Results", "Table", "launch", "open", "plan", "report"]


def report(*, step: int, test: bool = False, **scores: float) -> None:
    """Tells the sweep a row of the program that runs. Outside of a sweep it does nothing.

    step: how far training is; it rises from row to row. scores: all metrics of the grid, as numbers
    (NumPy's and torch's too), and `total` if the number of test samples is known. test: whether the
    scores are those of held-out data, which then count in place of the last row's.
    """
    if path := os.environ.get("SWEEPD_ROWS"):
        row = {"step": step, "test": test, **scores}
        line = json.dumps(row, default=float) + "\n"
        rows = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(rows, line.encode())  # at once, so that rows of two processes do not mix
        finally:
            os.close(rows)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sweepd' has no attribute '{name}'")
    from sweepd import api, tabular

    return getattr(tabular if name == "Table" else api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
