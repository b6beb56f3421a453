"""What is wrong with a user's class that training would not show. Each mistake is found, by name,
and with its file. Classes that are right pass, among them all our own tasks and models. More
mistakes, each with its line, are in `test_mistakes.py`. A program is ended after a row, and goes
on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import inprocess
import pytest
import torch
from mistakes import LOOP

from sweepd.check.cases import Finding, Wrong, cases_of
from sweepd.check.inspection import CHECKS, inspect
from sweepd.check.models import Network
from sweepd.grid import registry
from sweepd.grid.costs import costs
from sweepd.grid.registry import REQUIRED, parameters
from sweepd.grid.spec import parse_grid
from sweepd.models.standard import Standard
from sweepd.tasks.lis import LIS

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
import numpy as np
from dataclasses import dataclass
from sweepd.tasks.base import Batch, Chains, Split
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Problem(LIS):
"""

LEAK_BEHIND_A_ZERO = """
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        model.gate = torch.nn.Parameter(torch.zeros(1))
        forward = model.logits
        model.logits = lambda x: forward(x + model.gate * x.mean(-2, keepdim=True))
        return model
"""

DRAWN = """
    def METHOD(self, rng, count, split):
        batch = super().METHOD(rng, count, split)
        return """
TASKS = {
    "no generator": (
        "sample",
        "super().sample(np.random.default_rng(3), count, split)",
        "gives the same rows for every seed",
    ),
    "id too large": (
        "batch",
        "Batch(np.where(batch.inputs == 5, 99, batch.inputs), batch.targets)",
        "gives inputs with the id 99 at position",
    ),
    "another ignore": (
        "batch",
        "Batch(batch.inputs, np.where(batch.targets == -1, -100, batch.targets))",
        "or IGNORE = -1 without a target",
    ),
    "one target too few": (
        "batch",
        "Batch(batch.inputs, batch.targets[:, 1:])",
        "gives rows that cannot be used",
    ),
    "short ids": (
        "batch",
        "Batch(batch.inputs, batch.targets.astype(np.int32))",
        "gives targets of type int32",
    ),
    "no batch": ("batch", "None", "gives NoneType and Chains where a Batch"),
}


def faults(
    kind: str, folder: Path, *sets: str, task: str = "lis", model: str = "standard"
) -> list[str]:
    """What is wrong with the task or the model of a grid, in its smallest setting."""
    text = GRID.replace("TASK", task).replace("MODEL", model)
    cases = cases_of(parse_grid(text, "grid.yaml", sets, folder))
    case = next(case for case in cases if case.kind == kind)
    return [str(finding) for finding in inspect(case, folder) if not finding.ok]


@pytest.mark.parametrize("mistake", ["a leak behind a zero", *TASKS])
def test_what_is_wrong(tmp_path: Path, mistake: str) -> None:
    file = tmp_path / "mine.py"
    if mistake in TASKS:
        method, given, said = TASKS[mistake]
        file.write_text(TASK + DRAWN.replace("METHOD", method) + given)
        few = "task.value_range=5", "task.n=4"  # or no input would be drawn twice
        [fault] = faults("task", tmp_path, *few, task="mine.py:Problem")
    else:
        said = "is not causal"
        file.write_text(MODEL + LEAK_BEHIND_A_ZERO)
        [fault] = faults("model", tmp_path, model="mine.py:Net")
    assert said in fault
    assert fault.startswith(f"{file}:") and " mine.py:" in fault


SMALL = {"d": 8, "layers": 2, "heads": 2}


@pytest.mark.parametrize("task", [entry.name for entry in registry.shipped("task")])
def test_our_tasks_pass(task: str) -> None:
    found = registry.find("task", task, Path())
    required = {name: 6 for name, field in parameters(found).items() if field.default is REQUIRED}
    problem = found(**required)
    for check in CHECKS["task"].values():
        assert check(problem)


@pytest.mark.parametrize("task", ["lis", "adaptive_memory"])
@pytest.mark.parametrize("model", [entry.name for entry in registry.shipped("model")])
def test_our_models_pass(model: str, task: str) -> None:
    kind = registry.find("task", task, Path())
    problem = kind(values="reals") if task == "adaptive_memory" else kind()
    architecture = registry.find("model", model, Path())
    small = {name: value for name, value in SMALL.items() if name in parameters(architecture)}
    network = Network(architecture(**small), problem)
    with torch.no_grad():
        for check in CHECKS["model"].values():
            assert check(network)


@dataclass(frozen=True)
class Told(Standard):
    """States another number of bytes than its decoder keeps, which is 2dL floats a layer."""

    law: Literal["right", "once too large", "no values", "no growth", "none"] = "right"

    def state_bytes(self, vocab: int, L: int) -> int | None:  # type: ignore[override]
        right = super().state_bytes(vocab, L)
        floats = {"right": right, "once too large": right + 4, "no values": right // 2}
        return {**floats, "no growth": 4 * 2 * 8 * 19, "none": None}[self.law]


@pytest.mark.parametrize(
    ("law", "said"),
    [
        ("right", "1,216 bytes after 19 tokens, 2,432 bytes after 38 tokens, as stated"),
        ("once too large", "states 1,220 bytes .* after 19 tokens, and 1,216 are measured"),
        ("no values", "states 608 bytes .* after 19 tokens, and 1,216 are measured"),
        ("no growth", "states 1,216 bytes .* after 38 tokens, and 2,432 are measured"),
        ("none", "1,216 bytes after 19 tokens, 2,432 bytes after 38 tokens$"),
    ],
)
def test_a_state_is_measured(law: Any, said: str) -> None:
    """A model that states nothing gets what is measured, where results tell it too."""
    architecture = Told(8, layers=1, heads=2, law=law)
    network = Network(architecture, LIS(8))
    with torch.no_grad():
        assert CHECKS["model"]["weights"](network)
        if "states" in said:
            with pytest.raises(Wrong, match=said):
                CHECKS["model"]["state"](network)
        else:
            assert re.match(said, CHECKS["model"]["state"](network))
            assert costs(architecture, 7, 19, 20).state_bytes == 1216


def test_the_cases_of_a_grid(tmp_path: Path) -> None:
    """Each class is looked at in its smallest and its largest size, with the narrowest model. Each
    model is also looked at in a trial."""
    sets = "task.n=[6,4,9]", "model.d=[16,8]"
    grid = GRID.replace("TASK", "lis").replace("MODEL", "[standard, linear]")
    found = [
        (case.kind, case.name, case.extent, case.size, case.model["d"])
        for case in cases_of(parse_grid(grid, "grid.yaml", sets, tmp_path))
    ]
    ends = [("smallest", 4, 8), ("largest", 9, 8)]
    assert found == [
        *[("task", "lis", *end) for end in ends],
        *[("model", model, *end) for model in ("standard", "linear") for end in ends],
        *[("trial", model, "smallest", 4, 8) for model in ("standard", "linear")],
    ]


def test_a_mistake_in_large_sizes_alone(tmp_path: Path) -> None:
    """The model's table has 12 rows for positions, too few for the largest size."""
    body = """
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, min(capacity, 12), generator)
        return model
"""
    (tmp_path / "v1.py").write_text(MODEL + body)
    text = GRID.replace("TASK", "lis").replace("MODEL", "v1.py:Net")
    sets = "task.n=[2,6]", "model.positions=learned"
    cases = cases_of(parse_grid(text, "grid.yaml", sets, tmp_path))
    found = {case.extent: list(inspect(case, tmp_path)) for case in cases if case.kind == "model"}
    assert all(finding.ok for finding in found["smallest"])
    assert found["largest"][-1].raised and "room for 12" in found["largest"][-1].detail


def of_loop(folder: Path, *changes: tuple[str, str]) -> list[Finding]:
    """What is seen of the loop of `mistakes.py` with other texts in it."""
    text = LOOP
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.py").write_text(text)
    [case] = cases_of(parse_grid("loop: {name: mine.py:Mine}", "grid.yaml", [], folder))
    return list(inspect(case, folder))


ROW = 'return {"acc": 0.5, "f1": self.at}'


@pytest.mark.parametrize(("used", "remark"), [("seed", False), ("7", True)])
def test_a_seed_that_changes_nothing_is_remarked_on(
    tmp_path: Path, used: str, remark: bool
) -> None:
    findings = of_loop(tmp_path, ("random.Random(seed)", f"random.Random({used})"))
    [seed] = [finding for finding in findings if finding.check == "seed"]
    assert seed.ok and ("is `seed` used?" in seed.detail) == remark


KEEPS = """
        self.clock = time.time()
        self.means = [*getattr(self, "means", []), self.at]
        if not hasattr(self, "net"):
            self.net, self.adam = torch.nn.Linear(1, 1), None
            self.net.register_buffer("drawn", torch.zeros(1), persistent=False)
            self.adam = torch.optim.Adam(self.net.parameters())
        self.net.drawn += self.at
        self.net.weight.grad = self.net.weight.detach().clone()
        self.adam.step()
        """


def test_what_a_loop_keeps_and_does_not_save_is_remarked_on(tmp_path: Path) -> None:
    """Not what differs in any case, as a time does."""
    findings = of_loop(tmp_path, (ROW, KEEPS + ROW))
    [checkpoint] = [finding for finding in findings if finding.check == "checkpoint"]
    assert checkpoint.ok and "with another means, net, adam: is it needed?" in checkpoint.detail
    [checkpoint] = [finding for finding in of_loop(tmp_path) if finding.check == "checkpoint"]
    assert checkpoint.detail == "saved and loaded, it gives the same rows"


def test_what_a_loop_raises_is_told_apart(tmp_path: Path) -> None:
    [fault] = of_loop(tmp_path, (ROW, "1 / 0"))
    assert not fault.ok and fault.raised and "ZeroDivisionError" in fault.detail
    [fault] = of_loop(tmp_path, (ROW, "return {}"))
    assert not fault.ok and not fault.raised


def test_a_loop_that_ends_early_and_one_without_save_pass(tmp_path: Path) -> None:
    ends = ROW.replace("return", "return None if self.at > 0.1 else")
    for change in [(ROW, ends)], [("def save", "def keep"), ("def load", "def take")]:
        assert all(finding.ok for finding in of_loop(tmp_path, *change))


def test_the_first_row_of_a_slow_loop_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweepd.check.training.MOST_SECONDS", -1)
    assert all(finding.ok for finding in of_loop(tmp_path))
    [fault] = of_loop(tmp_path, ("0.5, ", "float('nan'), "))
    assert "reported acc = nan at step 1" in fault.detail


PROGRAM = """
import json, pathlib, sys, time
steps, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
state = folder / "state"
first = int(state.read_text()) if state.exists() else 0
for step in range(first + 20, steps + 1, 20):
    time.sleep({pause})
    print(json.dumps({{"step": step, {metric!r}: 0.5}}))
    (folder / "new").write_text(str(step))
    (folder / "new").replace(state)
    (folder / {mark!r}).write_text(str(step))
"""
PROGRAM_GRID = """
name: mine
loop:
  program: python train.py {steps} {dir}
  as: mine
  task: blobs
  metrics: {acc: up}
  files: [train.py]
  steps: 100
goal: acc > 0.7
"""


@pytest.mark.parametrize(
    ("pause", "mark", "metric", "code", "says"),
    [
        (0.4, "checkpoint", "acc", 0, ["✓ rows        step 20: acc 0.", "its next row is step 40"]),
        (0, "other", "acc", 0, ["it ended before it could be interrupted"]),
        (0, "checkpoint", "f1", 2, ["✗ rows        the row", "reported 'f1'"]),
    ],
)
def test_a_program_is_tried(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pause: float,
    mark: str,
    metric: str,
    code: int,
    says: list[str],
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(pause=pause, mark=mark, metric=metric))
    (tmp_path / "train.yaml").write_text(PROGRAM_GRID)
    monkeypatch.chdir(tmp_path)
    answer = inprocess.sweepd("check", "train.yaml")
    assert answer.code == code, answer.err
    assert all(text in answer.out for text in says), answer.out
