"""Multi-query associative recall (MQAR): which value stood behind this key?

A row holds pairs of a key and a value, and later each key again, after a gap. The target of a key
that comes again is its value (here 2 pairs):

    k8 v22 k25 v18 k8 _ _ _ _ _ k25 _ <sep> . . . . v22 . . . . . v18 . <eos>

Gaps follow a power law, as those between two uses of the same words in real text do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import Rows, RowTask, require_range

VERSION = 1


@dataclass(frozen=True)
class Mqar(RowTask):
    """The values of keys that were given before.

    Source: Arora et al. 2023 ("Zoology", arXiv 2312.04927), Section 3 and Figure 2: rows of 64,
    128 and 256 tokens with 4, 8 and 16 pairs, 8192 words, alpha .01, blanks between the keys. Keys
    of a row differ, and so do values. Ours: fewer words unless `vocabulary` says otherwise.

    Family: recall

    Examples (inputs and, behind <sep>, the target of each position):
        $ sweepd sample mqar --set pairs=2 --set per_pair=6 --count 1
        k61 v38 k43 v50 k61 _ k43 _ _ _ _ _ <sep> . . . . v38 . v50 . . . . . <eos>
    """

    pairs: int = 4
    """pairs of a key and a value"""
    per_pair: int = 16
    """positions in a row for each pair"""
    vocabulary: int = 128
    """words beside the blank: half of them are keys, half are values"""
    alpha: float = 0.01
    """the gap before a key comes again is g with probability proportional to g^(alpha - 1), counted
    in pairs of positions; with 1 all gaps are equally likely"""

    size_field: ClassVar[str] = "pairs"

    def __post_init__(self) -> None:
        require_range(self, "pairs", 1, 10_000)
        require_range(self, "per_pair", 4, 10_000)
        require_range(self, "vocabulary", 2 * self.pairs, 1_000_000)
        require_range(self, "alpha", 0, 10)

    @property
    def vocab(self) -> tuple[str, ...]:
        half = self.vocabulary // 2
        return ("_", *(f"k{i}" for i in range(half)), *(f"v{i}" for i in range(half)))

    @property
    def length(self) -> int:
        return self.per_pair * self.pairs

    def fill(self, rng: np.random.Generator, inputs: Rows, targets: Rows) -> None:
        M, half, rows = self.pairs, self.vocabulary // 2, np.arange(len(inputs))[:, None]
        places = np.arange(1, self.length // 2 - M + 1, dtype=float)
        # The M smallest of exponential waiting times are a draw of M without replacement in which
        # each is as likely as its rate, its weight, among those that are left.
        waits = rng.exponential(size=(len(inputs), len(places))) / places ** (self.alpha - 1)
        gaps = waits.argsort(axis=1)[:, :M]
        keys = rng.random((len(inputs), half)).argsort(axis=1)[:, :M] + 1
        values = rng.random((len(inputs), half)).argsort(axis=1)[:, :M] + 1 + half
        inputs[:, 0 : 2 * M : 2], inputs[:, 1 : 2 * M : 2] = keys, values
        inputs[rows, 2 * (M + gaps)] = keys
        targets[rows, 2 * (M + gaps)] = values
