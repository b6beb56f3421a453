"""Whose trials count: those of the code that a sweep would run now."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from sweepd.query.database import CodeChoice
from sweepd.store.store import Store, SweepInfo


def codes(choice: Literal["current", "all"], store: Store) -> CodeChoice:
    """Whose trials count: everybody's, or those of the code that a sweep would run now.

    Nothing is looked for before a question needs it.
    """
    if choice == "all":
        return "all"

    @cache
    def places() -> list[SweepInfo]:
        """A user's class is looked for where its grid was."""
        sweeps, _ = store.readable_sweeps()  # a damaged one is named by whoever needs it
        return sorted(sweeps.values(), key=lambda info: info.base)

    def current(task: str, model: str) -> str | None:
        from sweepd.grid.fingerprint import current_code  # which takes a while

        for info in places():
            if found := current_code(info.classes_of(task, model), Path(info.base)):
                return found.digest
        return None

    return current
