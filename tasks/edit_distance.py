"""ED: at what least cost do insertions, deletions and replacements turn one string into another?

Inserting or deleting a letter costs 2, replacing one costs 3. A row holds the two strings, the
shorter one first, the rows of the dynamic program (cell j of row i is the distance between the
first i letters of the one and the first j of the other) and the distance:

    a b | a c b <sep> 0 2 4 , 2 3 2 , <sep> 2 <eos>

As in Feng et al. 2023, each sample has its own few letters. Most pairs are a string and an edited
copy of it; the strings of the others are independent. No pair is the same string twice.
"""

from __future__ import annotations

import math
import string
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import (
    EOS,
    SEP,
    SPECIALS,
    ChainTask,
    IntArray,
    as_count,
    below,
    compiled,
    number_words,
    require_range,
)

VERSION = 1
BAR = len(SPECIALS)
COMMA = BAR + 1
LETTER = COMMA + 1
"""Id of the letter a; the numbers follow the last letter."""
INSERT = DELETE = 2
REPLACE = 3


@dataclass(frozen=True)
class EditDistance(ChainTask):
    """Least cost of turning one string into another by inserting, deleting and replacing letters.

    The chain is the dynamic program, row by row.

    Source: Feng et al. 2023 (arXiv 2305.15408), and Yang et al. 2024 (P1, arXiv 2402.13934).
    Ours: no pair is a string twice.

    Family: chain of thought

    Examples:
        $ sweepd sample edit_distance --set n=3 --count 2
        z | m m z <sep> 3 5 4 , <sep> 4 <eos>
        d d t | d d a t <sep> 0 2 4 6 , 2 0 2 4 , 4 2 3 2 , <sep> 2 <eos>
    """

    n: int = 6
    """letters of one string"""
    shorter: int = 3
    """the other string has at least n - shorter letters (never less than 1)"""
    longer: int = 2
    """and at most n + longer"""
    alphabet: int = 26
    """letters that there are"""
    letters_min: int = 3
    """fewest letters that a sample draws from the alphabet for its strings"""
    letters_max: int = 10
    """most letters that it draws"""
    edited: float = 0.6
    """share of pairs that are a string and its edited copy"""

    size_field: ClassVar[str] = "n"

    def __post_init__(self) -> None:
        require_range(self, "n", 1, 200)
        require_range(self, "shorter", 0, 200)
        require_range(self, "longer", 0, 200)
        require_range(self, "alphabet", 2, 26)
        if not 2 <= self.letters_min <= self.letters_max <= self.alphabet:
            raise ValueError(
                f"letters_min = {self.letters_min}, letters_max = {self.letters_max}: must be "
                f"2 <= letters_min <= letters_max <= alphabet = {self.alphabet}"
            )
        if not 0 <= self.edited <= 1:
            raise ValueError(f"edited = {self.edited}: a share, from 0 to 1")

    @property
    def vocab(self) -> tuple[str, ...]:
        letters = tuple(string.ascii_lowercase[: self.alphabet])
        # All letters replaced and the surplus inserted; every other cell is smaller.
        largest = REPLACE * self.n + INSERT * self.longer
        return (*SPECIALS, "|", ",", *letters, *number_words(largest + 1))

    @property
    def prompt_length(self) -> int:
        return self.n + 1 + self.n + self.longer + 1

    @property
    def chain_length(self) -> int:
        return self.n * (self.n + self.longer + 1) + 1

    def distinct_inputs(self) -> float:
        """Returns an upper bound, which counts some pairs once for each choice of letters."""
        others = range(max(1, self.n - self.shorter), self.n + self.longer + 1)
        choices = math.comb(self.alphabet, self.letters_max)
        return as_count(
            sum(
                min(self.alphabet**total, choices * self.letters_max**total)
                for total in (self.n + other for other in others)
            )
        )

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        _fill(
            rng,
            tokens,
            self.n,
            max(1, self.n - self.shorter),
            self.n + self.longer,
            self.alphabet,
            self.letters_min,
            self.letters_max,
            self.edited,
        )


@compiled
def _fill(
    rng: np.random.Generator,
    tokens: IntArray,
    n: int,
    least: int,
    most: int,
    alphabet: int,
    letters_min: int,
    letters_max: int,
    edited: float,
) -> None:
    letters = np.arange(LETTER, LETTER + alphabet)
    one = np.empty(n, dtype=np.int64)
    other = np.empty(max(most, 2 * n), dtype=np.int64)  # an edited copy may outgrow `most`
    above = np.empty(max(n, most) + 1, dtype=np.int64)
    number = LETTER + alphabet
    for row in tokens:
        used = letters_min + below(rng, letters_max - letters_min + 1)
        for k in range(used):  # a partial shuffle: the first `used` are a random choice
            pick = k + below(rng, alphabet - k)
            letters[k], letters[pick] = letters[pick], letters[k]
        length = _draw(rng, letters[:used], one, other, least, most, rng.random() < edited)
        first, second = one, other[:length]
        if length < n:
            first, second = second, first
        _write(row, first, second, above, number)


@compiled
def _draw(
    rng: np.random.Generator,
    letters: IntArray,
    one: IntArray,
    other: IntArray,
    least: int,
    most: int,
    edit: bool,
) -> int:
    """Draws two different strings. Returns the other's length, which is from `least` to `most`."""
    n = len(one)
    while True:
        for i in range(n):
            one[i] = other[i] = letters[below(rng, len(letters))]
        if edit:
            length = n
            for _ in range(1 + below(rng, n)):
                length = _edit(rng, letters, other, length)
        else:
            length = least + below(rng, most - least + 1)
            for i in range(length):
                other[i] = letters[below(rng, len(letters))]
        same = length == n and (one == other[:n]).all()
        if least <= length <= most and not same:
            return length


@compiled
def _edit(rng: np.random.Generator, letters: IntArray, text: IntArray, length: int) -> int:
    """Deletes, replaces or inserts one letter of text[:length]. Returns the new length."""
    kind = below(rng, 3)
    letter = letters[below(rng, len(letters))]
    if kind == 0 and length > 1:
        for i in range(below(rng, length), length - 1):
            text[i] = text[i + 1]
        return length - 1
    if kind == 1:
        text[below(rng, length)] = letter
        return length
    place = below(rng, length + 1)
    for i in range(length, place, -1):
        text[i] = text[i - 1]
    text[place] = letter
    return length + 1


@compiled
def _write(row: IntArray, first: IntArray, second: IntArray, above: IntArray, number: int) -> None:
    """Writes the row's tokens. `above` is room for one line of the dynamic program."""
    end = len(first)
    row[:end] = first
    row[end] = BAR
    row[end + 1 : end + 1 + len(second)] = second
    end += 1 + len(second)
    row[end] = SEP
    end += 1
    for j in range(len(second) + 1):
        above[j] = INSERT * j
    for i in range(len(first)):
        diagonal = above[0]
        above[0] += DELETE
        for j in range(len(second)):
            replaced = diagonal + (0 if first[i] == second[j] else REPLACE)
            diagonal = above[j + 1]
            above[j + 1] = min(replaced, diagonal + DELETE, above[j] + INSERT)
            row[end] = number + above[j + 1]
            end += 1
        row[end] = COMMA
        end += 1
    row[end] = SEP
    row[end + 1] = number + above[len(second)]
    row[end + 2] = EOS
