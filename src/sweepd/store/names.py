"""How attempts and checkpoints are named."""

from __future__ import annotations

import re
from dataclasses import dataclass

TRIES = 1000
"""A number above the times that one launch may try a trial. It keeps the attempt numbers of
launches apart."""


def attempt_number(launch: int, tried: int) -> int:
    """Returns the number of an attempt of a trial, below 2^63. `tried` counts the tries of its
    launch, from 1; 0 gives a number below those of all of them."""
    return launch * TRIES + tried


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
