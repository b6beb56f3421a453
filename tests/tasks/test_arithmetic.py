"""Arithmetic, compared with an evaluator by precedence climbing and with a rewriter of strings.
Both are written from the grammar. Also tested: brackets, division by zero, lengths, draws and
limits."""

import re
from itertools import pairwise

import numpy as np
import pytest
from drawn import texts_of
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import arithmetic
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import Split

Tree = int | tuple["Tree", str, "Tree"]
BINDS = {"+": 1, "-": 1, "*": 2, "/": 2}
SETTINGS = {
    "operators": st.integers(1, 12),
    "modulus": st.sampled_from([2, 3, 5, 7, 11, 31]),
    "seed": st.integers(0, 2**32),
}


def parse(expression: str) -> Tree:
    """Precedence climbing; operators of one rank associate to the left."""
    words = expression.split()

    def operand() -> Tree:
        word = words.pop(0)
        if word != "(":
            return int(word)
        inner = climb(1)
        assert words.pop(0) == ")"
        return inner

    def climb(least: int) -> Tree:
        left = operand()
        while words and BINDS.get(words[0], 0) >= least:
            operator = words.pop(0)
            left = (left, operator, climb(BINDS[operator] + 1))
        return left

    tree = climb(1)
    assert not words
    return tree


def apply(left: int, operator: str, right: int, p: int) -> int:
    match operator:
        case "+":
            return (left + right) % p
        case "-":
            return (left - right) % p
        case "*":
            return left * right % p
        case _:
            (quotient,) = (number for number in range(p) if number * right % p == left)
            return quotient  # the only one: dividing by 0 has none or many


def evaluate(tree: Tree, p: int) -> int:
    if isinstance(tree, int):
        return tree
    left, operator, right = tree
    return apply(evaluate(left, p), operator, evaluate(right, p), p)


def render(tree: Tree) -> str:
    """The tree with brackets only where the value would be another one without them."""
    if isinstance(tree, int):
        return str(tree)
    left, operator, right = tree

    def side(child: Tree, needs: set[str]) -> str:
        bracketed = not isinstance(child, int) and child[1] in needs
        return f"( {render(child)} )" if bracketed else render(child)

    on_left = {"+": "", "-": "", "*": "+-", "/": "+-"}[operator]
    on_right = {"+": "", "-": "+-", "*": "+-", "/": "+-*/"}[operator]
    return f"{side(left, set(on_left))} {operator} {side(right, set(on_right))}"


def reduce_tree(tree: Tree, p: int) -> Tree:
    """One step: evaluate the leftmost operator whose operands are numbers."""
    assert not isinstance(tree, int)
    left, operator, right = tree
    if not isinstance(left, int):
        return reduce_tree(left, p), operator, right
    if not isinstance(right, int):
        return left, operator, reduce_tree(right, p)
    return apply(left, operator, right, p)


def reduce_text(expression: str, p: int) -> str:
    """One step on the string: the leftmost pair that its neighbours do not hold back."""
    match = re.search(
        r"(?<![*/] )\b(\d+) ([*/]) (\d+)\b|(?<![-+*/] )\b(\d+) ([-+]) (\d+)\b(?! [*/])",
        expression,
    )
    assert match
    left, operator, right = (group for group in match.groups() if group is not None)
    value = str(apply(int(left), operator, int(right), p))
    return re.sub(
        r"\( (\d+) \)", r"\1", expression[: match.start()] + value + expression[match.end() :]
    )


@settings(max_examples=60)
@given(**SETTINGS)
def test_each_step_evaluates_the_leftmost_pair(operators: int, modulus: int, seed: int) -> None:
    for row in texts_of(Arithmetic(operators, modulus), seed, 10):
        chain = row.split(" = ")
        assert len(chain) == operators + 1
        for before, after in pairwise(chain):
            assert after == reduce_text(before, modulus)
            assert parse(after) == reduce_tree(parse(before), modulus)


@settings(max_examples=60)
@given(**SETTINGS)
def test_every_expression_is_canonical_and_worth_the_answer(
    operators: int, modulus: int, seed: int
) -> None:
    task = Arithmetic(operators, modulus)
    for row in texts_of(task, seed, 10):
        chain = row.split(" = ")
        assert chain[-1].isdigit()
        for used, expression in enumerate(reversed(chain)):
            assert sum(expression.count(operator) for operator in BINDS) == used
            assert render(parse(expression)) == expression
            assert evaluate(parse(expression), modulus) == int(chain[-1])
        ids = [task.vocab.index(word) for word in row.split()]
        assert task.answer(ids) == (task.vocab.index(chain[-1]),)


@pytest.mark.parametrize("operators", [1, 2, 3, 4])
def test_the_bound_is_reached(operators: int) -> None:
    task = Arithmetic(operators)
    longest = max(len(row.split()) for row in texts_of(task, 0, 5000))
    assert longest == task.L == 2 * operators**2 + 2 * operators + 1
    direct = Arithmetic(operators, cot=False)
    prompts = direct.sample(np.random.default_rng(0), 3000, Split.TRAIN).prompts
    assert max(prompts) == direct.prompt_length


def test_example_of_the_module_is_a_row() -> None:
    chain = ["2 * ( 7 - 3 ) / 5"]
    while not chain[-1].isdigit():
        chain.append(reduce_text(chain[-1], 11))
    assert " = ".join(chain) + " <eos>" in (arithmetic.__doc__ or "")


def test_all_operators_and_results_are_drawn() -> None:
    rows = texts_of(Arithmetic(1, 5), 0, 2000)
    assert {row.split()[1] for row in rows} == {"+", "-", "*", "/"}
    assert {row.split()[-1] for row in rows} == set("01234")
    assert len(set(rows)) == 4 * 5 * 5 - 5  # every pair but the divisions by 0
