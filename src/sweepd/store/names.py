"""How launches, attempts and checkpoints are named, and where the objects of a launch lie."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from sweepd.store.storage import Folder

TRIES = 1000
"""A number above the times that one launch may try a trial. It keeps the attempt numbers of
launches apart."""


def next_launch(folder: Folder) -> int:
    """Returns a number for a new launch: the microseconds since 1970, or one more than the latest.

    So a later launch of a store has a higher number, and no two stores give the same one, but for
    the odds that they launch in the same microsecond, which a merge notices.
    """
    return max([time.time_ns() // 1_000, *(number + 1 for number in records(folder))])


def attempt_number(launch: int, tried: int) -> int:
    """Returns the number of an attempt of a trial, below 2^63. `tried` counts the tries of its
    launch, from 1; 0 gives a number below those of all of them."""
    return launch * TRIES + tried


def record_of(launch: int) -> str:
    """Returns the name of the object that holds the record of a launch."""
    return f"launches/{launch}.json"


def cancel_of(launch: int) -> str:
    """Returns the name of the object that tells the driver of a launch to stop."""
    return f"launches/{launch}.cancel"


def records(folder: Folder) -> dict[int, str]:
    """Returns, by a launch's number, the name of the object that holds its record."""
    names = (file.name for file in folder.files("launches"))
    matches = filter(None, (re.fullmatch(r"([1-9]\d*)\.json", name) for name in names))
    return {int(match[1]): f"launches/{match[0]}" for match in matches}


@dataclass(frozen=True, order=True)
class Checkpoint:
    """A saved state of a trial, in the folder of its trunk: `<step>-<trial>.pt`, or
    `<step>-<trial>.keep.pt`.

    kept: whether every trial of the trunk that trains on passes through this state.
    """

    step: int
    trial: str
    kept: bool

    @property
    def name(self) -> str:
        return f"{self.step:09d}-{self.trial}{'.keep' * self.kept}.pt"

    @classmethod
    def parse(cls, name: str) -> Checkpoint | None:
        """Returns the checkpoint of this name, or None for a name that is not a checkpoint's."""
        match = re.fullmatch(r"(\d+)-(\w+)(\.keep)?\.pt", name)
        return match and cls(int(match[1]), match[2], bool(match[3]))
