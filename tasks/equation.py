"""Equation: which values solve a system of linear equations modulo a prime p?

A row holds the system, then the system after each step of Gaussian elimination. The last one gives
the values (p = 11):

    0 a + 8 b = 10 , 7 a + 2 b = 0 <sep> a + 5 b = 0 , 8 b = 10 <sep> a = 2 , b = 4 <eos>

Step k takes the first equation, from the k-th on, that has the k-th variable, and swaps it with the
k-th. It divides this equation by the variable's coefficient. It then subtracts multiples of it from
all others, so that the variable is left in this one alone. As in Feng et al. 2023, coefficients of
variables that had their step are not written, since they are 1 or 0. All other coefficients are
written, 0 and 1 included, so that every row of a setting is equally long. All systems with one
solution are equally likely.
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
    inverses,
    number_words,
    require_prime,
    require_range,
)

VERSION = 1
PLUS = len(SPECIALS)
EQUALS = PLUS + 1
COMMA = EQUALS + 1
VARIABLE = COMMA + 1
"""Id of the variable a; the numbers follow the last variable."""


@dataclass(frozen=True)
class Equation(ChainTask):
    """Solution of a system of linear equations modulo a prime.

    The chain is the system after each step of Gaussian elimination.

    Source: Feng et al. 2023 (arXiv 2305.15408). Ours: systems are drawn evenly among those with
    one solution.

    Family: chain of thought

    Examples:
        $ sweepd sample equation --set unknowns=2 --count 1
        10 a + 0 b = 7 , 2 a + 9 b = 3 <sep> a + 0 b = 4 , 9 b = 6 <sep> a = 4 , b = 8 <eos>
    """

    unknowns: int = 3
    """variables, and as many equations"""
    modulus: int = 11
    """a prime"""

    size_field: ClassVar[str] = "unknowns"

    def __post_init__(self) -> None:
        require_range(self, "unknowns", 1, 26)
        require_prime(self, "modulus")

    @property
    def vocab(self) -> tuple[str, ...]:
        variables = tuple(string.ascii_lowercase[: self.unknowns])
        return (*SPECIALS, "+", "=", ",", *variables, *number_words(self.modulus))

    @property
    def prompt_length(self) -> int:
        return self._system_length(0)

    @property
    def chain_length(self) -> int:
        return sum(self._system_length(step) for step in range(1, self.unknowns))

    @property
    def answer_length(self) -> int:
        return self._system_length(self.unknowns) - 1

    def _system_length(self, step: int) -> int:
        """Returns the tokens of the system after `step` steps, with the separator or <eos> that
        ends it.

        A term with its coefficient takes three tokens with the + or = behind it. Each equation has
        the terms of the u - step variables to come, a number and a comma (or the end). The first
        `step` equations also have a variable of their own, with the + or = behind it.
        """
        u = self.unknowns
        return u * (3 * (u - step) + 2) + 2 * step

    def distinct_inputs(self) -> float:
        """Returns the number of invertible matrices, in which each row is independent of those
        above, times the number of right-hand sides."""
        p, u = self.modulus, self.unknowns
        return as_count(math.prod(p**u - p**k for k in range(u)) * p**u)

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        _fill(rng, tokens, self.unknowns, inverses(self.modulus))


@compiled
def _fill(rng: np.random.Generator, tokens: IntArray, unknowns: int, inverse: IntArray) -> None:
    p = len(inverse)
    system = np.empty((unknowns, unknowns + 1), dtype=np.int64)
    for row in tokens:
        step = 0
        while step < unknowns:  # most systems have one solution; others are overwritten
            for k in range(unknowns):
                for j in range(unknowns + 1):
                    system[k, j] = below(rng, p)
            end = _write(row, 0, system, 0)
            step = 0
            while step < unknowns and _eliminate(system, step, inverse):
                step += 1
                end = _write(row, end, system, step)
        row[end - 1] = EOS


@compiled
def _eliminate(system: IntArray, step: int, inverse: IntArray) -> bool:
    """Leaves variable `step` in equation `step` alone. Returns False if no equation from there on
    has it."""
    p = len(inverse)
    unknowns = len(system)
    pivot = step
    while pivot < unknowns and system[pivot, step] == 0:
        pivot += 1
    if pivot == unknowns:
        return False
    for j in range(unknowns + 1):
        system[step, j], system[pivot, j] = system[pivot, j], system[step, j]
    scale = inverse[system[step, step]]
    for j in range(unknowns + 1):
        system[step, j] = system[step, j] * scale % p
    for k in range(unknowns):
        if k != step:
            factor = system[k, step]
            for j in range(unknowns + 1):
                system[k, j] = (system[k, j] - factor * system[step, j]) % p
    return True


@compiled
def _write(row: IntArray, end: int, system: IntArray, step: int) -> int:
    """Appends the system after `step` steps and a separator to row[:end]. Returns the new end."""
    unknowns = len(system)
    number = VARIABLE + unknowns
    for k in range(unknowns):
        for j in range(unknowns):
            if j < step and j != k:
                continue  # a coefficient of 0
            if j >= step:
                row[end] = number + system[k, j]
                end += 1
            row[end] = VARIABLE + j
            row[end + 1] = PLUS
            end += 2
        row[end - 1] = EQUALS
        row[end] = number + system[k, unknowns]
        row[end + 1] = COMMA
        end += 2
    row[end - 1] = SEP
    return end
