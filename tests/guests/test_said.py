"""What other people's files and grids are told before anything runs: each situation, and what must
be said."""

import json
import re
from pathlib import Path

import pytest
from shell import SharedShell, Shell

import sweepd

LOOP = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Loop:
    task = "guest"
    size_field = "n"
    metrics = {"acc": "up"}
    n: int = 2
    gamma: int | float | str | None = None
"""
MODEL = """
from dataclasses import dataclass
import torch
from torch import nn
from sweepd.models.base import Architecture

@dataclass(frozen=True)
class Mine(Architecture):
    def build(self, vocab, L, capacity, generator):
        return Net(vocab, self.d)

class Net(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.head = nn.Linear(d, vocab)
"""
OF_LOOP = "loop: {{name: '{}:Loop'}}\nseeds: [0]\n"
OF_MODEL = "task: {name: lis, n: 2, value_range: 64}\nmodel: {name: 'mine.py:Mine', d: 4}\n"
SHIPPED = OF_MODEL.replace("'mine.py:Mine'", "linear, heads: 1")
PLANS: dict[str, tuple[dict[str, str], str]] = {
    "a helper with the name of an installed module": (
        {
            "mine.py": "from wave import GAIN\n" + LOOP,
            "wave.py": "GAIN = 1\n",
            "grid.yaml": OF_LOOP.format("mine.py"),
        },
        r"mine.py: `import wave` would not read .*wave.py.* is installed .*; rename the file",
    ),
    "a file with the name of a library, beside which it is": (
        {
            "mine.py": "from wave_of_mine.parts import GAIN\n" + LOOP,
            "wave_of_mine.py": "GAIN = 1\n",
            "grid.yaml": OF_LOOP.format("mine.py"),
        },
        r"mine.py:1: .*'wave_of_mine' is not a package; a file beside yours .*: rename it",
    ),
    "a relative import": (
        {
            "mine.py": "from .helper import GAIN\n" + LOOP,
            "helper.py": "GAIN = 1\n",
            "grid.yaml": OF_LOOP.format("mine.py"),
        },
        "mine.py:1: .* is in no package: write `from helper import …`",
    ),
    "a module that is not on the path": (
        {"mine.py": LOOP, "grid.yaml": OF_LOOP.format("mine")},
        "there is no module mine; write mine.py:…, or put the folder that has mine into PYTHONPATH",
    ),
    "a model without its base class": (
        {"mine.py": MODEL.replace("(Architecture)", ""), "grid.yaml": OF_MODEL},
        r"mine.py:\d+: Mine is no model: write `from .*base import Architecture`",
    ),
    "routing by numbers": (
        {
            "mine.py": MODEL + "    def forward(self, x):\n"
            "        y = self.embedding(x)\n"
            "        return self.head(y / 2 if y.max().item() > 9 else y)\n",
            "grid.yaml": OF_MODEL,
        },
        r"mine.py:19: Mine cannot be counted .*; give it parts and kept_floats",
    ),
    "a layer without a size": (
        {
            "mine.py": MODEL.replace("nn.Linear(d, vocab)", "nn.LazyLinear(vocab)"),
            "grid.yaml": OF_MODEL,
        },
        "uninitialized parameter.*; say how large each layer is",
    ),
    "lists in an axis": (
        {"grid.yaml": SHIPPED.replace("n: 2", "n: [[2, 3], [4]]")},
        r"task.n\[0\]: a list inside an axis; .*: write each list as a text",
    ),
    "Ray Tune's grid_search": (
        {"grid.yaml": SHIPPED.replace("n: 2", "n: {grid_search: [2, 3]}")},
        r"task.n: .*; an axis is a list alone: \[2, 3\]",
    ),
    "the same for a field that may be a mapping": (
        {"grid.yaml": SHIPPED + "train: {lr: {values: [0.1, 0.2]}}\n"},
        r"train.lr: .*; an axis is a list alone: \[0.1, 0.2\], or a mapping of base",
    ),
}


@pytest.mark.parametrize("situation", PLANS)
def test_a_plan_says(situation: str, tmp_path: Path) -> None:
    files, said = PLANS[situation]
    shell = SharedShell(tmp_path)
    for name, text in files.items():
        shell.write(name, text)
    told = shell.run("plan", "grid.yaml", exits=2).stderr
    assert re.search(said, told) and max(map(len, told.splitlines())) < 500, told


def test_a_plan_from_python_sees_what_was_edited(tmp_path: Path) -> None:
    shell = SharedShell(tmp_path)
    counts = "    steps: int = 1\n\n    def start(self, seed, device): ...\n"
    counts += "    def cost(self):\n        return {'train_flops': COUNT}\n"
    shell.write("mine.py", "from helper_of_mine import COUNT\n" + LOOP + counts)
    shell.write("helper_of_mine.py", "from parts_of_mine.count import COUNT\n")
    (tmp_path / "parts_of_mine").mkdir()
    grid = shell.write("grid.yaml", OF_LOOP.format("mine.py"))
    for edited in (11, 22):  # within a second, and of one size
        shell.write("parts_of_mine/count.py", f"COUNT = {edited}\n")
        assert sweepd.plan(grid, results=tmp_path / "results").expected.train_flops == edited


def test_what_code_says_stands_in_no_data(tmp_path: Path) -> None:
    """It may print in any way, where it is imported and where it is asked, and go elsewhere."""
    shell = Shell(tmp_path)
    loud = "import os, sys\nos.write(1, b'raw')\nos.system('echo child')\n"
    loud += "sys.__stdout__.write('own')\nos.chdir('/')\nsys.argv = []\n"
    asked = "    steps: int = 1\n\n    def start(self, seed, device): ...\n"
    asked += "    def __post_init__(self): print('made')\n"
    asked += "    def cost(self):\n        print('cost')\n        return {}\n"
    shell.write("mine.py", loud + LOOP + asked)
    shell.write("grid.yaml", OF_LOOP.format("mine.py"))
    done = shell.run("plan", "grid.yaml", "--json", "--results", "results")
    assert [row["trials"] for row in json.loads(done.stdout)] == [1]
    assert all(word in done.stderr for word in ("raw", "child", "own", "made", "cost"))


def test_a_launch_without_docstrings(tmp_path: Path) -> None:
    shell = Shell(tmp_path, environment={"PYTHONOPTIMIZE": "2"})
    shell.write("grid.yaml", SHIPPED)
    assert "PYTHONOPTIMIZE=2" in shell.run("launch", "grid.yaml", "--yes", exits=3).stderr
