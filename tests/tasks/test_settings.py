"""What the fields of a shipped task may be, and what its seed decides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import ChainTask, Split
from sweepd.tasks.copy import Copy
from sweepd.tasks.dyck import Dyck
from sweepd.tasks.ed_local import LocalEditDistance
from sweepd.tasks.edit_distance import EditDistance
from sweepd.tasks.equation import Equation
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.k_hop import KHop
from sweepd.tasks.lis import LIS
from sweepd.tasks.lookup import Lookup
from sweepd.tasks.mqar import Mqar
from sweepd.tasks.sparse_memory import SparseMemory
from sweepd.tasks.word_problem import WordProblem

IMPOSSIBLE: list[tuple[Any, dict[str, Any], str]] = [
    (LIS, {"n": 0}, "n = 0: must be from 1 to 50000"),
    (LIS, {"n": 10**7}, "n = 10000000: must be from 1 to 50000"),
    (LIS, {"value_range": 1}, "value_range = 1: must be from 2 to 100000"),
    (LIS, {"value_range": 10**12}, "value_range = 1000000000000: must be from 2 to 100000"),
    (Arithmetic, {"operators": 10**6}, "operators = 1000000: must be from 1 to 200"),
    (Arithmetic, {"operators": 0}, "operators = 0: must be from 1 to 200"),
    *[
        (kind, {"modulus": p}, f"modulus = {p}: must be a prime")
        for kind in (Arithmetic, Equation)
        for p in (-3, 0, 1, 4, 9, 10007, 10**18)
    ],
    (EditDistance, {"n": 0}, "n = 0: must be from 1 to 200"),
    (EditDistance, {"n": 10**7}, "n = 10000000: must be from 1 to 200"),
    (EditDistance, {"shorter": -1}, "shorter = -1"),
    (EditDistance, {"longer": -1}, "longer = -1"),
    (EditDistance, {"alphabet": 27}, "alphabet = 27: must be from 2 to 26"),
    (EditDistance, {"alphabet": 1}, "alphabet = 1: must be from 2 to 26"),
    (EditDistance, {"letters_min": 1}, "letters_min = 1"),
    (EditDistance, {"letters_min": 11}, "letters_max = 10"),
    (EditDistance, {"alphabet": 8}, "<= alphabet = 8"),
    (EditDistance, {"edited": 1.5}, "edited = 1.5: a share"),
    (LocalEditDistance, {"n": 201}, "n = 201: must be from 1 to 200"),
    (Equation, {"unknowns": 0}, "unknowns = 0: must be from 1 to 26"),
    (Equation, {"unknowns": 27}, "unknowns = 27: must be from 1 to 26"),
    *[
        (kind, {"length": length}, f"length = {length}: must be from 1 to 10000")
        for kind in (FixedMemory, AdaptiveMemory, SparseMemory)
        for length in (0, 10_001)
    ],
    *[
        (kind, setting, message)
        for kind in (FixedMemory, AdaptiveMemory)
        for setting, message in (
            ({"memories": 0}, "memories = 0: must be from 1"),
            ({"symbols": 1}, "symbols = 1: must be from 2"),
            ({"values": "complex"}, "values = 'complex': must be tokens or reals"),
            ({"longest": 64}, "longest = 64: .* less than length = 64"),
        )
    ],
    (FixedMemory, {"memories": 17}, "longest = 16: must be at least memories = 17"),
    (AdaptiveMemory, {"levels": 0}, "levels = 0: must be from 1 to memories = 2"),
    (AdaptiveMemory, {"levels": 3}, "levels = 3: must be from 1 to memories = 2"),
    (AdaptiveMemory, {"longest": 7}, "longest = 7: must be at least symbols = 8"),
    (SparseMemory, {"kernel": "gaussian"}, "kernel = 'gaussian': must be exponential or poly"),
    (SparseMemory, {"rate": 0.0}, "rate = 0.0: must be positive"),
    (SparseMemory, {"rate": math.inf}, "rate = inf: must be positive"),
    (SparseMemory, {"rate": math.nan}, "rate = nan: must be positive"),
    (Lookup, {"n": 1}, "n = 1: must be from 2"),
    (Mqar, {"pairs": 100}, "vocabulary = 128: must be from 200"),
    (Mqar, {"per_pair": 3}, "per_pair = 3: must be from 4"),
    (Copy, {"letters": 27}, "letters = 27: must be from 2 to 26"),
    (Dyck, {"n": 7}, "n = 7: must be even"),
    (Dyck, {"types": 1}, "types = 1: must be from 2 to 4"),
    (KHop, {"k": 30}, "length = 100: must be at least 1 . k · symbols = 121"),
    (WordProblem, {"group": "A4"}, "group = 'A4': must be one of S3, A5, S5, Z60"),
]


@pytest.mark.parametrize(("kind", "setting", "message"), IMPOSSIBLE)
def test_impossible_settings_are_refused(kind: Any, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**setting)


@pytest.mark.parametrize(
    "task",
    [LIS(12, 16), Arithmetic(3), EditDistance(5), LocalEditDistance(5), Equation(), Copy()],
    ids=repr,
)
def test_the_seed_decides_the_sample(task: ChainTask) -> None:
    one, same, other = (
        task.sample(np.random.default_rng(seed), 64, Split.TRAIN).tokens for seed in (5, 5, 6)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
