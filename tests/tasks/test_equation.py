"""Equation, compared with Cramer's rule and with an elimination on text. Also tested: the format,
draws, lengths and limits."""

from itertools import pairwise, permutations
from math import prod
from string import ascii_lowercase

import numpy as np
from drawn import texts_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import equation
from sweepd.tasks.equation import Equation

System = list[list[int]]
"""Equations as coefficients and, last, the right-hand side."""
SETTINGS = {
    "unknowns": st.integers(1, 5),
    "modulus": st.sampled_from([2, 3, 5, 11, 31]),
    "seed": st.integers(0, 2**32),
}


def parse(text: str) -> System:
    """Equations as they are written: a bare variable counts once, one that is missing not."""
    equations = [line.split(" = ") for line in text.split(" , ")]
    system = []
    for left, right in equations:
        coefficients = [0] * len(equations)
        for term in left.split(" + "):
            *count, variable = term.split()
            coefficients[ascii_lowercase.index(variable)] = int(count[0]) if count else 1
        system.append([*coefficients, int(right)])
    return system


def render(system: System, step: int) -> str:
    lines = []
    for *coefficients, right in system:
        terms = []
        for j, value in enumerate(coefficients):
            if j >= step:
                terms.append(f"{value} {ascii_lowercase[j]}")
            elif value:
                terms.append(ascii_lowercase[j])
        lines.append(f"{' + '.join(terms)} = {right}")
    return " , ".join(lines)


def determinant(matrix: System, p: int) -> int:
    """Leibniz's sum over all permutations."""
    places = range(len(matrix))
    total = 0
    for chosen in permutations(places):
        swaps = sum(chosen[i] > chosen[j] for i in places for j in places if i < j)
        total += (-1) ** swaps * prod(matrix[i][chosen[i]] for i in places)
    return total % p


def solve(system: System, p: int) -> list[int]:
    """Cramer's rule."""
    matrix = [line[:-1] for line in system]
    divisor = pow(determinant(matrix, p), -1, p)
    return [
        determinant([[*line[:j], line[-1], *line[j + 1 : -1]] for line in system], p) * divisor % p
        for j in range(len(system))
    ]


def eliminated(system: System, step: int, p: int) -> System:
    """One more variable eliminated: the definition, with new lists instead of arrays."""
    pivot = next(k for k in range(step, len(system)) if system[k][step])
    lines = list(system)
    lines[step], lines[pivot] = lines[pivot], lines[step]
    (inverse,) = (number for number in range(p) if number * lines[step][step] % p == 1)
    own = [value * inverse % p for value in lines[step]]
    return [
        own if k == step else [(a - line[step] * b) % p for a, b in zip(line, own, strict=True)]
        for k, line in enumerate(lines)
    ]


@settings(max_examples=60)
@given(**SETTINGS)
def test_every_system_of_a_row_has_the_answer_as_its_only_solution(
    unknowns: int, modulus: int, seed: int
) -> None:
    task = Equation(unknowns, modulus)
    for row in texts_of(task, seed, 5):
        systems = row.split(" <sep> ")
        assert len(systems) == unknowns + 1
        values = [line[-1] for line in parse(systems[-1])]
        for text in systems:
            assert solve(parse(text), modulus) == values
        ids = [task.vocab.index(word) for word in row.split()]
        assert task.words(task.answer(ids)) == systems[-1].split()


@settings(max_examples=60)
@given(**SETTINGS)
def test_each_step_eliminates_one_more_variable(unknowns: int, modulus: int, seed: int) -> None:
    for row in texts_of(Equation(unknowns, modulus), seed, 10):
        systems = row.split(" <sep> ")
        for step, (before, after) in enumerate(pairwise(systems)):
            assert render(parse(before), step) == before
            assert after == render(eliminated(parse(before), step, modulus), step + 1)
            for k, line in enumerate(parse(after)):
                assert line[: step + 1] == [int(j == k) for j in range(step + 1)]


@settings(max_examples=20)
@given(**SETTINGS)
def test_every_row_of_a_setting_is_equally_long(unknowns: int, modulus: int, seed: int) -> None:
    task = Equation(unknowns, modulus)
    for row in texts_of(task, seed, 5):
        systems = row.split(" <sep> ")
        assert len(row.split()) == task.L == task.capacity - 1
        assert len(systems[0].split()) + 1 == task.prompt_length
        assert len(systems[-1].split()) == task.answer_length


def test_example_of_the_module_is_a_row() -> None:
    systems = ["0 a + 8 b = 10 , 7 a + 2 b = 0"]
    for step in range(2):
        systems.append(render(eliminated(parse(systems[-1]), step, 11), step + 1))
    assert " <sep> ".join(systems) + " <eos>" in (equation.__doc__ or "")


def test_all_systems_with_one_solution_are_drawn_equally_often() -> None:
    task = Equation(2, 2)
    prompts = [row.partition(" <sep> ")[0] for row in texts_of(task, 0, 6000)]
    counts = np.array([prompts.count(prompt) for prompt in set(prompts)])
    assert len(counts) == task.distinct_inputs() == 24
    assert ((counts - 250) ** 2 / 250).sum() < 60  # chi squared, 23 degrees: p = 4e-5
