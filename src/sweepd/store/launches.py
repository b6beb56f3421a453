"""How launches and attempts are numbered, and where the objects of a launch lie."""

from __future__ import annotations

import re

from sweepd.store.storage import Folder

TRIES = 1000
"""A number above the times that one launch may try a trial. It keeps the attempt numbers of
launches apart."""


def attempt_number(launch: int, tried: int) -> int:
    """Returns the number of an attempt of a trial. `tried` counts the tries of its launch, from
    1."""
    return launch * TRIES + tried


def record_of(launch: int) -> str:
    """Returns the name of the object that holds the record of a launch."""
    return f"launches/{launch:06d}.json"


def cancel_of(launch: int) -> str:
    """Returns the name of the object that tells the driver of a launch to stop."""
    return f"launches/{launch:06d}.cancel"


def records(folder: Folder) -> dict[int, str]:
    """Returns, by a launch's number, the name of the object that holds its record."""
    names = (file.name for file in folder.files("launches"))
    found = filter(None, (re.fullmatch(r"(\d+)\.json", name) for name in names))
    return {int(one[1]): f"launches/{one[0]}" for one in found}
