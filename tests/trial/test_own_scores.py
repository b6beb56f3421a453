"""What a task of the user's own says of its scores: `right`, which decides `acc`, and `scores`,
which gives its own metrics. They are read where samples are scored, and are stored in the trial's
rows. What is wrong with them is told with its line. Covers `trial/user_values.py`."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faults import Runs
from mistakes import TASK
from torch import Tensor, nn

from sweepd.grid import registry
from sweepd.grid.plan import plan
from sweepd.grid.spec import parse_grid
from sweepd.grid.yamlfile import GridError
from sweepd.store.store import Store
from sweepd.tasks.base import Batch
from sweepd.trial.evaluation import Score, evaluate
from sweepd.trial.user_values import Unusable

ROWS = """
from dataclasses import dataclass
import numpy as np
from sweepd.tasks.base import RowTask

@dataclass(frozen=True)
class Copy(RowTask):
    n: int = 4
    size_field, length = "n", property(lambda self: self.n)
    metrics = {"acc": "up", "loss": "down", "far": "down"}
    vocab = ("0", "1", "2")

    def draw(self, rng):
        words = [str(i) for i in rng.integers(3, size=self.n)]
        return words, [None, *words[1:]]

    def right(self, found, batch):
        return ((found == batch.targets) | ~batch.scored).all(axis=1)

    def scores(self, found, wanted):
        return {"far": np.abs(found - wanted.targets)[wanted.scored].mean()}
"""
FAR = "np.abs(found - wanted.targets)[wanted.scored].mean()"
REALS = """
from dataclasses import dataclass
import numpy as np
from sweepd.tasks.base import RowTask

@dataclass(frozen=True)
class Double(RowTask):
    n: int = 4
    size_field, length, vocab = "n", property(lambda self: self.n), ()
    metrics = {"acc": "up", "loss": "down"}

    def draw(self, rng):
        numbers = rng.normal(size=self.n)
        return list(numbers), list(2 * numbers)

    def right(self, found, batch):
        return np.abs(found - batch.targets) < 0.5
"""
CHAINS = (
    TASK
    + """
    metrics = {"acc": "up", "chain_acc": "up", "loss": "down", "ones": "up"}

    def scores(self, found, wanted):
        assert all(answer in (["0"], ["1"]) for answer in wanted)
        return {"ones": sum(answer == ["1"] for answer in found) / len(found)}
"""
)
GRID = """
task: {name: task.py:NAME, n: 4}
model: {name: standard, d: 4, layers: 1, heads: 1}
train: {steps: 4, batch_size: 8, warmup: 0}
evaluate: {check_every: 2, check_samples: 16, verdict_samples: 16}
"""


class Shifted(nn.Module):
    """Gives each input back, or, in its first `wrong` rows, its successor."""

    def __init__(self, wrong: int, words: int) -> None:
        super().__init__()
        self.wrong, self.words = wrong, words
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, ids: Tensor) -> Tensor:
        given = ids.clone()
        given[: self.wrong] = (ids[: self.wrong] + 1) % self.words
        return nn.functional.one_hot(given, self.words).float()


class Twice(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        return (self.factor * x)[..., None]


def task_of(folder: Path, text: str, name: str) -> Any:
    (folder / "task.py").write_text(text)
    return registry.find("task", f"task.py:{name}", folder)()


def scored(task: Any, model: nn.Module, rows: list[list[int]]) -> Score:
    inputs = np.array(rows)
    targets = inputs.copy()
    targets[:, 0] = -1
    return evaluate(model, task, Batch(inputs, targets))


def test_rows_that_count_as_a_whole(tmp_path: Path) -> None:
    """One of three rows is wrong in all of its three targets."""
    task = task_of(tmp_path, ROWS, "Copy")
    score = scored(task, Shifted(1, 3), [[0, 1, 1, 1], [0, 1, 1, 2], [0, 1, 1, 1]])
    assert (score.correct, score.total, score.acc) == (2, 3, 2 / 3)
    assert score.own == {"far": 3 / 9} and score.columns()["far"] == 3 / 9
    assert score.columns()["acc_at"] == "[null, 0.6667, 0.6667, 0.6667]"
    assert score.commonest == 2 / 3  # always 1: the rows that hold nothing else


def test_without_right_each_target_counts(tmp_path: Path) -> None:
    text = ROWS.replace("def right", "def unread")
    score = scored(task_of(tmp_path, text, "Copy"), Shifted(1, 3), [[0, 1, 1, 1], [0, 2, 1, 2]])
    assert (score.correct, score.total, score.commonest) == (3, 6, 4 / 6)


def test_real_numbers_may_be_right_within_bounds(tmp_path: Path) -> None:
    task = task_of(tmp_path, REALS, "Double")
    inputs = np.array([[0.1, 1.0], [0.2, 3.0]], np.float32)
    score = evaluate(Twice(1.8), task, Batch(inputs, 2 * inputs))
    assert (score.correct, score.total, score.commonest) == (3, 4, None)
    assert score.columns()["acc_at"] == "[1.0, 0.5]"


def ending_of(folder: Path, text: str, name: str) -> tuple[dict[str, Any], Store]:
    (folder / "task.py").write_text(text)
    runs = Runs(folder, GRID.replace("NAME", name))
    return runs.run(), runs.store


@pytest.mark.parametrize(
    ("text", "name", "metric"), [(ROWS, "Copy", "far"), (CHAINS, "Mine", "ones")]
)
def test_a_trial_stores_them_with_its_checks_and_its_end(
    tmp_path: Path, text: str, name: str, metric: str
) -> None:
    ending, store = ending_of(tmp_path, text, name)
    assert ending["status"] == "completed" and math.isfinite(ending[metric])
    rows = {row["step"]: row for row in store.read_metrics().table.to_pylist()}
    assert set(rows) == {2, 4} and rows[4][metric] == ending[metric]
    assert rows[2][metric] is not None
    assert f"{metric} {ending[metric]:.4f}" in store.read_log(ending["id"])


@pytest.mark.parametrize("value", ["float('nan')", "np.inf"])
def test_what_is_no_finite_number_is_a_fail_that_says_where(tmp_path: Path, value: str) -> None:
    text = ROWS.replace(FAR, value)
    ending, _ = ending_of(tmp_path, text, "Copy")
    assert (ending["status"], ending["step"]) == ("diverged", 2)
    line = next(i for i, row in enumerate(text.splitlines(), 1) if "def scores" in row)
    assert ending["error"].startswith(f"{tmp_path}/task.py:{line}: Copy.scores reported far = ")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('{"far": FAR}', "FAR", "it must return a mapping of its metrics (far)"),
        (".all(axis=1)", ".all()", "it must return an array of bool, (2, 4) or (2,)"),
        (".all(axis=1)", ".sum(axis=1)", "it must return an array of bool, (2, 4) or (2,)"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, old: str, new: str, told: str) -> None:
    old, new = old.replace("FAR", FAR), new.replace("FAR", FAR)
    assert old in ROWS
    with pytest.raises(Unusable) as caught:
        task = task_of(tmp_path, ROWS.replace(old, new), "Copy")
        scored(task, Shifted(1, 3), [[0, 1, 1, 1], [0, 2, 1, 2]])
    assert told in str(caught.value) and str(caught.value).startswith(f"{tmp_path}/task.py:")


def test_its_trials_have_its_metrics(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(ROWS)
    made = plan(parse_grid(GRID.replace("NAME", "Copy") + "goal: far < 1", "g", [], tmp_path))
    assert made.metrics == {"far": "down"} and made.minimized == "d"
    assert made.trials[0].metrics == {"acc": "up", "chain_acc": "up", "loss": "down", "far": "down"}


@pytest.mark.parametrize(
    ("old", "new", "goal", "told"),
    [
        ('"far": "down"}', '"far": "low"}', "far < 1", "the metric far: 'low'; say 'up' if more"),
        ('{"acc": "up", "loss": "down", "far": "down"}', '("acc", "far")', "far < 1",
         "do not say whether more of far is better; write a mapping, as {'far': 'up'}, or 'down'"),
        ('"far": "down"}', '"lr": "down"}', "lr < 1", "a metric lr, the name of a setting of the"),
        ("", "", "far > 1", "for task.py:Copy, less far is better; write far < 1"),
        ("", "", "near < 1", "task.py:Copy reports no near"),
    ],
)  # fmt: skip
def test_a_grid_that_is_refused(tmp_path: Path, old: str, new: str, goal: str, told: str) -> None:
    (tmp_path / "task.py").write_text(ROWS.replace(old, new))
    with pytest.raises(GridError) as caught:
        plan(parse_grid(GRID.replace("NAME", "Copy") + f"goal: {goal}", "g", [], tmp_path))
    assert told in str(caught.value)
