"""Edit distance and ED_local, compared with their recursive definition. Also tested: formats,
draws, and the locality of ED_local: each token follows from the few tokens before it."""

from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from drawn import rows_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import ed_local, edit_distance
from sweepd.tasks.base import SPECIALS
from sweepd.tasks.ed_local import LocalEditDistance
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


def test_example_of_the_module_is_a_row() -> None:
    assert " ".join(expected_row("ab", "acb")) in (edit_distance.__doc__ or "")
    assert " ".join(local_row("ab", "acb")) in (ed_local.__doc__ or "")


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


LOCAL = st.fixed_dictionaries(
    {
        "n": st.integers(1, 8),
        "shorter": st.integers(0, 4),
        "longer": st.integers(0, 4),
        "letters_max": st.integers(3, 10),
        "edited": st.sampled_from([0.0, 0.6, 1.0]),
    }
)


def local_row(first: str, second: str) -> list[str]:
    chain: list[str] = []
    for i in range(1, len(first) + 1):
        chain += [*first[i - 1 :], "|"]
        for j in range(1, len(second) + 1):
            chain += [second[j - 1], str(distance(first[:i], second[:j]))]
        chain.append(",")
    answer = str(distance(first, second))
    return [*first, "|", *second, "<sep>", *chain, "<sep>", answer, "<eos>"]


def following(window: list[str]) -> str:
    """The token after `window`, from nothing else: what the format and the recurrence say."""
    if window[-2:] == [",", "<sep>"]:
        return window[-3]
    if window[-2] == "<sep>" and window[-1].isdigit():
        return "<eos>"
    ends = [i for i, word in enumerate(window) if word in (",", "<sep>")]
    row = window[ends[-1] + 1 :]
    before = window[ends[-2] + 1 if len(ends) > 1 else 0 : ends[-1]]
    bar = before.index("|")
    first, second = before[:bar], before[bar + 1 :]
    if window[ends[-1]] == "<sep>":  # the first row, after the prompt
        above = [2 * j for j in range(len(second) + 1)]
    else:
        above = [int(word) for word in second[1::2]]
        above.insert(0, above[0] - 1 if above[0] % 2 else above[0] + 2)
        first, second = first[1:], second[::2]
    if "|" not in row:
        return [*first, "|"][len(row)] if first else "<sep>"
    cells = row[row.index("|") + 1 :]
    j = len(cells) // 2
    if len(cells) % 2 == 0:
        return second[j] if j < len(second) else ","
    left = int(cells[-2]) if j else above[0] + 2
    return str(min(above[j] + (0 if row[0] == cells[-1] else 3), above[j + 1] + 2, left + 2))


@settings(max_examples=60)
@given(setting=LOCAL, seed=st.integers(0, 2**32))
def test_a_local_row_is_two_strings_and_their_dynamic_program(
    setting: dict[str, Any], seed: int
) -> None:
    task = LocalEditDistance(**setting)
    for row in rows_of(task, seed, 10):
        first, second = "".join(row[: row.index("<sep>")]).split("|")
        assert row == local_row(first, second)
        assert task.answer([task.vocab.index(word) for word in row[:-1]]) == (
            task.vocab.index(row[-2]),
        )


@settings(max_examples=30)
@given(setting=LOCAL, seed=st.integers(0, 2**32))
def test_prompts_and_answers_are_those_of_edit_distance(setting: dict[str, Any], seed: int) -> None:
    plain, local = (
        [(row[: row.index("<sep>")], row[-2]) for row in rows_of(kind(**setting), seed, 10)]
        for kind in (EditDistance, LocalEditDistance)
    )
    assert plain == local


@settings(max_examples=40)
@given(setting=LOCAL, seed=st.integers(0, 2**32))
def test_every_chain_token_follows_from_the_tokens_within_its_locality(
    setting: dict[str, Any], seed: int
) -> None:
    task = LocalEditDistance(**setting)
    for row in rows_of(task, seed, 10):
        for end in range(row.index("<sep>") + 1, len(row)):
            assert following(row[max(0, end - task.locality) : end]) == row[end]


@pytest.mark.parametrize(("n", "others", "letters"), [(2, (1, 2, 3), "abc"), (3, (2, 3, 4), "ab")])
def test_within_its_locality_no_two_rows_of_a_setting_differ(
    n: int, others: tuple[int, ...], letters: str
) -> None:
    """All inputs of small settings keep the same law. It also shows how much less context breaks
    it."""
    rows = [
        local_row(*sorted(("".join(one), "".join(other)), key=len))
        for length in others
        for one in product(letters, repeat=n)
        for other in product(letters, repeat=length)
    ]

    def decided(context: int) -> bool:
        found: dict[tuple[str, ...], str] = {}
        return all(
            found.setdefault(tuple(row[max(0, end - context) : end]), row[end]) == row[end]
            for row in rows
            for end in range(row.index("<sep>") + 1, len(row))
        )

    locality = LocalEditDistance(n, shorter=1, longer=1).locality
    assert decided(locality)
    assert not decided(locality // 2)


def test_localities_at_the_papers_sizes() -> None:
    assert [LocalEditDistance(n).locality for n in (6, 12, 16, 20)] == [40, 70, 90, 110]
