"""How checkpoints are named: `<step>-<trial>.pt`, or `<step>-<trial>.keep.pt`."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Checkpoint:
    """A saved state of a trial, in the folder of its trunk.

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
        found = re.fullmatch(r"(\d+)-(\w+)(\.keep)?\.pt", name)
        return found and cls(int(found[1]), found[2], bool(found[3]))
