"""How launches, attempts and checkpoints are named, and where the objects of a launch lie."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sweepd.store.storage import Folder

TRIES = 1000
"""A number above the times that one launch may try a trial. It keeps the attempt numbers of
launches apart."""


def attempt_number(launch: int, tried: int) -> int:
    """Returns the number of an attempt of a trial, below 2^63. `tried` counts the tries of its
    launch, from 1; 0 gives a number below those of all of them."""
    return launch * TRIES + tried


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
