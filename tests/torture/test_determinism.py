"""Every model on every task under every schedule, with dropout, on one machine with one thread of
its CPU. A trial that runs twice gives bitwise the same metrics and endings. So does one that is cut
off at random steps and continued.

The trials run without Ray; `test_whole_program.py` has the rest.
"""

import random
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torture.survival import outcome

from sweepd.grid.plan import plan
from sweepd.grid.registry import shipped
from sweepd.grid.settings import Schedule
from sweepd.grid.spec import parse_grid
from sweepd.grid.trials import Trial
from sweepd.store.store import Store
from sweepd.trial.attempt import Attempt

SMALL = {  # others are small by themselves
    "lis": "n: 4",
    "edit_distance": "n: 4",
    "ed_local": "n: 4",
    "arithmetic": "operators: 2",
    "equation": "unknowns: 2",
    "fixed_memory": "length: 16, longest: 8",
    "adaptive_memory": "length: 16, longest: 8",
    "sparse_memory": "length: 16",
}
GRID = """
task: {{name: {task}, {small}}}
model: {{name: {model}, d: 8, layers: 2, heads: 2, dropout: 0.1}}
train: {{steps: 24, batch_size: 4, warmup: 4, decay: 0.4, schedule: {schedule}}}
evaluate: {{check_every: 8, check_samples: 8, verdict_samples: 16}}
seeds: [7]
goal: loss < 1
"""
TASKS, MODELS = ([entry.name for entry in shipped(kind)] for kind in ("task", "model"))


def run(folder: Path, trial: Trial, cuts: list[int]) -> tuple[Any, ...]:
    """Attempts that end at these steps, and a last one. Each finds torch's own generator in
    another state, as it would in another process."""
    torch.set_num_threads(1)
    store = Store.create(str(folder))
    for number, cut in enumerate([*cuts, trial.train.steps]):
        torch.manual_seed(random.randrange(2**32))
        attempt = Attempt(store, trial, 1000 + number, "s", Path(), "cpu", 1e9)
        attempt.begin()
        assert attempt.training, attempt.report()
        while attempt.status is None and attempt.training.step < cut:
            attempt.advance(0.0)
        attempt.interrupt()
    assert attempt.status == "completed", attempt.report()
    return outcome(folder)


@pytest.mark.parametrize("schedule", get_args(Schedule))
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("task", TASKS)
def test_twice_and_cut_off_are_the_same(
    tmp_path: Path, task: str, model: str, schedule: str
) -> None:
    text = GRID.format(task=task, small=SMALL.get(task, ""), model=model, schedule=schedule)
    [trial] = plan(parse_grid(text, "grid.yaml", [], Path())).trials
    whole = run(tmp_path / "whole", trial, [])
    assert len(whole[0]) == 5 and len(whole[1]) == 1
    assert run(tmp_path / "again", trial, []) == whole
    cuts = sorted(random.Random(f"{task}{model}{schedule}").sample(range(1, 24), k=3))
    assert run(tmp_path / "cut", trial, cuts) == whole
