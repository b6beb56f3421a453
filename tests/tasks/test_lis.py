"""LIS, compared with a search through all subsequences and with the O(n²) definition. Also tested:
draws and limits."""

from itertools import combinations, pairwise

import numpy as np
from drawn import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import lis
from sweepd.tasks.lis import LIS


def longest_ending_at_each(values: list[int]) -> list[int]:
    lengths: list[int] = []
    for i, value in enumerate(values):
        lengths.append(1 + max([lengths[j] for j in range(i) if values[j] < value], default=0))
    return lengths


def longest_of_all_subsequences(values: list[int]) -> int:
    return max(
        size
        for size in range(1, len(values) + 1)
        for chosen in combinations(values, size)
        if all(a < b for a, b in pairwise(chosen))
    )


def expected_row(values: list[int]) -> list[str]:
    lengths = longest_ending_at_each(values)
    numbers = [*map(str, values), "<sep>", *map(str, lengths), "<sep>", str(max(lengths))]
    return [*numbers, "<eos>"]


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 60), value_range=st.integers(2, 300))
def test_every_row_is_its_values_and_their_dynamic_program(
    seed: int, n: int, value_range: int
) -> None:
    task = LIS(n, value_range)
    for row in rows_of(task, seed, 10):
        values = [int(word) for word in row[:n]]
        assert all(0 <= value < value_range for value in values)
        assert row == expected_row(values)
        assert task.answer([task.vocab.index(word) for word in row[:-1]]) == (
            task.vocab.index(row[-2]),
        )


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 9), value_range=st.integers(2, 12))
def test_answer_is_the_longest_of_all_increasing_subsequences(
    seed: int, n: int, value_range: int
) -> None:
    for row in rows_of(LIS(n, value_range), seed, 10):
        assert int(row[-2]) == longest_of_all_subsequences([int(word) for word in row[:n]])


def test_example_of_the_module_is_a_row() -> None:
    assert " ".join(expected_row([3, 1, 2, 5])) in (lis.__doc__ or "")


def test_answers_spread_because_runs_are_planted() -> None:
    answers = [int(row[-2]) for row in rows_of(LIS(40), 0, 500)]
    assert min(answers) < 12  # random values alone give about 11, up to 15
    assert max(answers) > 35


def test_every_value_and_every_place_is_drawn() -> None:
    drawn = np.array([[int(word) for word in row[:6]] for row in rows_of(LIS(6, 8), 0, 2000)])
    for place in drawn.T:
        assert set(place.tolist()) == set(range(8))
