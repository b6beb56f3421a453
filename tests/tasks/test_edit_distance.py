"""Edit distance, compared with its recursive definition. Also tested: formats, draws, lengths and
limits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from drawn import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import edit_distance
from sweepd.tasks.base import SPECIALS, Split
from sweepd.tasks.edit_distance import EditDistance


@st.composite
def tasks(draw: st.DrawFn) -> EditDistance:
    alphabet = draw(st.integers(2, 26))
    letters_max = draw(st.integers(2, alphabet))
    return EditDistance(
        n=draw(st.integers(1, 9)),
        shorter=draw(st.integers(0, 4)),
        longer=draw(st.integers(0, 4)),
        alphabet=alphabet,
        letters_min=draw(st.integers(2, letters_max)),
        letters_max=letters_max,
        edited=draw(st.sampled_from([0.0, 0.6, 1.0])),
    )


def strings_of(row: list[str]) -> tuple[str, str]:
    first, second = "".join(row[: row.index("<sep>")]).split("|")
    return first, second


@cache
def distance(first: str, second: str) -> int:
    """The least cost, by trying each edit of the last letters."""
    if not first or not second:
        return 2 * len(first + second)
    return min(
        distance(first[:-1], second) + 2,
        distance(first, second[:-1]) + 2,
        distance(first[:-1], second[:-1]) + (0 if first[-1] == second[-1] else 3),
    )


def expected_row(first: str, second: str) -> list[str]:
    table = [
        word
        for i in range(1, len(first) + 1)
        for word in [
            *(str(distance(first[:i], second[:j])) for j in range(1, len(second) + 1)),
            ",",
        ]
    ]
    answer = str(distance(first, second))
    return [*first, "|", *second, "<sep>", *table, "<sep>", answer, "<eos>"]


@settings(max_examples=60)
@given(task=tasks(), seed=st.integers(0, 2**32))
def test_every_row_is_two_strings_and_their_dynamic_program(task: EditDistance, seed: int) -> None:
    for row in rows_of(task, seed, 10):
        first, second = strings_of(row)
        assert row == expected_row(first, second)
        assert task.answer([task.vocab.index(word) for word in row[:-1]]) == (
            task.vocab.index(row[-2]),
        )


@settings(max_examples=60)
@given(task=tasks(), seed=st.integers(0, 2**32))
def test_strings_are_different_and_keep_to_their_lengths_and_letters(
    task: EditDistance, seed: int
) -> None:
    for row in rows_of(task, seed, 20):
        first, second = strings_of(row)
        assert first != second
        assert 1 <= len(first) <= len(second)
        assert task.n in (len(first), len(second))
        assert task.n - task.shorter <= len(first) <= len(second) <= task.n + task.longer
        assert len({*first, *second}) <= task.letters_max
        assert {*first, *second} <= set("abcdefghijklmnopqrstuvwxyz"[: task.alphabet])


@pytest.mark.parametrize(("n", "length"), [(6, 72), (12, 210), (16, 342), (20, 506)])
def test_lengths_of_the_paper(n: int, length: int) -> None:
    task = EditDistance(n)
    assert (task.L, task.capacity, task.size) == (length, length + 1, n)
    chains = task.sample(np.random.default_rng(0), 200, Split.CHECK)
    assert chains.lengths.max() == length + 1
    direct = EditDistance(n, cot=False)
    assert (direct.L, direct.capacity) == (2 * n + 5, 2 * n + 6)


def test_example_of_the_module_is_a_row() -> None:
    assert " ".join(expected_row("ab", "acb")) in (edit_distance.__doc__ or "")


def test_independent_pairs_have_every_length_and_edited_ones_are_close() -> None:
    independent = [strings_of(row) for row in rows_of(EditDistance(12, edited=0.0), 0, 500)]
    others = {len(a) + len(b) - 12 for a, b in independent}
    assert others == set(range(9, 15))
    edited = [strings_of(row) for row in rows_of(EditDistance(12, edited=1.0), 0, 500)]
    far, near = (np.mean([distance(*pair) for pair in pairs]) for pairs in (independent, edited))
    assert near < 0.7 * far
    assert min(distance(*pair) for pair in edited) <= 3  # one edit


def test_samples_draw_their_own_letters() -> None:
    letters = [{*a, *b} for a, b in map(strings_of, rows_of(EditDistance(20), 0, 500))]
    assert min(map(len, letters)) == 3
    assert max(map(len, letters)) == 10
    assert set.union(*letters) == set("abcdefghijklmnopqrstuvwxyz")


def test_vocabulary_holds_the_largest_distance() -> None:
    task = EditDistance(2, shorter=0, longer=1, alphabet=2, letters_min=2, letters_max=2)
    assert task.vocab == (*SPECIALS, "|", ",", "a", "b", *map(str, range(9)))
    assert max(int(row[-2]) for row in rows_of(task, 0, 500)) == 8


def test_distinct_inputs_are_bounded() -> None:
    fixed = EditDistance(2, 0, 0, alphabet=8, letters_min=8, letters_max=8)
    assert fixed.distinct_inputs() == 8**4
    few = EditDistance(20, 0, 0, letters_min=3, letters_max=3)
    assert few.distinct_inputs() == pytest.approx(2600 * 3**40)
    assert EditDistance(200).distinct_inputs() == float("inf")
