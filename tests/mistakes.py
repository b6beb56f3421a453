"""A user's task, model and training loop that are right, and the mistakes that people make in such
classes."""

from dataclasses import dataclass
from functools import partial

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


in_model = partial(Mistake, at="def forward", check="outputs")
in_build = partial(Mistake, at="def build", check="weights")
in_init = partial(Mistake, at="def __init__", check="weights")
in_task = partial(Mistake, at="def draw", check="rows")
in_scores = partial(Mistake, at="def scores", check="metrics")
in_class = partial(Mistake, at="class Mine", check="")
in_loop = partial(Mistake, at="def advance", check="rows")
in_start = partial(Mistake, at="def start", check="rows")

_KEPT = "self.kept = None"
_MEMORY = "x, _ = self.memory(x)"
_HEAD = "return self.head(x)"
_SIZE = '    size_field = "n"'
_FAR = '    metrics = {"acc": "up", "far": "down"}\n    size_field = "n"'
_SCORES = f"{_FAR}\n\n    def scores(self, found, wanted):\n        return "
_SUM = "str(bits.sum() % 2)"
IN_MODELS = {
    "a layer of torch's that takes time first": in_model(
        "batch_first=True", "", check="rows apart"
    ),
    "a layer that reads from both ends": in_model(
        "self.memory = nn.GRU(d, d, batch_first=True)",
        "self.memory = nn.GRU(d, d // 2, batch_first=True, bidirectional=True)",
        check="causal",
    ),
    "outputs as wide as the embedding": in_model("nn.Linear(d, vocab)", "nn.Linear(d, d)"),
    "an embedding with too few rows": in_model(
        "nn.Embedding(vocab, d)", "nn.Embedding(3, d)", at="self.embedding(tokens)"
    ),
    "layers whose sizes do not fit": in_model(
        "nn.Linear(d, vocab)", "nn.Linear(2 * d, vocab)", at="self.head(x)"
    ),
    "layers in a Python list": in_init(_KEPT, "self.layers = [nn.Linear(d, d)]"),
    "first weights from numpy": in_build(
        _KEPT, "self.head.bias.data.copy_(torch.from_numpy(np.random.randn(vocab)))"
    ),
    "a seed of its own in `build`": in_build(
        "return Net(vocab, self.d)", "torch.manual_seed(0); return Net(vocab, self.d)"
    ),
    "an input that is written to": in_model(
        "x = self.embedding(tokens)", "tokens[:, 1:] = 0; x = self.embedding(tokens)"
    ),
    "`super().__init__()` forgotten": in_build("super().__init__()", "pass", at="nn.Embedding"),
    "`build` with other parameters": in_build(
        "def build(self, vocab, L, capacity, generator)", "def build(self, vocab)"
    ),
    "a state kept from call to call": in_model(
        _MEMORY, "x, self.kept = self.memory(x, self.kept)", check="repeats"
    ),
    "dropout that is always on": in_model(
        _HEAD, "return self.head(F.dropout(x, 0.1))", check="repeats"
    ),
    "a softmax at the end": in_model(_HEAD, "return self.head(x).softmax(-1)"),
    "more than the outputs returned": in_model(_HEAD, "return self.head(x), _"),
    "the logarithm of a negative number": in_model(_HEAD, "return self.head(x).log()"),
    "`step` that forgets": in_model(
        "    def forward(self, tokens):",
        "    def prefill(self, tokens, lengths):\n"
        "        return lengths\n"
        "\n"
        "    def step(self, tokens, state):\n"
        "        return self.forward(tokens[:, None])[:, 0]\n"
        "\n"
        "    def forward(self, tokens):",
        at="def step",
        check="decoding",
    ),
    "a state counted by hand, and wrongly": in_model(
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
        at="def state_bytes",
        check="state",
    ),
    "FLOPs counted by hand, and wrongly": in_model(
        "class Net(nn.Module):",
        "    def parts(self, vocab, L):\n"
        "        from sweepd.models.base import Part\n"
        '        return [Part("all", 100, 100)]\n'
        "\n"
        "\n"
        "class Net(nn.Module):",
        at="def parts",
        check="cost",
    ),
    "a gradient that is cut": in_model(
        _MEMORY, "x, _ = self.memory(x)\n        x = x.detach()", check="training"
    ),
    "a layer that `forward` does not use": in_model(
        _KEPT, "self.spare = nn.Linear(d, d)", check="training"
    ),
    "a complex weight": in_init(
        _KEPT, "self.phase = nn.Parameter(torch.ones(d, dtype=torch.cfloat))"
    ),
    "a layer without a size": in_init("nn.Linear(d, vocab)", "nn.LazyLinear(vocab)"),
    "sparse gradients": in_model(
        "nn.Embedding(vocab, d)", "nn.Embedding(vocab, d, sparse=True)", check="training"
    ),
    "a running value that no checkpoint holds": in_model(
        _MEMORY,
        "if self.training:\n"
        "            self.kept = (self.kept or 0) + 1\n"
        "            x = x * self.kept\n"
        "        x, _ = self.memory(x)",
        check="checkpoint",
    ),
    "a buffer that no checkpoint holds": in_model(
        _MEMORY,
        "if self.training:\n"
        "            self.kept = (self.kept or 0) + 1\n"
        "            if self.kept % 10 == 1:\n"
        "                noise = torch.randn(8) if self.kept > 1 else torch.zeros(8)\n"
        "                self.register_buffer('noise', noise, persistent=False)\n"
        "            x = x + self.noise\n"
        "        x, _ = self.memory(x)",
        check="checkpoint",
    ),
    "a count that no checkpoint holds": in_model(
        _MEMORY,
        "self.kept = (self.kept or 0) + self.training\n        x, _ = self.memory(x)",
        check="checkpoint",
    ),
    "numpy's noise in training": in_model(
        _MEMORY,
        "x, _ = self.memory(x)\n"
        "        if self.training:\n"
        "            x = x * float(np.random.rand())",
        check="checkpoint",
    ),
}

IN_TASKS = {
    "numpy's global generator": in_task(
        "rng.integers(2, size=self.n)", "np.random.randint(2, size=self.n)", check="seeds"
    ),
    "a generator of its own": in_task(
        "rng.integers(2, size=self.n)",
        "np.random.default_rng().integers(2, size=self.n)",
        check="seeds",
    ),
    "a word that `vocab` lacks": in_task(_SUM, "str(bits.sum())"),
    "a number as the answer": in_task(_SUM, "int(bits.sum() % 2)"),
    "a number where a word is needed": in_task("[str(bit) for bit in bits]", "list(bits)"),
    "`prompt_length` without the separator": in_task("return self.n + 1", "return self.n"),
    "`vocab` without SPECIALS": in_task(
        '(*SPECIALS, "0", "1")', '("0", "1", "a", "b", "c")', at="class Mine"
    ),
    "two parts where three are needed": in_task(
        '[str(bit) for bit in bits], "", str(bits.sum() % 2)',
        "[str(bit) for bit in bits], str(bits.sum() % 2)",
    ),
    "always the same answer": in_task(_SUM, '"1"', check="answers"),
    "always the same problem": in_task(
        "bits = rng.integers(2, size=self.n)", "bits = np.ones(self.n, int)"
    ),
    "the splits ignored": in_task(
        "    def draw(self, rng):",
        "    def sample(self, rng, count, split):\n"
        "        from sweepd.tasks.base import Split\n"
        "        return super().sample(rng, count, Split.TRAIN)\n"
        "\n"
        "    def draw(self, rng):",
        at="def sample",
        check="splits",
    ),
}

IN_SCORES = {
    "a metric of one's own that nothing reports": in_class(_SIZE, _FAR),
    "a wrong name in `scores`": in_scores(_SIZE, _SCORES + '{"near": 0.0}'),
    "random numbers in `scores`": in_scores(_SIZE, _SCORES + '{"far": np.random.rand()}'),
}

IN_CLASSES = {
    "no @dataclass(frozen=True)": in_class("@dataclass(frozen=True)\nclass Mine", "class Mine"),
    "no `size_field`": in_class('size_field = "n"\n', "\n"),
    "a field that is a list": in_class("n: int = 8", "n: int = 8\n    texts: list[str] = ()"),
    "a field with the name of a method": in_class("n: int = 8", "n: int = 8\n    words: int = 16"),
    "a type after `vocab`": in_class("    vocab = (", "    vocab: tuple = ("),
    "a method that is missing": in_class("def prompt_length(self):", "def length_of_prompt(self):"),
    "a field assigned in `__post_init__`": in_class(
        _SIZE,
        '    def __post_init__(self):\n        self.half = self.n // 2\n\n    size_field = "n"',
        at="self.half",
    ),
}

_ROW = 'return {"acc": 0.5, "f1": self.at}'
IN_LOOPS = {
    "a metric that `metrics` does not name": in_loop(
        _ROW, 'return {"acc": 0.5, "f1": self.at, "f2": 0.5}'
    ),
    "a metric left out": in_loop(_ROW, 'return {"acc": 0.5}'),
    "no row": in_loop(_ROW, "return self.at"),
    "an end before the first row": in_loop(_ROW, "return None"),
    "a text in place of a number": in_loop(_ROW, 'return {"acc": 0.5, "f1": f"{self.at:.2f}"}'),
    "a truth in place of a number": in_loop(_ROW, 'return {"acc": 0.5, "f1": torch.tensor(True)}'),
    "a number for each class": in_loop(_ROW, 'return {"acc": 0.5, "f1": torch.ones(3)}'),
    "percent in place of a share": in_loop(_ROW, 'return {"acc": 50, "f1": self.at}'),
    "a division of 0 by 0": in_loop(
        _ROW, 'return {"acc": 0.5, "f1": float(torch.tensor(0.0) / 0)}'
    ),
    "a row of all weights": in_loop(_ROW, "return {f'weight{i}': 0.0 for i in range(100_000)}"),
    "an error in the training": in_loop(
        _ROW, 'return {"acc": 0.5, "f1": self.at / self.steps}', at="self.at / self.steps"
    ),
    "a seed that is not used": in_start(
        "random.Random(seed)", "random.Random(time.time_ns())", check="seed"
    ),
    "the time in a row": in_start(
        _ROW, 'return {"acc": 0.5, "f1": time.perf_counter()}', check="seed"
    ),
    "`start` that trains at once": in_start("return Walk(seed)", "return Walk(seed).advance()"),
    "`save` without `load`": in_start("def load(", "def restore("),
    "a budget that is no whole number": in_start("steps: int = 5", "steps: float = 5.0"),
    "`start` with other parameters": in_start(
        "def start(self, seed, device)", "def start(self, seed)"
    ),
    "`save` that gives no bytes": in_loop(
        "return json.dumps([self.at, self.random.getstate()]).encode()",
        "return [self.at, self.random.getstate()]",
        at="def save",
    ),
    "`save` that forgets": in_loop(
        "[self.at, self.random.getstate()]",
        "[0.0, self.random.getstate()]",
        at="def load",
        check="checkpoint",
    ),
    "`save` that forgets what comes late": in_loop(
        "self.at, state = json.loads(data)",
        "at, state = json.loads(data)\n        self.at = min(at, 0.2)",
        at="def load",
        check="checkpoint",
    ),
    "a state that cannot be loaded": in_loop(
        "self.at, state = json.loads(data)",
        "self.at, state, more = json.loads(data)",
        at="state, more",
        check="checkpoint",
    ),
    "metrics without a direction": in_class(
        'metrics = {"acc": "up", "f1": "up"}', 'metrics = ("acc", "f1")'
    ),
    "no metrics": in_class('    metrics = {"acc": "up", "f1": "up"}', ""),
    "no `start`": in_class("def start(", "def train("),
}
