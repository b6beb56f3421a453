"""Tells which code's trials count for a question."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

from sweepd.query.database import CodeChoice
from sweepd.store.store import Store, SweepInfo


def codes(choice: Literal["current", "all"], store: Store) -> CodeChoice:
    """Returns what questions need to tell which code's trials count (`CodeChoice`).

    "all" counts the trials of every code. "current" counts those of the code that a sweep would run
    now. That code is looked for only once a question needs it.
    """
    if choice == "all":
        return "all"

    @cache
    def places() -> list[SweepInfo]:
        """Returns the store's sweeps, since a user's class is looked for where its grid was."""
        sweeps, _ = store.readable_sweeps()  # a damaged one is named by whoever needs it
        return sorted(sweeps.values(), key=lambda info: info.base)

    def current(task: str, model: str) -> str | None:
        from sweepd.grid.fingerprint import current_code  # which takes a while

        for info in places():
            if found := current_code(info.classes_of(task, model), Path(info.base)):
                return found.digest
        return None

    return current
