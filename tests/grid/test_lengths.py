"""Scores at other lengths than that of training: which factors there may be, what the scores are
called, what a longer task is, how many of its rows are scored, and what a grid may ask for. A grid
without `lengths` has the same trials as ever."""

import json
import re
from dataclasses import asdict
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweepd.grid import lengths
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import json_schema, parse_grid
from sweepd.grid.yamlfile import GridError
from sweepd.limits import METRIC
from sweepd.tasks.adaptive_memory import AdaptiveMemory
from sweepd.tasks.arithmetic import Arithmetic
from sweepd.tasks.base import Task
from sweepd.tasks.fixed_memory import FixedMemory
from sweepd.tasks.lis import LIS
from sweepd.tasks.sparse_memory import SparseMemory

TASK = "{name: lis, n: 4, value_range: 16}"
MODEL = "{name: standard, d: 8, heads: 2, layers: 1}"
OWN = """
from dataclasses import dataclass
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Named(LIS):
    score_lengths: int = 1

@dataclass(frozen=True)
class Scoring(LIS):
    metrics = {"acc": "up", "acc_2x": "up"}

    def scores(self, found, wanted):
        return {"acc_2x": 0.0}

@dataclass(frozen=True)
class Silent(LIS):
    metrics = {"f1": "up"}

    def scores(self, found, wanted):
        return {"f1": 0.0}

@dataclass(frozen=True)
class Loop:
    n: int = 4
    task = "digits"
    size_field = "n"
    metrics = {"acc": "up"}

    def start(self, seed, device):
        raise NotImplementedError
"""
FACTORS = st.integers(1001, 100_000).map(lambda thousandths: thousandths / 1000)


@given(st.sets(FACTORS.filter(lambda factor: float(f"{factor:g}") == factor), min_size=1))
def test_each_factor_has_a_name_and_a_text_of_its_own(factors: set[float]) -> None:
    names = lengths.scores({"acc": "up", "loss": "down"}, sorted(factors))
    assert len(names) == len(factors) and set(names.values()) == {"up"}
    assert all(re.fullmatch(METRIC, name) for name in names)
    assert json.loads(lengths.written(sorted(factors))[lengths.COLUMN]) == sorted(factors)


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


def planned(*sets: str, task: str = TASK, model: str = MODEL, base: Path = Path()) -> Plan:
    text = f"name: a\ntask: {task}\nmodel: {model}\n"
    return plan(parse_grid(text, "grid.yaml", sets, base))


def refused(*sets: str, task: str = TASK, model: str = MODEL, base: Path = Path()) -> str:
    with pytest.raises(GridError) as caught:
        planned(*sets, task=task, model=model, base=base)
    return str(caught.value)


def test_without_lengths_nothing_changes() -> None:
    [plain] = planned().trials
    [empty] = planned("lengths=[]").trials
    assert plain == empty
    assert plain.unscored_config is None and "score_lengths" not in plain.row()
    assert "lengths" not in planned().grid.resolved_text()
    assert planned().notes == ()


def test_lengths_are_part_of_a_trial_and_not_of_its_training() -> None:
    [plain] = planned().trials
    [two] = planned("lengths=[2]").trials
    [both] = planned("lengths=[1.5, 2]").trials
    [turned] = planned("lengths=[2, 1.5]").trials
    assert both == turned
    assert len({plain.id, two.id, both.id}) == 3
    assert {plain.trunk} == {two.trunk, both.trunk}
    assert {plain.config} == {two.unscored_config, both.unscored_config}
    assert both.axes == {**plain.axes, "score_lengths": "[1.5, 2]"}
    assert both.metrics == {**plain.metrics, "acc_1_5x": "up", "acc_2x": "up"}
    assert both.train_flops == plain.train_flops
    assert json.loads(both.row()["score_lengths"]) == [1.5, 2]


def test_a_frozen_grid_has_the_same_trials() -> None:
    found = planned("lengths=[1.5, 2]", "goal=acc_2x > 0.5")
    again = plan(parse_grid(found.grid.resolved_text(), "grid.yaml", (), Path()))
    assert again.trials == found.trials and again.grid.goal == found.grid.goal


def test_a_score_at_a_length_may_be_the_goal() -> None:
    goal = "goal=acc_2x > 0.5"
    found = planned("lengths=[2]", goal)
    assert found.grid.goal.better == "up" and found.metrics == {"acc_2x": "up"}
    assert found.notes[0].startswith("trained models are also scored at 2 times their length")
    assert "reports no acc_2x" in refused(goal)
    assert "reports no acc_3x" in refused("lengths=[2]", "goal=acc_3x > 0.5")
    assert "must be a share from 0 to 1" in refused("lengths=[2]", "goal=acc_2x > 50")
    assert "more acc_2x is better" in refused("lengths=[2]", "goal=acc_2x < 0.5")
    for rule in ("plateau", "asha"):
        told = refused("lengths=[2]", goal, f"stop.{rule}.grace=100")
        assert f"it watches the checks, which do not measure acc_2x; leave {rule} out" in told


@pytest.mark.parametrize(
    ("factor", "why"),
    [
        ("1", "must be greater than 1"),
        ("0.5", "must be greater than 1"),
        ("101", "equal to 100"),
        ("1.23456789", "at most six digits"),
        ("2, 2.0", "listed twice"),
        ("far", "must be a valid number"),
    ],
)
def test_what_is_no_length_is_refused(factor: str, why: str) -> None:
    assert why in refused(f"lengths=[{factor}]")


def test_lengths_are_a_list() -> None:
    assert "must be a list, such as [2]" in refused("lengths=2")
    assert json_schema()["properties"]["lengths"]["items"]["exclusiveMinimum"] == 1


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("own.py:Named", "has a field score_lengths"),
        ("own.py:Scoring", "has a metric acc_2x, the name of a score at another length"),
        ("own.py:Silent", "no task of the grid reports acc or loss"),
    ],
)
def test_what_a_user_s_own_task_may_not_have(tmp_path: Path, task: str, told: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    goal = "goal=f1 > 0.5" if "Silent" in task else "goal=acc > 0.5"
    given = f"{{name: '{task}', n: 4, value_range: 16}}"
    assert told in refused("lengths=[2]", goal, task=given, base=tmp_path)


def test_a_loop_scores_itself(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    text = "name: a\nloop: {name: 'own.py:Loop'}\nlengths: [2]\n"
    with pytest.raises(GridError, match="lengths: a grid with a loop has no such key"):
        plan(parse_grid(text, "grid.yaml", (), tmp_path))
