"""Training rows a second of each task, beside the same draws in plain Python.

    python benchmarks/data.py [--seconds 1] [--rounds 3]

A round times one and then the other for about `--seconds` each. Medians over the rounds are
printed. Ours also hashes its inputs and splits them, and plain Python does not. Compare the ratios,
not the rows a second.
"""

from __future__ import annotations

import argparse
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable
from random import Random

import numpy as np

from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import ChainTask, Split
from sweepd.tasks.edit_distance import EditDistance
from sweepd.tasks.lis import LIS

Words = list[str]


def plain_lis(task: LIS, rng: Random) -> Words:
    values = [rng.randrange(task.value_range) for _ in range(task.n)]
    places = sorted(rng.sample(range(task.n), rng.randint(3, task.n)))
    planted: list[int] = []
    for runs_left in range(rng.randint(1, 3), 0, -1):
        length = len(places) - len(planted)
        if runs_left > 1:
            length = min(length, rng.randint(1, length // runs_left + 1))
        planted += sorted(rng.sample(range(task.value_range), length))
    for place, value in zip(places, planted, strict=True):
        values[place] = value
    tails: list[int] = []
    lengths = []
    for value in values:
        k = bisect_left(tails, value)
        tails[k : k + 1] = [value]
        lengths.append(k + 1)
    return [*map(str, values), "<sep>", *map(str, lengths), "<sep>", str(len(tails)), "<eos>"]


def plain_edit_distance(task: EditDistance, rng: Random) -> Words:
    letters = rng.sample(task.vocab[5 : 5 + task.alphabet], rng.randint(3, 10))
    first, second = strings(task, rng, letters, rng.random() < task.edited)
    above = [2 * j for j in range(len(second) + 1)]
    chain: Words = []
    for i, letter in enumerate(first):
        line = [2 * i + 2]
        for j, other in enumerate(second):
            line.append(min(above[j] + 3 * (letter != other), above[j + 1] + 2, line[j] + 2))
        above = line
        chain += [*map(str, line[1:]), ","]
    return [*first, "|", *second, "<sep>", *chain, "<sep>", str(above[-1]), "<eos>"]


def strings(task: EditDistance, rng: Random, letters: Words, edited: bool) -> tuple[Words, Words]:
    least, most = task.n - task.shorter, task.n + task.longer
    while True:
        first = rng.choices(letters, k=task.n)
        second = first[:] if edited else rng.choices(letters, k=rng.randint(least, most))
        for _ in range(rng.randint(1, task.n) if edited else 0):
            kind = rng.randrange(3)
            if kind == 0 and len(second) > 1:
                del second[rng.randrange(len(second))]
            elif kind == 1:
                second[rng.randrange(len(second))] = rng.choice(letters)
            else:
                second.insert(rng.randint(0, len(second)), rng.choice(letters))
        if first != second and least <= len(second) <= most:
            return (first, second) if len(first) <= len(second) else (second, first)


def plain_arithmetic(task: Arithmetic, rng: Random) -> Words:
    p = task.modulus
    expression = [str(rng.randrange(p))]
    for _ in range(task.operators):
        place = rng.choice([i for i, word in enumerate(expression) if word.isdigit()])
        pair = pair_worth(int(expression[place]), p, rng)
        before, after = expression[place - 1 : place], expression[place + 1 : place + 2]
        if before == ["/"] or (
            pair[1] in "+-" and (before in (["-"], ["*"]) or after in (["*"], ["/"]))
        ):
            pair = ["(", *pair, ")"]
        expression[place : place + 1] = pair
    row = expression
    for _ in range(task.operators):
        expression = one_step(expression, p)
        row = [*row, "=", *expression]
    return [*row, "<eos>"]


def pair_worth(value: int, p: int, rng: Random) -> Words:
    while True:
        left, operator, right = rng.randrange(p), rng.choice("+-*/"), rng.randrange(p)
        if operator in "+-":
            right = (value - left if operator == "+" else left - value) % p
        elif left:
            if operator == "/" and not value:
                continue
            right = (value * pow(left, -1, p) if operator == "*" else left * pow(value, -1, p)) % p
        elif value or (operator == "/" and not right):
            continue
        return [str(left), operator, str(right)]


def one_step(words: Words, p: int) -> Words:
    for i in range(len(words) - 2):
        before, after = "".join(words[max(i - 1, 0) : i]), "".join(words[i + 3 : i + 4])
        left, operator, right = words[i : i + 3]
        if left.isdigit() and right.isdigit():
            if operator in "*/":
                held = before in ("*", "/")
            else:
                held = before in ("+", "-", "*", "/") or after in ("*", "/")
            if not held:
                break
    a, b = int(left), int(right)
    if operator == "/":
        a, operator = a * pow(b, -1, p), ""
    value = str({"+": a + b, "-": a - b, "*": a * b, "": a}[operator] % p)
    if before == "(" and after == ")":
        return [*words[: i - 1], value, *words[i + 4 :]]
    return [*words[:i], value, *words[i + 3 :]]


def rows_a_second(draw: Callable[[], int], seconds: float) -> float:
    """Returns how many rows `draw` makes a second. It makes some rows and returns how many."""
    rows, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        rows += draw()
    return rows / (time.perf_counter() - start)


def measure(task: ChainTask, plain: Callable[[], Words], seconds: float, rounds: int) -> None:
    rng = np.random.default_rng(0)

    def ours() -> int:
        return len(task.sample(rng, 512, Split.TRAIN).tokens)

    def peer() -> int:
        return sum(1 for _ in range(16) if plain())

    ours()  # compiles
    pairs = [(rows_a_second(ours, seconds), rows_a_second(peer, seconds)) for _ in range(rounds)]
    here, there = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    name = f"{type(task).__name__} {task.size_field}={task.size}"
    print(f"{name:<24}{here:>12,.0f}{there:>16,.0f}{ratio:>8.0f}x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rng = Random(0)
    print(f"{'rows a second':<24}{'sweepd':>12}{'plain Python':>16}{'ratio':>9}")
    for n in (40, 250):
        lis = LIS(n)
        measure(lis, lambda task=lis: plain_lis(task, rng), **vars(arguments))  # type: ignore[misc]
    for n in (6, 20):
        ed = EditDistance(n)
        measure(ed, lambda task=ed: plain_edit_distance(task, rng), **vars(arguments))  # type: ignore[misc]
    for operators in (6, 16):
        arithmetic = Arithmetic(operators)
        measure(arithmetic, lambda task=arithmetic: plain_arithmetic(task, rng), **vars(arguments))  # type: ignore[misc]


if __name__ == "__main__":
    main()
