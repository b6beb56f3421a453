"""Selective copying (Gu & Dao 2023, "Mamba", arXiv 2312.00752, section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweepd.tasks.base import RowTask


@dataclass(frozen=True)
class Selective(RowTask):
    """Letters among blanks, then as many question marks: which letters were there, in order?"""

    n: int = 4
    room: int = 12
    """positions over which the letters are strewn"""

    size_field = "n"
    vocab = ("_", "?", *"abcdefgh")

    def __post_init__(self) -> None:
        if self.room < self.n:
            raise ValueError(f"room = {self.room}: must be at least n, {self.n}")

    @property
    def length(self) -> int:
        return self.room + self.n

    def draw(self, rng: np.random.Generator) -> tuple[list[str], list[str | None]]:
        letters = [str(letter) for letter in rng.choice(self.vocab[2:], self.n)]
        places = np.sort(rng.choice(self.room, self.n, replace=False))
        inputs = ["_"] * self.room + ["?"] * self.n
        for place, letter in zip(places, letters, strict=True):
            inputs[place] = letter
        return inputs, [None] * self.room + letters
