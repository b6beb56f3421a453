"""What is wrong with a user's class that training would not show: each mistake is found, by name,
with its line; and what is right, every task and model of ours among it, passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweepd.grid import registry
from sweepd.grid.plan import Trial, plan
from sweepd.grid.spec import parse_grid
from sweepd.trial.inspection import Raised, Subject, inspect, model_faults, task_faults

GRID = """
name: a
task: {name: TASK, n: 6, value_range: 16}
model: {name: MODEL, d: 8, layers: 1, heads: 2}
"""

MODEL = """
from dataclasses import dataclass
import numpy as np
import torch
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Net(Standard):
"""

TASK = """
import random
import numpy as np
from dataclasses import dataclass
from sweepd.tasks.base import Batch, Chains, Split
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Problem(LIS):
"""

MODELS = {
    "looks ahead": (
        """
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        class Peeking(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model
            def forward(self, ids):
                out = self.inner(ids)
                return out + 0.1 * out.roll(-1, 1)
            def prefill(self, *given):
                return self.inner.prefill(*given)
            def step(self, *given):
                return self.inner.step(*given)
        return Peeking()
""",
        "is not causal: changing token 14 changed the output at position 13",
    ),
    "mean over all": (
        """
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        forward = model.logits
        model.logits = lambda x: forward(x + 0.05 * x.mean(-2, keepdim=True) * (x.dim() == 3))
        return model
""",
        "is not causal",
    ),
    "leak behind a zero": (
        """
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        model.gate = torch.nn.Parameter(torch.zeros(1))
        forward = model.logits
        model.logits = lambda x: forward(x + model.gate * x.mean(-2, keepdim=True))
        return model
""",
        "is not causal",
    ),
    "forgetful step": (
        """
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        step = model.step
        def forgetful(tokens, state):
            state.memories = [tuple(map(torch.zeros_like, kept)) for kept in state.memories]
            return step(tokens, state)
        model.step = forgetful
        return model
""",
        "decodes otherwise than it trains: after `prefill` of",
    ),
    "weights of their own": (
        """
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        model.head.bias.data.copy_(torch.from_numpy(np.random.randn(vocab)))
        return model
""",
        "starts with other weights for the same seed (head.bias)",
    ),
    "noise in evaluation": (
        """
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        forward = model.logits
        model.logits = lambda x: forward(x + torch.randn_like(x))
        return model
""",
        "gives other outputs for the same row, in evaluation",
    ),
    "one output too many": (
        """
    def build(self, vocab, L, capacity, generator):
        return super().build(vocab + 1, L, capacity, generator)
""",
        "gives outputs of shape",
    ),
}

TASKS = {
    "numpy's generator": (
        """
    def fill(self, rng, tokens):
        super().fill(np.random.default_rng(np.random.randint(9)), tokens)
""",
        "draws from the global generator of numpy's (np.random.…)",
    ),
    "python's generator": (
        """
    def fill(self, rng, tokens):
        super().fill(np.random.default_rng(random.randrange(99)), tokens)
""",
        "draws from the global generator of Python's (random.…)",
    ),
    "the system's generator": (
        """
    def fill(self, rng, tokens):
        super().fill(np.random.default_rng(), tokens)
""",
        "draws from something other than `rng`",
    ),
    "no generator": (
        """
    def sample(self, rng, count, split):
        return super().sample(np.random.default_rng(3), count, split)
""",
        "gives the same rows for every seed",
    ),
    "id too large": (
        """
    def batch(self, rng, count, split):
        batch = super().batch(rng, count, split)
        return Batch(np.where(batch.inputs == 5, 99, batch.inputs), batch.targets)
""",
        "gives inputs with the id 99 at position",
    ),
    "another ignore": (
        """
    def batch(self, rng, count, split):
        batch = super().batch(rng, count, split)
        return Batch(batch.inputs, np.where(batch.targets == -1, -100, batch.targets))
""",
        "or IGNORE = -1 without a target",
    ),
    "one target too few": (
        """
    def batch(self, rng, count, split):
        batch = super().batch(rng, count, split)
        return Batch(batch.inputs, batch.targets[:, 1:])
""",
        "gives rows that cannot be used",
    ),
    "short ids": (
        """
    def batch(self, rng, count, split):
        batch = super().batch(rng, count, split)
        return Batch(batch.inputs, batch.targets.astype(np.int32))
""",
        "gives targets of type int32",
    ),
    "one split": (
        """
    def sample(self, rng, count, split):
        return super().sample(rng, count, Split.TRAIN)
""",
        "gives the same inputs in training, checks and tests",
    ),
    "no batch": (
        """
    def batch(self, rng, count, split):
        return None
""",
        "gives NoneType and Chains where a Batch",
    ),
}


def trial_of(folder: Path, task: str = "lis", model: str = "standard", *sets: str) -> Trial:
    text = GRID.replace("TASK", task).replace("MODEL", model)
    return plan(parse_grid(text, "grid.yaml", sets, folder)).trials[0]


@pytest.mark.parametrize("mistake", MODELS)
def test_what_is_wrong_with_a_model(tmp_path: Path, mistake: str) -> None:
    body, told = MODELS[mistake]
    (tmp_path / "v1.py").write_text(MODEL + body)
    [fault] = inspect("model", trial_of(tmp_path, model="v1.py:Net"), tmp_path)
    assert told in fault
    assert fault.startswith(f"{tmp_path / 'v1.py'}:") and " v1.py:Net " in fault


@pytest.mark.parametrize("mistake", TASKS)
def test_what_is_wrong_with_a_task(tmp_path: Path, mistake: str) -> None:
    body, told = TASKS[mistake]
    (tmp_path / "mine.py").write_text(TASK + body)
    few = "task.value_range=5", "task.n=4"  # or no input would be drawn twice
    found = inspect("task", trial_of(tmp_path, "mine.py:Problem", "standard", *few), tmp_path)
    assert len(found) >= 1 and told in found[0]
    assert found[0].startswith(f"{tmp_path / 'mine.py'}:")


def test_a_global_generator_is_shown_by_its_line(tmp_path: Path) -> None:
    body, _ = TASKS["python's generator"]
    text = TASK + body
    (tmp_path / "mine.py").write_text(text)
    [fault] = inspect("task", trial_of(tmp_path, "mine.py:Problem"), tmp_path)
    [line] = [i for i, line in enumerate(text.splitlines(), 1) if "randrange" in line]
    assert fault.startswith(f"{tmp_path / 'mine.py'}:{line}: ")


def test_what_raises_is_left_to_its_trials(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TASK + "    def fill(self, rng, tokens):\n        1 / 0\n")
    with pytest.raises(Raised, match="ZeroDivisionError: division by zero"):
        inspect("task", trial_of(tmp_path, "mine.py:Problem"), tmp_path)


PLAIN = """
from dataclasses import dataclass
import torch
from sweepd.models.base import Architecture

class Recurrent(torch.nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.embedding, self.head = torch.nn.Embedding(vocab, d), torch.nn.Linear(d, vocab)
        self.memory = torch.nn.GRU(d, d, batch_first=True, bidirectional=BOTH)

    def forward(self, ids):
        read = self.memory(self.embedding(ids))[0]
        forth_and_back = read.unflatten(-1, (-1, self.head.in_features))
        return self.head(forth_and_back.sum(-2))

@dataclass(frozen=True)
class Net(Architecture):
    def build(self, vocab, L, capacity, generator):
        return Recurrent(vocab, self.d)  # whose layers draw from torch's own generator
"""


@pytest.mark.parametrize("both", [False, True])
def test_a_plain_module_without_prefill_and_step(tmp_path: Path, both: bool) -> None:
    """Passes, unless it reads its rows from both ends."""
    (tmp_path / "v1.py").write_text(PLAIN.replace("BOTH", str(both)))
    trial = trial_of(tmp_path, "lis", "standard", "model={name: v1.py:Net, d: 8}")
    found = inspect("model", trial, tmp_path)
    assert ["is not causal" in fault for fault in found] == [True] * both


SMALL = {"d": 8, "layers": 2, "heads": 2}


@pytest.mark.parametrize("task", [entry.name for entry in registry.shipped_tasks()])
def test_our_tasks_pass(task: str) -> None:
    found = registry.find_task(task, Path())
    required = {
        name: 6
        for name, field in registry.parameters(found).items()
        if field.default is registry.REQUIRED
    }
    assert list(task_faults(Subject(task, found), found(**required))) == []


@pytest.mark.parametrize("task", ["lis", "sparse_memory", "adaptive_memory"])
@pytest.mark.parametrize("model", [entry.name for entry in registry.shipped_models()])
def test_our_models_pass(model: str, task: str) -> None:
    kind = registry.find_task(task, Path())
    problem = kind(values="reals") if task == "adaptive_memory" else kind()  # type: ignore[call-arg]
    found = registry.find_model(model, Path())
    assert list(model_faults(Subject(model, found), found(**SMALL), problem)) == []
