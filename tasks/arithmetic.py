"""Arithmetic: what is the value, modulo a prime p, of an expression with k operators?

A row holds the expression and, step by step, the expression with one pair evaluated, until the
result is left (p = 11):

    2 * ( 7 - 3 ) / 5 = 2 * 4 / 5 = 8 / 5 = 6 <eos>

Division multiplies by the inverse, and never divides by 0. Operators have their usual precedence
and associate to the left. The step (P1's rule) evaluates the leftmost reducible pair, which is
two adjacent numbers and the operator between them such that
- for * and /, no * or / precedes the pair;
- for + and -, no operator precedes the pair and no * or / follows it.
These are exactly the operators whose two operands are already numbers.

Brackets stand only where the expression would mean something else without them: around any pair
that follows a /, around a sum or difference that follows a - or * or is followed by a * or /.
So they never stand in a + (b - c) or a * (b / c), which are a + b - c and a * b / c. A pair of
brackets keeps what it holds from its neighbours. So it is needed until it holds a single number,
and is dropped then.

As in Feng et al. 2023, the expression grows backwards from its result: k times, one of its numbers,
chosen at random, is replaced by a pair that evaluates to this number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sweepd.tasks.base import (
    EOS,
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
EQUALS = len(SPECIALS)
PLUS, MINUS, TIMES, OVER = range(EQUALS + 1, EQUALS + 5)
OPEN, CLOSE = OVER + 1, OVER + 2
NUMBER = CLOSE + 1
"""Id of the number 0."""

PUBLISHED_L = {6: 87, 10: 221, 13: 355, 16: 505}
"""P1's longest rows; those for 13 and 16 operators are below what is possible."""


@dataclass(frozen=True)
class Arithmetic(ChainTask):
    """Value of an arithmetic expression modulo a prime.

    The chain is the expression after each step, which evaluates its leftmost reducible pair.

    Source: Feng et al. 2023 (arXiv 2305.15408). The leftmost rule and the lengths L are from Yang
    et al. 2024 (P1, arXiv 2402.13934).

    Family: chain of thought

    Examples:
        $ sweepd sample arithmetic --set operators=3 --count 2
        4 * 6 * ( 7 + 0 ) = 2 * ( 7 + 0 ) = 2 * 7 = 3 <eos>
        ( 0 - 8 - 4 ) * 1 = ( 3 - 4 ) * 1 = 10 * 1 = 10 <eos>
    """

    operators: int = 6
    """operators in the expression"""
    modulus: int = 11
    """a prime"""

    size_field: ClassVar[str] = "operators"
    separator: ClassVar[int] = EQUALS

    def __post_init__(self) -> None:
        require_range(self, "operators", 1, 200)
        require_prime(self, "modulus")

    @property
    def vocab(self) -> tuple[str, ...]:
        return (*SPECIALS, "=", "+", "-", "*", "/", "(", ")", *number_words(self.modulus))

    @property
    def prompt_length(self) -> int:
        """The tokens of k operators, k + 1 numbers, at most k - 1 pairs of brackets, and the
        separator."""
        return 4 * self.operators

    @property
    def chain_length(self) -> int:
        """The same, summed over k - 1 operators, k - 2, … and 1."""
        return 2 * self.operators * (self.operators - 1)

    @property
    def L(self) -> int:  # noqa: N802
        longest = super().L
        return PUBLISHED_L.get(self.operators, longest) if self.cot else longest

    @property
    def capacity(self) -> int:
        return max(self.L, super().L) + 1

    def distinct_inputs(self) -> float:
        """Returns an upper bound, which counts all binary trees, though some are written the
        same."""
        k = self.operators
        trees = math.comb(2 * k, k) // (k + 1)
        return as_count(trees * 4**k * self.modulus ** (k + 1))

    def fill(self, rng: np.random.Generator, tokens: IntArray) -> None:
        _fill(rng, tokens, self.operators, inverses(self.modulus))


@compiled
def _fill(rng: np.random.Generator, tokens: IntArray, operators: int, inverse: IntArray) -> None:
    for row in tokens:
        row[0] = NUMBER + below(rng, len(inverse))
        end = 1
        for grown in range(operators):
            end = _grow(rng, row, end, below(rng, grown + 1), inverse)
        start = 0
        for _ in range(operators):
            row[end] = EQUALS
            start, end = end + 1, _step(row, start, end, inverse)
        row[end] = EOS


@compiled
def _grow(rng: np.random.Generator, row: IntArray, end: int, which: int, inverse: IntArray) -> int:
    """Turns the `which`-th number of the expression row[:end] into a pair. Returns the new end."""
    place = 0
    while row[place] < NUMBER or which > 0:
        which -= row[place] >= NUMBER
        place += 1
    left, operator, right = _pair(rng, row[place] - NUMBER, inverse)
    before = row[place - 1] if place > 0 else EQUALS
    after = row[place + 1]
    bracketed = before == OVER or (
        operator in (PLUS, MINUS) and (before in (MINUS, TIMES) or after in (TIMES, OVER))
    )
    added = 4 if bracketed else 2
    for i in range(end - 1, place, -1):
        row[i + added] = row[i]
    if bracketed:
        row[place] = OPEN
        row[place + 4] = CLOSE
        place += 1
    row[place] = NUMBER + left
    row[place + 1] = operator
    row[place + 2] = NUMBER + right
    return end + added


@compiled
def _pair(rng: np.random.Generator, value: int, inverse: IntArray) -> tuple[int, int, int]:
    """Returns a number, an operator and a number that make `value`. The first number and the
    operator are drawn until there is a right second number."""
    p = len(inverse)
    while True:
        left = below(rng, p)
        operator = PLUS + below(rng, 4)
        if operator == PLUS:
            return left, operator, (value - left) % p
        if operator == MINUS:
            return left, operator, (left - value) % p
        if left == 0 and value == 0:  # any right one will do, but never a division by 0
            least = 1 if operator == OVER else 0
            return left, operator, least + below(rng, p - least)
        if left != 0 and operator == TIMES:
            return left, operator, int(value * inverse[left] % p)
        if left != 0 and value != 0:
            return left, operator, int(left * inverse[value] % p)


@compiled
def _step(row: IntArray, start: int, end: int, inverse: IntArray) -> int:
    """Writes the expression row[start:end] with one pair evaluated, from end + 1 on. Returns the
    end of what it wrote.

    row[end] holds EQUALS.
    """
    before = EQUALS
    pair = start
    while not _reducible(before, row[pair : pair + 4]):
        before = row[pair]
        pair += 1
    value = _evaluate(row[pair] - NUMBER, row[pair + 1], row[pair + 2] - NUMBER, inverse)
    rest = pair + 3
    if before == OPEN and row[rest] == CLOSE:
        pair -= 1
        rest += 1
    result = end + 1 + pair - start
    row[end + 1 : result] = row[start:pair]
    row[result] = NUMBER + value
    row[result + 1 : result + 1 + end - rest] = row[rest:end]
    return result + 1 + end - rest


@compiled
def _reducible(before: int, tokens: IntArray) -> bool:
    """Returns whether the pair in `tokens` (number, operator, number, next token) is to be
    evaluated now. `before` is the token before it."""
    left, operator, right, after = tokens
    if left < NUMBER or right < NUMBER:
        return False
    if operator in (TIMES, OVER):
        return before not in (TIMES, OVER)
    return before not in (PLUS, MINUS, TIMES, OVER) and after not in (TIMES, OVER)


@compiled
def _evaluate(left: int, operator: int, right: int, inverse: IntArray) -> int:
    p = len(inverse)
    if operator == PLUS:
        return (left + right) % p
    if operator == MINUS:
        return (left - right) % p
    if operator == TIMES:
        return left * right % p
    return int(left * inverse[right] % p)
