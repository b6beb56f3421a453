"""Multi-query associative recall (MQAR, Arora et al. 2023, arXiv 2312.04927)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweepd.tasks.base import RowTask


@dataclass(frozen=True)
class Recall(RowTask):
    """Value of each key that is asked for, among pairs of a key and a value."""

    pairs: int = 4

    size_field = "pairs"
    vocab = tuple("abcdefghijklmnopqrstuvwxyz0123456789")

    @property
    def length(self) -> int:
        return 3 * self.pairs

    def draw(self, rng: np.random.Generator) -> tuple[list[str], list[str | None]]:
        keys = [*map(str, rng.permutation(self.vocab[:26])[: self.pairs])]
        values = [*map(str, rng.choice(self.vocab[26:], size=self.pairs))]
        given = [word for pair in zip(keys, values, strict=True) for word in pair]
        asked = rng.permutation(self.pairs)
        return given + [keys[i] for i in asked], [None] * len(given) + [values[i] for i in asked]
