"""How launches and attempts are numbered, and where what is kept of a launch lies."""

from __future__ import annotations

import re

from sweepd.store.storage import Folder

TRIES = 1000
"""More than the times that one launch may try a trial."""


def attempt_number(launch: int, tried: int) -> int:
    """The number of the attempt of a trial that this launch makes as its first, second, … try."""
    return launch * TRIES + tried


def record_of(launch: int) -> str:
    """Where the record of a new launch lies."""
    return f"launches/{launch:06d}.json"


def cancel_of(launch: int) -> str:
    """Where it is written that the driver of a launch is to stop."""
    return f"launches/{launch:06d}.cancel"


def records(folder: Folder) -> dict[int, str]:
    """Where the record of each launch lies, by its number."""
    names = (file.name for file in folder.files("launches"))
    found = filter(None, (re.fullmatch(r"(\d+)\.json", name) for name in names))
    return {int(one[1]): f"launches/{one[0]}" for one in found}
