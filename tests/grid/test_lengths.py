"""Scores at other lengths than that of training: which factors there may be, what the scores are
called, what a longer task is, and how many of its rows are scored."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from math import ceil, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.grid import lengths
from sweepd.grid.metrics import NAME
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import Task
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.lis import LIS
from sweepd.tasks.sparse_memory import SparseMemory

FACTORS = st.integers(1001, 100_000).map(lambda thousandths: thousandths / 1000)


@pytest.mark.parametrize("factor", [0.5, 1.0, 100.5, inf, 1.2345678])
def test_no_factor(factor: float) -> None:
    assert lengths.fault(factor)


@given(st.sets(FACTORS.filter(lambda factor: not lengths.fault(factor)), min_size=1))
def test_each_factor_has_a_name_and_a_text_of_its_own(factors: set[float]) -> None:
    names = lengths.scores({"acc": "up", "loss": "down"}, sorted(factors))
    assert len(names) == len(factors) and set(names.values()) == {"up"}
    assert all(map(NAME.fullmatch, names))
    assert json.loads(lengths.as_text(sorted(factors))) == sorted(factors)


def test_a_task_without_an_accuracy_is_scored_by_its_loss() -> None:
    assert lengths.scores({"loss": "down"}, [1.5, 2.0]) == {"loss_1_5x": "down", "loss_2x": "down"}
    assert lengths.scores({"f1": "up"}, [2.0]) == {}


@given(FACTORS, st.integers(1, 50))
def test_a_longer_task_differs_in_its_length_alone(factor: float, n: int) -> None:
    there = lengths.longer(LIS(n=n, value_range=99), factor)
    assert isinstance(there, LIS)
    assert asdict(there) == {"cot": True, "value_range": 99, "n": ceil(Fraction(str(factor)) * n)}


def test_factors_are_read_as_they_are_written() -> None:
    assert 1.1 * 50 > 55
    assert lengths.longer(LIS(n=50), 1.1) == LIS(n=55)


@pytest.mark.parametrize(
    ("task", "there"),
    [
        (Arithmetic(operators=3), Arithmetic(operators=5)),
        (FixedMemory(2, longest=4, length=9), FixedMemory(2, longest=4, length=14)),
        (AdaptiveMemory(2, longest=8, length=9), AdaptiveMemory(2, longest=8, length=14)),
        (SparseMemory(length=9), SparseMemory(length=14)),
    ],
    ids=lambda task: type(task).__name__,
)
def test_memory_tasks_grow_by_their_rows_and_not_by_their_memories(task: Task, there: Task) -> None:
    assert lengths.longer(task, 1.5) == there


@given(st.integers(1, 40), FACTORS, st.integers(1, 5000))
def test_longer_rows_have_no_more_tokens_than_the_test(n: int, factor: float, count: int) -> None:
    task = LIS(n=n, value_range=2)
    there = lengths.longer(task, factor)
    rows = lengths.rows(task, there, count)
    assert rows >= 1
    assert rows * there.L <= count * task.L or rows == 1
    assert (rows + 1) * there.L > count * task.L
    assert lengths.rows(task, task, count) == count
