"""sweepd: distributed sweeps over architectures, tasks and sizes.

>>> import sweepd
>>> results = sweepd.open("sweepd-results")
>>> answer = results.query("min d where acc > 0.9", sweep="quickstart").to_pandas()

`open`, `plan` and `launch` are in `sweepd.api`. It is imported when one of them is first used, so
that `import sweepd` takes no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sweepd.api import Launch, Results, launch, open, plan
    from sweepd.tabular import Table

__version__ = "0.2.0.dev0"
__all__ = ["Launch", "Results", "Table", "launch", "open", "plan"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sweepd' has no attribute '{name}'")
    from sweepd import api, tabular

    return getattr(tabular if name == "Table" else api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
