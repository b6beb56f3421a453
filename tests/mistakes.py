"""A user's task, model and training loop that are right, and the mistakes that people make in such
classes."""

from __future__ import annotations

from dataclasses import dataclass

MODEL = """\
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from sweepd.models.base import Architecture


@dataclass(frozen=True)
class Mine(Architecture):
    def build(self, vocab, L, capacity, generator):
        return Net(vocab, self.d)


class Net(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.memory = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, vocab)
        self.kept = None

    def forward(self, tokens):
        x = self.embedding(tokens)
        x, _ = self.memory(x)
        return self.head(x)
"""

TASK = """\
from dataclasses import dataclass

import numpy as np

from sweepd.tasks.base import SPECIALS, ChainTask, RowTask


@dataclass(frozen=True)
class Mine(ChainTask):
    n: int = 8

    size_field = "n"
    vocab = (*SPECIALS, "0", "1")

    @property
    def prompt_length(self):
        return self.n + 1

    def draw(self, rng):
        bits = rng.integers(2, size=self.n)
        return [str(bit) for bit in bits], "", str(bits.sum() % 2)
"""

LOOP = """\
import json
import random
import time
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Mine:
    n: int = 2
    steps: int = 5

    task = "walking"
    size_field = "n"
    metrics = {"acc": "up", "f1": "up"}

    def start(self, seed, device):
        return Walk(seed)


class Walk:
    def __init__(self, seed):
        self.random, self.at = random.Random(seed), 0.0

    def advance(self):
        self.at += self.random.random() / 10
        return {"acc": 0.5, "f1": self.at}

    def save(self):
        return json.dumps([self.at, self.random.getstate()]).encode()

    def load(self, data):
        self.at, state = json.loads(data)
        self.random.setstate((state[0], tuple(state[1]), state[2]))
"""


@dataclass(frozen=True)
class Mistake:
    """`old` in the right text becomes `new`. at: a text in the line that is named. check: which one
    says it; "" where the class is refused before. What is said stands in docs/check.md."""

    old: str
    new: str
    at: str
    check: str = ""

    def made_in(self, text: str) -> str:
        assert text.count(self.old) == 1
        return text.replace(self.old, self.new)

    def line(self, text: str) -> int:
        """The line that is to be named, in the text with the mistake."""
        return next(i for i, line in enumerate(text.splitlines(), 1) if self.at in line)


_KEPT = "self.kept = None"
_MEMORY = "x, _ = self.memory(x)"
_HEAD = "return self.head(x)"
_SIZE = '    size_field = "n"'
_SUM = "str(bits.sum() % 2)"
IN_MODELS = {
    "a layer of torch's that takes time first": Mistake(
        "batch_first=True", "", "def forward", "rows apart"
    ),
    "a layer that reads from both ends": Mistake(
        "self.memory = nn.GRU(d, d, batch_first=True)",
        "self.memory = nn.GRU(d, d // 2, batch_first=True, bidirectional=True)",
        "def forward",
        "causal",
    ),
    "outputs as wide as the embedding": Mistake(
        "nn.Linear(d, vocab)", "nn.Linear(d, d)", "def forward", "outputs"
    ),
    "an embedding with too few rows": Mistake(
        "nn.Embedding(vocab, d)", "nn.Embedding(3, d)", "self.embedding(tokens)", "outputs"
    ),
    "layers whose sizes do not fit": Mistake(
        "nn.Linear(d, vocab)", "nn.Linear(2 * d, vocab)", "self.head(x)", "outputs"
    ),
    "layers in a Python list": Mistake(
        _KEPT, "self.layers = [nn.Linear(d, d)]", "def __init__", "weights"
    ),
    "first weights from numpy": Mistake(
        _KEPT,
        "self.head.bias.data.copy_(torch.from_numpy(np.random.randn(vocab)))",
        "def build",
        "weights",
    ),
    "a seed of its own in `build`": Mistake(
        "return Net(vocab, self.d)",
        "torch.manual_seed(0); return Net(vocab, self.d)",
        "def build",
        "weights",
    ),
    "an input that is written to": Mistake(
        "x = self.embedding(tokens)",
        "tokens[:, 1:] = 0; x = self.embedding(tokens)",
        "def forward",
        "outputs",
    ),
    "`super().__init__()` forgotten": Mistake(
        "super().__init__()", "pass", "nn.Embedding", "weights"
    ),
    "`build` with other parameters": Mistake(
        "def build(self, vocab, L, capacity, generator)",
        "def build(self, vocab)",
        "def build",
        "weights",
    ),
    "a state kept from call to call": Mistake(
        _MEMORY, "x, self.kept = self.memory(x, self.kept)", "def forward", "repeats"
    ),
    "dropout that is always on": Mistake(
        _HEAD, "return self.head(F.dropout(x, 0.1))", "def forward", "repeats"
    ),
    "a softmax at the end": Mistake(
        _HEAD, "return self.head(x).softmax(-1)", "def forward", "outputs"
    ),
    "more than the outputs returned": Mistake(
        _HEAD, "return self.head(x), _", "def forward", "outputs"
    ),
    "the logarithm of a negative number": Mistake(
        _HEAD, "return self.head(x).log()", "def forward", "outputs"
    ),
    "`step` that forgets": Mistake(
        "    def forward(self, tokens):",
        "    def prefill(self, tokens, lengths):\n"
        "        return lengths\n"
        "\n"
        "    def step(self, tokens, state):\n"
        "        return self.forward(tokens[:, None])[:, 0]\n"
        "\n"
        "    def forward(self, tokens):",
        "def step",
        "decoding",
    ),
    "a state counted by hand, and wrongly": Mistake(
        "@dataclass(frozen=True)\n"
        "class Mine(Architecture):\n"
        "    def build(self, vocab, L, capacity, generator):\n"
        "        return Net(vocab, self.d)\n",
        "from sweepd.models.lstm import Lstm\n"
        "\n"
        "\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Lstm):\n"
        "    def state_bytes(self, vocab, L):\n"
        "        return 16 * super().state_bytes(vocab, L)\n",
        "def state_bytes",
        "state",
    ),
    "FLOPs counted by hand, and wrongly": Mistake(
        "class Net(nn.Module):",
        "    def parts(self, vocab, L):\n"
        "        from sweepd.models.base import Part\n"
        '        return [Part("all", 100, 100)]\n'
        "\n"
        "\n"
        "class Net(nn.Module):",
        "def parts",
        "cost",
    ),
    "a gradient that is cut": Mistake(
        _MEMORY, "x, _ = self.memory(x)\n        x = x.detach()", "def forward", "training"
    ),
    "a layer that `forward` does not use": Mistake(
        _KEPT, "self.spare = nn.Linear(d, d)", "def forward", "training"
    ),
    "a complex weight": Mistake(
        _KEPT,
        "self.phase = nn.Parameter(torch.ones(d, dtype=torch.cfloat))",
        "def __init__",
        "weights",
    ),
    "a layer without a size": Mistake(
        "nn.Linear(d, vocab)", "nn.LazyLinear(vocab)", "def __init__", "weights"
    ),
    "sparse gradients": Mistake(
        "nn.Embedding(vocab, d)", "nn.Embedding(vocab, d, sparse=True)", "def forward", "training"
    ),
    "a running value that no checkpoint holds": Mistake(
        _MEMORY,
        "if self.training:\n"
        "            self.kept = (self.kept or 0) + 1\n"
        "            x = x * self.kept\n"
        "        x, _ = self.memory(x)",
        "def forward",
        "checkpoint",
    ),
    "a buffer that no checkpoint holds": Mistake(
        _MEMORY,
        "if self.training:\n"
        "            self.kept = (self.kept or 0) + 1\n"
        "            if self.kept % 10 == 1:\n"
        "                noise = torch.randn(8) if self.kept > 1 else torch.zeros(8)\n"
        "                self.register_buffer('noise', noise, persistent=False)\n"
        "            x = x + self.noise\n"
        "        x, _ = self.memory(x)",
        "def forward",
        "checkpoint",
    ),
    "a count that no checkpoint holds": Mistake(
        _MEMORY,
        "self.kept = (self.kept or 0) + self.training\n        x, _ = self.memory(x)",
        "def forward",
        "checkpoint",
    ),
    "numpy's noise in training": Mistake(
        _MEMORY,
        "x, _ = self.memory(x)\n"
        "        if self.training:\n"
        "            x = x * float(np.random.rand())",
        "def forward",
        "checkpoint",
    ),
}

IN_TASKS = {
    "numpy's global generator": Mistake(
        "rng.integers(2, size=self.n)", "np.random.randint(2, size=self.n)", "def draw", "seeds"
    ),
    "a generator of its own": Mistake(
        "rng.integers(2, size=self.n)",
        "np.random.default_rng().integers(2, size=self.n)",
        "def draw",
        "seeds",
    ),
    "a word that `vocab` lacks": Mistake(_SUM, "str(bits.sum())", "def draw", "rows"),
    "a number as the answer": Mistake(_SUM, "int(bits.sum() % 2)", "def draw", "rows"),
    "a number where a word is needed": Mistake(
        "[str(bit) for bit in bits]", "list(bits)", "def draw", "rows"
    ),
    "`prompt_length` without the separator": Mistake(
        "return self.n + 1", "return self.n", "def draw", "rows"
    ),
    "`vocab` without SPECIALS": Mistake(
        '(*SPECIALS, "0", "1")', '("0", "1", "a", "b", "c")', "class Mine", "rows"
    ),
    "two parts where three are needed": Mistake(
        '[str(bit) for bit in bits], "", str(bits.sum() % 2)',
        "[str(bit) for bit in bits], str(bits.sum() % 2)",
        "def draw",
        "rows",
    ),
    "always the same answer": Mistake(_SUM, '"1"', "def draw", "answers"),
    "always the same problem": Mistake(
        "bits = rng.integers(2, size=self.n)", "bits = np.ones(self.n, int)", "def draw", "rows"
    ),
    "the splits ignored": Mistake(
        "    def draw(self, rng):",
        "    def sample(self, rng, count, split):\n"
        "        from sweepd.tasks.base import Split\n"
        "        return super().sample(rng, count, Split.TRAIN)\n"
        "\n"
        "    def draw(self, rng):",
        "def sample",
        "splits",
    ),
}

IN_SCORES = {
    "a metric of one's own that nothing reports": Mistake(
        _SIZE, '    metrics = {"acc": "up", "far": "down"}\n    size_field = "n"', "class Mine"
    ),
    "a wrong name in `scores`": Mistake(
        _SIZE,
        '    metrics = {"acc": "up", "far": "down"}\n'
        '    size_field = "n"\n'
        "\n"
        "    def scores(self, found, wanted):\n"
        '        return {"near": 0.0}',
        "def scores",
        "metrics",
    ),
    "random numbers in `scores`": Mistake(
        _SIZE,
        '    metrics = {"acc": "up", "far": "down"}\n'
        '    size_field = "n"\n'
        "\n"
        "    def scores(self, found, wanted):\n"
        '        return {"far": np.random.rand()}',
        "def scores",
        "metrics",
    ),
}

IN_CLASSES = {
    "no @dataclass(frozen=True)": Mistake(
        "@dataclass(frozen=True)\nclass Mine", "class Mine", "class Mine"
    ),
    "no `size_field`": Mistake('size_field = "n"\n', "\n", "class Mine"),
    "a field that is a list": Mistake(
        "n: int = 8", "n: int = 8\n    texts: list[str] = ()", "class Mine"
    ),
    "a field with the name of a method": Mistake(
        "n: int = 8", "n: int = 8\n    words: int = 16", "class Mine"
    ),
    "a type after `vocab`": Mistake("    vocab = (", "    vocab: tuple = (", "class Mine"),
    "a method that is missing": Mistake(
        "def prompt_length(self):", "def length_of_prompt(self):", "class Mine"
    ),
    "a field assigned in `__post_init__`": Mistake(
        _SIZE,
        '    def __post_init__(self):\n        self.half = self.n // 2\n\n    size_field = "n"',
        "self.half",
    ),
}

_ROW = 'return {"acc": 0.5, "f1": self.at}'
IN_LOOPS = {
    "a metric that `metrics` does not name": Mistake(
        _ROW, 'return {"acc": 0.5, "f1": self.at, "f2": 0.5}', "def advance", "rows"
    ),
    "a metric left out": Mistake(_ROW, 'return {"acc": 0.5}', "def advance", "rows"),
    "no row": Mistake(_ROW, "return self.at", "def advance", "rows"),
    "an end before the first row": Mistake(_ROW, "return None", "def advance", "rows"),
    "a text in place of a number": Mistake(
        _ROW, 'return {"acc": 0.5, "f1": f"{self.at:.2f}"}', "def advance", "rows"
    ),
    "a truth in place of a number": Mistake(
        _ROW, 'return {"acc": 0.5, "f1": torch.tensor(True)}', "def advance", "rows"
    ),
    "a number for each class": Mistake(
        _ROW, 'return {"acc": 0.5, "f1": torch.ones(3)}', "def advance", "rows"
    ),
    "percent in place of a share": Mistake(
        _ROW, 'return {"acc": 50, "f1": self.at}', "def advance", "rows"
    ),
    "a division of 0 by 0": Mistake(
        _ROW, 'return {"acc": 0.5, "f1": float(torch.tensor(0.0) / 0)}', "def advance", "rows"
    ),
    "a row of all weights": Mistake(
        _ROW, "return {f'weight{i}': 0.0 for i in range(100_000)}", "def advance", "rows"
    ),
    "an error in the training": Mistake(
        _ROW, 'return {"acc": 0.5, "f1": self.at / self.steps}', "self.at / self.steps", "rows"
    ),
    "a seed that is not used": Mistake(
        "random.Random(seed)", "random.Random(time.time_ns())", "def start", "seed"
    ),
    "the time in a row": Mistake(
        _ROW, 'return {"acc": 0.5, "f1": time.perf_counter()}', "def start", "seed"
    ),
    "`start` that trains at once": Mistake(
        "return Walk(seed)", "return Walk(seed).advance()", "def start", "rows"
    ),
    "`save` without `load`": Mistake("def load(", "def restore(", "def start", "rows"),
    "a budget that is no whole number": Mistake(
        "steps: int = 5", "steps: float = 5.0", "def start", "rows"
    ),
    "`start` with other parameters": Mistake(
        "def start(self, seed, device)", "def start(self, seed)", "def start", "rows"
    ),
    "`save` that gives no bytes": Mistake(
        "return json.dumps([self.at, self.random.getstate()]).encode()",
        "return [self.at, self.random.getstate()]",
        "def save",
        "rows",
    ),
    "`save` that forgets": Mistake(
        "[self.at, self.random.getstate()]",
        "[0.0, self.random.getstate()]",
        "def load",
        "checkpoint",
    ),
    "`save` that forgets what comes late": Mistake(
        "self.at, state = json.loads(data)",
        "at, state = json.loads(data)\n        self.at = min(at, 0.2)",
        "def load",
        "checkpoint",
    ),
    "a state that cannot be loaded": Mistake(
        "self.at, state = json.loads(data)",
        "self.at, state, more = json.loads(data)",
        "state, more",
        "checkpoint",
    ),
    "metrics without a direction": Mistake(
        'metrics = {"acc": "up", "f1": "up"}', 'metrics = ("acc", "f1")', "class Mine"
    ),
    "no metrics": Mistake('    metrics = {"acc": "up", "f1": "up"}', "", "class Mine"),
    "no `start`": Mistake("def start(", "def train(", "class Mine"),
}
