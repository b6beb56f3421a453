"""Multi-query associative recall (MQAR, Arora et al. 2023, "Zoology", arXiv 2312.04927)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sweepd.tasks.base import RowTask


@dataclass(frozen=True)
class Mqar(RowTask):
    """Pairs of a key and a value, then each key again: what was its value?"""

    pairs: int = 4
    length: int = 32
    alpha: float = 0.1
    """exponent of the power law of the gaps before a key comes again"""

    size_field = "pairs"
    vocab = ("_", *(f"k{i}" for i in range(32)), *(f"v{i}" for i in range(32)))

    def __post_init__(self) -> None:
        if self.length < 4 * self.pairs:
            raise ValueError(f"length = {self.length}: must be at least 4 pairs, {4 * self.pairs}")

    def draw(self, rng: np.random.Generator) -> tuple[list[str], list[str | None]]:
        keys = rng.choice(self.vocab[1:33], size=self.pairs, replace=False)
        values = rng.choice(self.vocab[33:], size=self.pairs, replace=False)
        given = [str(word) for pair in zip(keys, values, strict=True) for word in pair]
        inputs = given + ["_"] * (self.length - len(given))
        targets: list[str | None] = [None] * self.length
        gaps = np.arange(1, self.length // 2 - self.pairs + 1) ** (self.alpha - 1)
        chosen = rng.choice(len(gaps), self.pairs, replace=False, p=gaps / gaps.sum())
        for key, value, gap in zip(keys, values, chosen, strict=True):
            inputs[2 * (self.pairs + gap)] = str(key)
            targets[2 * (self.pairs + gap)] = str(value)
        return inputs, targets
