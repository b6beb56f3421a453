"""Which models can be scored at other lengths: what each shipped task and model allows, what `plan`
refuses, and what it notes. A grid without `lengths` has the same trials as ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweepd.grid.plan import Plan, plan
from sweepd.grid.registry import shipped_models, shipped_tasks
from sweepd.grid.spec import json_schema, parse_grid
from sweepd.grid.trials import Trial
from sweepd.grid.yamlfile import GridError

LIS = "{name: lis, n: 4, value_range: 16}"
MODEL = "{name: standard, d: 8, heads: 2, layers: 1}"
OWN = """
from dataclasses import dataclass
import torch
from sweepd.models.base import Model
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Masked(Model):
    width: int = 4

    def build(self, vocab, L, capacity, generator):
        module = torch.nn.Sequential(torch.nn.Embedding(vocab, 4), torch.nn.Linear(4, vocab))
        module.register_buffer("mask", torch.ones(capacity, capacity).tril())
        return module

@dataclass(frozen=True)
class Plain(Model):
    width: int = 4

    def build(self, vocab, L, capacity, generator):
        return torch.nn.Sequential(torch.nn.Embedding(vocab, 4), torch.nn.Linear(4, vocab))

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


def planned(*sets: str, task: str = LIS, model: str = MODEL, base: Path = Path()) -> Plan:
    text = f"name: a\ntask: {task}\nmodel: {model}\n"
    return plan(parse_grid(text, "grid.yaml", sets, base))


def refused(*sets: str, task: str = LIS, model: str = MODEL, base: Path = Path()) -> str:
    with pytest.raises(GridError) as caught:
        planned(*sets, task=task, model=model, base=base)
    return str(caught.value)


def reached(plan: Plan) -> dict[tuple[str, ...], tuple[float, ...]]:
    """What each trial is scored at, by its model and positions."""
    return {(t.model_name, t.values.model["positions"]): t.reached for t in plan.trials}


@pytest.mark.parametrize(
    ("task", "factors"),
    [
        ("{name: lis, n: 4, value_range: 9}", (1.5, 2.0)),
        ("{name: lis, n: 4, value_range: 8}", (1.5,)),
        ("{name: lis, n: 4, value_range: 16, cot: false}", (1.5, 2.0)),
        ("{name: arithmetic, operators: 6}", (1.5, 2.0)),
        ("{name: fixed_memory, memories: 2}", (1.5, 2.0)),
        ("{name: adaptive_memory, memories: 2, values: reals}", (1.5, 2.0)),
        ("{name: sparse_memory}", (1.5, 2.0)),
        ("{name: edit_distance, n: 3}", ()),
        ("{name: ed_local, n: 3}", ()),
        ("{name: equation, unknowns: 2}", ()),
    ],
)
def test_what_each_task_allows(task: str, factors: tuple[float, ...]) -> None:
    two = f"[{LIS}, {task}]"  # so that no length is out of reach everywhere
    trials = planned("lengths=[1.5, 2]", "goal=loss < 1", task=two).trials
    name = task.partition(",")[0].removeprefix("{name: ").rstrip("}")
    assert {trial.reached for trial in trials if trial.task_name == name} >= {factors}


def test_these_are_all_tasks() -> None:
    marks = test_what_each_task_allows.pytestmark  # type: ignore[attr-defined]
    named = " ".join(task for task, _ in marks[0].args[1])
    assert all(f"name: {entry.name}" in named for entry in shipped_tasks())


def test_what_each_model_allows() -> None:
    for entry in shipped_models():
        kinds = "[none, sinusoidal, learned]"
        model = f"{{name: {entry.name}, d: 8, heads: 2, layers: 1, positions: {kinds}}}"
        found = reached(planned("lengths=[1.5, 2]", model=model))
        assert found == {
            (entry.name, "none"): (1.5, 2.0),
            (entry.name, "sinusoidal"): (1.5, 2.0),
            (entry.name, "learned"): (),
        }
    rotary = planned("lengths=[2]", "model.positions=rotary")
    assert reached(rotary) == {("standard", "rotary"): (2.0,)}


def test_a_model_of_a_user_s_own_is_scored_where_its_weights_fit(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    sets = ["lengths=[2]", "train.lr=1e-3"]
    found = planned(*sets, model="{name: ['own.py:Plain', 'own.py:Masked']}", base=tmp_path)
    assert {t.model_name: t.reached for t in found.trials} == {
        "own.py:Plain": (2.0,),
        "own.py:Masked": (),
    }
    assert any("own.py:Masked" in note and "`mask`" in note for note in found.notes)
    # Both rerun the whole prefix for each token: the scores count with the tests.
    before = planned(*sets[1:], model="{name: 'own.py:Plain'}", base=tmp_path)
    [told, more] = [
        next(
            int(note.split("up to ")[1].split("%")[0]) for note in one.notes if "no `step`" in note
        )
        for one in (before, found)
    ]
    assert more > told


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
    assert (two.former_config, plain.former_config) == (None, None)
    assert both.axes == {**plain.axes, "score_lengths": "[1.5, 2]"}
    assert both.metrics == {**plain.metrics, "acc_1_5x": "up", "acc_2x": "up"}
    assert both.train_flops == plain.train_flops


def test_a_frozen_grid_has_the_same_trials() -> None:
    found = planned("lengths=[1.5, 2]", "goal=acc_2x > 0.5")
    again = plan(parse_grid(found.grid.resolved_text(), "grid.yaml", (), Path()))
    assert again.trials == found.trials and again.grid.goal == found.grid.goal


def test_cells_that_cannot_be_scored_are_planned_with_a_note() -> None:
    found = planned("lengths=[2]", "model.positions=[none, learned]", "task.n=[4, 12]")
    scored = {(t.size, t.values.model["positions"]): t.reached for t in found.trials}
    assert scored == {
        (4, "none"): (2.0,),
        (4, "learned"): (),
        (12, "none"): (),
        (12, "learned"): (),
    }
    assert {t.axes["score_lengths"] for t in found.trials} == {"[2]"}
    assert found.metrics == {"acc_2x": "up"}
    assert found.notes == (
        "trained models are also scored at 2 times n of lis",
        "no acc_2x for standard (1 of 4 settings): the weight `position` depends on how long a row "
        "may be, as learned positions do",
        "no acc_2x for lis with n = 12: with n = 24 its vocabulary has 28 words in place of 19",
    )


def test_a_length_that_nothing_can_be_scored_at_is_refused() -> None:
    told = refused("lengths=[1.5, 2]", "model.positions=learned")
    assert "nothing can be scored at 1.5 times" in told and "nothing can be scored at 2 tim" in told
    told = refused("lengths=[1.5, 2]", "task.value_range=8")
    assert told == (
        "(--set lengths): lengths: nothing can be scored at 2 times its length: lis with n = 4: "
        "with n = 8 its vocabulary has 12 words in place of 11"
    )


def test_a_score_at_a_length_may_be_the_goal_where_every_trial_has_it() -> None:
    goal = "goal=acc_2x > 0.5"
    assert planned("lengths=[2]", goal).grid.goal.better == "up"
    told = refused("lengths=[2]", goal, "model.positions=[none, learned]")
    assert "goal: some trials can have no acc_2x: standard: the weight `position`" in told
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
        ("1", "must be above 1 and at most 100"),
        ("0.5", "must be above 1"),
        ("101", "at most 100"),
        ("1.23456789", "at most six digits"),
        ("2, 2.0", "listed twice"),
        ("far", "must be a valid number"),
    ],
)
def test_what_is_no_length_is_refused(factor: str, why: str) -> None:
    assert why in refused(f"lengths=[{factor}]")


def test_lengths_are_a_list() -> None:
    assert "write a list, such as [1.5, 2]" in refused("lengths=2")
    assert json_schema()["properties"]["lengths"]["items"]["exclusiveMinimum"] == 1


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("own.py:Named", "has a field score_lengths"),
        ("own.py:Scoring", "has a metric acc_2x, the name of a score at another length"),
        ("own.py:Silent", "it reports neither acc nor loss"),
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


def test_rows_of_a_plan_fit_the_store() -> None:
    found: list[Trial] = list(planned("lengths=[1.5, 2]").trials)
    assert json.loads(str(found[0].row()["score_lengths"])) == [1.5, 2]
