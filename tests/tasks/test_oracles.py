"""Tasks of the field whose targets a slow, obvious function gives: lookup, mqar, copy, dyck, k_hop,
parity and word_problem."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.tasks import dyck, k_hop, lookup, mqar, parity, word_problem
from sweepd.tasks.base import Batch, RowTask, Split
from sweepd.tasks.copy import Copy
from sweepd.tasks.dyck import BRACKETS, Dyck
from sweepd.tasks.k_hop import KHop
from sweepd.tasks.lookup import Lookup
from sweepd.tasks.mqar import Mqar
from sweepd.tasks.parity import Parity
from sweepd.tasks.word_problem import WordProblem

Words = list[str]
Answers = list[str | None]


def looked_up(words: Words) -> Answers:
    symbols = [word for word in words if word.isalpha()]
    return [None if word.isalpha() else symbols[int(word) - 1] for word in words]


def recalled(words: Words) -> Answers:
    return [
        words[words.index(word) + 1] if word[0] == "k" and word in words[:i] else None
        for i, word in enumerate(words)
    ]


def nested(words: Words, depth: int) -> Answers:
    answers: Answers = []
    open_brackets: Words = []
    for word in words:
        kind = BRACKETS.index(word)
        if kind % 2 == 0:
            open_brackets.append(word)
        elif not open_brackets or open_brackets.pop() != BRACKETS[kind - 1]:
            return answers + ["broken"] * (len(words) - len(answers))
        assert len(open_brackets) <= depth
        answers.append("open" if open_brackets else "whole")
    return answers


def hopped(words: Words, k: int) -> Answers:
    def hop(at: int | None) -> int | None:
        earlier = [] if at is None else [i for i in range(at) if words[i] == words[at]]
        return earlier[-1] + 1 if earlier else None

    answers: Answers = []
    for i in range(len(words)):
        at: int | None = i
        for _ in range(k):
            at = hop(at)
        answers.append(None if at is None else words[at])
    return answers


def odd(words: Words) -> Answers:
    return ["01"[words[: i + 1].count("1") % 2] for i in range(len(words))]


def multiplied(words: Words, group: str) -> Answers:
    """A permutation is written as the places to which 1, 2, … go."""
    answers: Answers = [words[0]]
    for word in words[1:]:
        before = str(answers[-1])
        if group == "Z60":
            answers.append(str((int(before) + int(word)) % 60))
        else:
            answers.append("".join(word[int(place) - 1] for place in before))
    return answers


Case = tuple[Callable[[int, int], RowTask], Callable[[Words, Any], Answers], Any]
CASES: Mapping[str, Case] = {
    "lookup": (lambda n, m: Lookup(n + 1, queries=m), lambda w, t: looked_up(w), lookup),
    "mqar": (
        lambda n, m: Mqar(n, m + 3, vocabulary=24, alpha=m / 4),
        lambda w, t: recalled(w),
        mqar,
    ),
    "dyck": (lambda n, m: Dyck(2 * n, 2 + m % 3, m), lambda w, t: nested(w, t.depth), dyck),
    "k_hop": (lambda n, m: KHop(m, 4 * m + n, 4), lambda w, t: hopped(w, t.k), k_hop),
    "parity": (lambda n, m: Parity(n), lambda w, t: odd(w), parity),
    "word_problem": (
        lambda n, m: WordProblem(n, ("S3", "A5", "S5", "Z60")[m % 4]),
        lambda w, t: multiplied(w, t.group),
        word_problem,
    ),
}
every_case = pytest.mark.parametrize("name", CASES)


def rows(task: RowTask, batch: Batch) -> list[tuple[Words, Answers]]:
    return [
        (
            task.words(inputs),
            [task.words([t])[0] if s else None for t, s in zip(*wanted, strict=True)],
        )
        for inputs, *wanted in zip(batch.inputs, batch.targets, batch.scored, strict=True)
    ]


@every_case
@settings(max_examples=30)
@given(n=st.integers(2, 12), m=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_every_target_is_what_the_obvious_way_gives(name: str, n: int, m: int, seed: int) -> None:
    make, oracle, _ = CASES[name]
    task = make(n, m)
    batch = task.sample(np.random.default_rng(seed), 5, Split.TRAIN)
    for inputs, answers in rows(task, batch):
        assert answers == oracle(inputs, task)


@every_case
def test_the_example_of_the_module_is_a_row(name: str) -> None:
    _, oracle, module = CASES[name]
    text = next(line for line in module.__doc__.splitlines() if "<sep>" in line)
    inputs, answers = (half.split() for half in text.removesuffix("<eos>").split("<sep>"))
    task: Any = {"dyck": Dyck(6), "k_hop": KHop(1, 8), "word_problem": WordProblem(3, "S3")}.get(
        name
    )
    assert [answer or "." for answer in oracle(inputs, task)] == answers


@every_case
def test_a_row_drawn_alone_is_that_of_a_block(name: str) -> None:
    task = CASES[name][0](6, 2)
    drawn, answers = task.draw(np.random.default_rng(5))
    assert answers == CASES[name][1](list(map(str, drawn)), task)


def test_a_copy_is_the_prompt() -> None:
    task = Copy(5, letters=3)
    chains = task.sample(np.random.default_rng(0), 50, Split.TEST)
    assert (chains.tokens[:, :5] == chains.tokens[:, 6:11]).all()
    assert (chains.prompts == 6).all() and (chains.lengths == 12).all()
    assert task.L == 11 and task.distinct_inputs() == 3**5


def test_what_makes_rows_hard_is_there() -> None:
    """Queries of a row differ, gaps are often short, and half of the brackets are well nested."""

    def inputs(task: RowTask) -> Any:
        return task.sample(np.random.default_rng(0), 2000, Split.TRAIN)

    queries = inputs(Lookup(6)).inputs[:, 6:]
    assert all(len(set(row)) == 4 for row in queries.tolist())
    first = inputs(Mqar(1, 16, vocabulary=64)).scored.argmax(axis=1) // 2
    weights = np.arange(1.0, 8) ** -0.99
    shares = np.bincount(first - 1, minlength=7) / 2000
    assert shares == pytest.approx(weights / weights.sum(), abs=0.04)
    last = inputs(Dyck(16)).targets[:, -1]
    assert np.mean(last == dyck.WHOLE) == pytest.approx(0.5, abs=0.04)


def test_a_row_of_brackets_is_right_only_as_a_whole() -> None:
    task = Dyck(8)
    batch = task.sample(np.random.default_rng(0), 4, Split.TEST)
    found = batch.targets.copy()
    found[1, 3] = dyck.WHOLE + dyck.OPEN - found[1, 3] if found[1, 3] != dyck.BROKEN else 0
    assert task.right(found, batch).tolist() == [True, False, True, True]
