"""What the fields of a shipped task may be, and what follows from them: the length of its rows, its
words, and how many distinct inputs it has."""

import math
from typing import Any

import numpy as np
import pytest

from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import SPECIALS, Split, Task
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
from sweepd.tasks.parity import Parity
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


PAPERS: dict[Any, dict[int, int]] = {
    LIS: {40: 83, 110: 223, 175: 353, 250: 503},
    EditDistance: {6: 72, 12: 210, 16: 342, 20: 506},
    LocalEditDistance: {6: 147, 12: 468, 16: 782, 20: 1176},
    Arithmetic: {6: 87, 10: 221, 13: 355, 16: 505},
    Equation: {2: 35, 3: 89, 4: 179, 5: 314},
}
"""The sizes of the papers, with L at each."""


@pytest.mark.parametrize("kind", PAPERS)
def test_lengths_are_those_of_the_papers(kind: Any) -> None:
    for size, length in PAPERS[kind].items():
        task = kind(**{kind.size_field: size})
        longest = task.sample(np.random.default_rng(0), 200, Split.CHECK).lengths.max()
        assert (task.L, task.size) == (length, size)
        if kind is Arithmetic:  # whose bound is another than the paper's
            bound = 2 * size**2 + 2 * size + 1
            assert longest <= bound + 1 and task.capacity == max(length, bound) + 1
        else:
            assert longest == task.capacity == length + 1


COUNTS: list[tuple[Task, float]] = [
    (LIS(4, 16), 16**4), (LIS(250, 250), math.inf), (Arithmetic(1, 5), 100),
    (Arithmetic(200), math.inf), (Equation(1, 11), 10 * 11),
    (Equation(2, 3), (9 - 1) * (9 - 3) * 9), (Equation(26, 9973), math.inf),
    (EditDistance(2, 0, 0, alphabet=8, letters_min=8, letters_max=8), 8**4),
    (EditDistance(20, 0, 0, letters_min=3, letters_max=3), 2600 * 3**40),
    (EditDistance(200), math.inf), (Copy(5, letters=3), 3**5), (Lookup(2, queries=1), 16**2 * 2),
    (Lookup(2, queries=3), 16**2 * 2 * 1 * 2), (KHop(1, 5, 3), 3 * 2**4),
    (WordProblem(3, "A5"), 60**3), (Parity(5000), math.inf),
]  # fmt: skip


def test_distinct_inputs_are_counted() -> None:
    for task, count in COUNTS:
        assert task.distinct_inputs() == pytest.approx(count), task


def test_vocabularies() -> None:
    assert LIS(4, 16).vocab == (*SPECIALS, *map(str, range(16)))
    assert LIS(20, 4).vocab == (*SPECIALS, *map(str, range(21))), "lengths are words too"
    assert Arithmetic(2, 3).vocab == (*SPECIALS, *"=+-*/()", "0", "1", "2")
    assert Equation(2, 3).vocab == (*SPECIALS, "+", "=", ",", "a", "b", "0", "1", "2")
    assert [len(WordProblem(2, g).vocab) for g in ("S3", "A5", "S5", "Z60")] == [6, 60, 120, 60]
