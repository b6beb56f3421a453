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
    """`old` in the right text becomes `new`. at: a text in the line that is named. told: what is
    said, `…` for what depends on the numbers. check: which one says it."""

    old: str
    new: str
    at: str
    check: str
    told: str

    def made_in(self, text: str) -> str:
        assert text.count(self.old) == 1
        return text.replace(self.old, self.new)

    def line(self, text: str) -> int:
        """The line that is to be named, in the text with the mistake."""
        return next(i for i, line in enumerate(text.splitlines(), 1) if self.at in line)


IN_MODELS = {
    "a layer of torch's that takes time first": Mistake(
        "batch_first=True",
        "",
        "def forward",
        "rows apart",
        "mixes the rows of a batch: changing one row changed another's outputs by …; rows come as "
        "(B, T): give torch's layers batch_first=True, …",
    ),
    "a layer that reads from both ends": Mistake(
        "self.memory = nn.GRU(d, d, batch_first=True)",
        "self.memory = nn.GRU(d, d // 2, batch_first=True, bidirectional=True)",
        "def forward",
        "causal",
        "is not causal: changing token … changed the output at position … by …; a position may "
        "only see itself and those before it: mask attention, and read no row backwards",
    ),
    "outputs as wide as the embedding": Mistake(
        "nn.Linear(d, vocab)",
        "nn.Linear(d, d)",
        "def forward",
        "outputs",
        "gives outputs of shape (4, 6, 8); (4, 6, 5) is needed; end in a layer of as many "
        "outputs as there are words, for every position",
    ),
    "an embedding with too few rows": Mistake(
        "nn.Embedding(vocab, d)",
        "nn.Embedding(3, d)",
        "self.embedding(tokens)",
        "outputs",
        "IndexError: index out of range in self; an embedding was asked for a row that it lacks: "
        "give the tokens' one `vocab` rows and the positions' one `capacity`",
    ),
    "layers whose sizes do not fit": Mistake(
        "nn.Linear(d, vocab)",
        "nn.Linear(2 * d, vocab)",
        "self.head(x)",
        "outputs",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied …; the sizes of two layers do not "
        "fit: compare what the one gives with what the other takes",
    ),
    "layers in a Python list": Mistake(
        "self.kept = None",
        "self.layers = [nn.Linear(d, d)]",
        "def __init__",
        "weights",
        "holds weights in a plain list or tensor (layers), where neither the optimizer nor a "
        "checkpoint sees them; make it an nn.ModuleList or an nn.Parameter",
    ),
    "first weights from numpy": Mistake(
        "self.kept = None",
        "self.head.bias.data.copy_(torch.from_numpy(np.random.randn(vocab)))",
        "def build",
        "weights",
        "starts with other weights for the same seed (head.bias); draw them from the generator "
        "that `build` is given",
    ),
    "a seed of its own in `build`": Mistake(
        "return Net(vocab, self.d)",
        "torch.manual_seed(0); return Net(vocab, self.d)",
        "def build",
        "weights",
        "starts with the same weights for every seed; draw them from the generator that `build` "
        "is given, and set no seed there",
    ),
    "an input that is written to": Mistake(
        "x = self.embedding(tokens)",
        "tokens[:, 1:] = 0; x = self.embedding(tokens)",
        "def forward",
        "outputs",
        "changes the rows that it is given, which others read after it; work on a copy: "
        "x = x.clone()",
    ),
    "`super().__init__()` forgotten": Mistake(
        "super().__init__()",
        "pass",
        "nn.Embedding",
        "weights",
        "AttributeError: cannot assign module before …; call `super().__init__()` first in the "
        "module's `__init__`",
    ),
    "`build` with other parameters": Mistake(
        "def build(self, vocab, L, capacity, generator)",
        "def build(self, vocab)",
        "def build",
        "weights",
        "TypeError: …build() takes 2 positional arguments but 5 were given; define it as "
        "`build(self, vocab, L, capacity, generator)`",
    ),
    "a state kept from call to call": Mistake(
        "x, _ = self.memory(x)",
        "x, self.kept = self.memory(x, self.kept)",
        "def forward",
        "repeats",
        "gives other outputs for the same row the second time: it keeps something from one call to "
        "the next; compute everything in `forward` from its inputs, and keep nothing on `self`",
    ),
    "dropout that is always on": Mistake(
        "return self.head(x)",
        "return self.head(F.dropout(x, 0.1))",
        "def forward",
        "repeats",
        "gives other outputs for the same row, in evaluation: it draws random numbers; drop out by "
        "nn.Dropout, or F.dropout(x, p, self.training)",
    ),
    "a softmax at the end": Mistake(
        "return self.head(x)",
        "return self.head(x).softmax(-1)",
        "def forward",
        "outputs",
        "gives probabilities where logits are needed: the loss takes the softmax itself; leave the "
        "softmax at the end out",
    ),
    "more than the outputs returned": Mistake(
        "return self.head(x)",
        "return self.head(x), _",
        "def forward",
        "outputs",
        "gives a tuple where a tensor of outputs is needed; return the outputs alone",
    ),
    "the logarithm of a negative number": Mistake(
        "return self.head(x)",
        "return self.head(x).log()",
        "def forward",
        "outputs",
        "gives outputs that are no numbers (NaN) before any training; look for a logarithm or root "
        "of what may be 0, …",
    ),
    "`step` that forgets": Mistake(
        "    def forward(self, tokens):",
        "    def prefill(self, tokens, lengths):\n        return lengths\n\n"
        "    def step(self, tokens, state):\n        return self.forward(tokens[:, None])[:, 0]\n\n"
        "    def forward(self, tokens):",
        "def step",
        "decoding",
        "decodes otherwise than it trains: after `prefill` of … tokens, `step` number 1 differs "
        "from `forward` by … at position …; compute in `step` exactly what `forward` does …",
    ),
    "FLOPs counted by hand, and wrongly": Mistake(
        "class Net(nn.Module):",
        "    def parts(self, vocab, L):\n        from sweepd.models.base import Part\n"
        '        return [Part("all", 100, 100)]\n\n\nclass Net(nn.Module):',
        "def parts",
        "cost",
        "states 100 FLOPs of products with weights for a row of 6 tokens, and torch counts …; "
        "count 2 FLOPs a multiply-add and every product once, or leave `parts` out",
    ),
    "a gradient that is cut": Mistake(
        "x, _ = self.memory(x)",
        "x, _ = self.memory(x)\n        x = x.detach()",
        "def forward",
        "training",
        "has weights that get no gradient (embedding.weight, …); use them in `forward`, without "
        ".detach() on the way, or leave them out",
    ),
    "a layer that `forward` does not use": Mistake(
        "self.kept = None",
        "self.spare = nn.Linear(d, d)",
        "def forward",
        "training",
        "has weights that get no gradient (spare.weight, spare.bias); use them in `forward`, …",
    ),
    "a running value that no checkpoint holds": Mistake(
        "x, _ = self.memory(x)",
        "if self.training:\n            self.kept = (self.kept or 0) + 1\n"
        "            x = x * self.kept\n        x, _ = self.memory(x)",
        "def forward",
        "checkpoint",
        "trains on otherwise after a checkpoint: … differs after one step; keep what `forward` "
        "changes in a buffer (register_buffer), and draw random numbers from torch alone",
    ),
    "numpy's noise in training": Mistake(
        "x, _ = self.memory(x)",
        "x, _ = self.memory(x)\n        if self.training:\n"
        "            x = x * float(np.random.rand())",
        "def forward",
        "checkpoint",
        "trains on otherwise after a checkpoint: … differs after one step; …",
    ),
}

IN_TASKS = {
    "numpy's global generator": Mistake(
        "rng.integers(2, size=self.n)",
        "np.random.randint(2, size=self.n)",
        "def draw",
        "seeds",
        "draws from numpy's global generator: the same seed gave other rows; draw from `rng` alone",
    ),
    "a generator of its own": Mistake(
        "rng.integers(2, size=self.n)",
        "np.random.default_rng().integers(2, size=self.n)",
        "def draw",
        "seeds",
        "draws from something other than `rng`: the same seed gave other rows; draw from `rng` "
        "alone",
    ),
    "a word that `vocab` lacks": Mistake(
        "str(bits.sum() % 2)",
        "str(bits.sum())",
        "def draw",
        "rows",
        "ValueError: Mine drew '…', which is no entry of its vocab; tokens are strings, each one "
        "an entry of vocab; add the token to `vocab`, or write it as it stands there",
    ),
    "a number as the answer": Mistake(
        "str(bits.sum() % 2)",
        "int(bits.sum() % 2)",
        "def draw",
        "rows",
        "ValueError: Mine drew …, which is no entry of its vocab; tokens are strings, …",
    ),
    "a number where a word is needed": Mistake(
        "[str(bit) for bit in bits]",
        "list(bits)",
        "def draw",
        "rows",
        "ValueError: Mine drew …, which is no entry of its vocab; tokens are strings, …",
    ),
    "`prompt_length` without the separator": Mistake(
        "return self.n + 1",
        "return self.n",
        "def draw",
        "rows",
        "ValueError: Mine.draw: the prompt has 4 tokens, and its separator; prompt_length is 4; "
        "let prompt_length, chain_length and answer_length say the most that `draw` gives",
    ),
    "`vocab` without SPECIALS": Mistake(
        '(*SPECIALS, "0", "1")',
        '("0", "1", "a", "b", "c")',
        "class Mine",
        "rows",
        "has a vocab that begins with 0 1 a; begin it with SPECIALS: vocab = (*SPECIALS, …)",
    ),
    "two parts where three are needed": Mistake(
        '[str(bit) for bit in bits], "", str(bits.sum() % 2)',
        "[str(bit) for bit in bits], str(bits.sum() % 2)",
        "def draw",
        "rows",
        "ValueError: Mine.draw returned 2 parts; it must return 3: prompt, chain (empty for none) "
        "and answer",
    ),
    "always the same answer": Mistake(
        "str(bits.sum() % 2)",
        '"1"',
        "def draw",
        "answers",
        "has the same answer in every row (1); let `draw` give problems with different answers",
    ),
    "always the same problem": Mistake(
        "bits = rng.integers(2, size=self.n)",
        "bits = np.ones(self.n, int)",
        "def draw",
        "rows",
        "ValueError: Mine(… has too few distinct inputs (about 1): hardly any falls into the … "
        "split; choose a larger setting; draw more varied problems, or choose a larger setting",
    ),
    "the splits ignored": Mistake(
        "    def draw(self, rng):",
        "    def sample(self, rng, count, split):\n"
        "        from sweepd.tasks.base import Split\n"
        "        return super().sample(rng, count, Split.TRAIN)\n\n"
        "    def draw(self, rng):",
        "def sample",
        "splits",
        "gives the same inputs in training, checks and tests: … of … in the split TEST are in "
        "TRAIN too; an input may only be in the split that its hash says (`Task.drawn`)",
    ),
}

IN_SCORES = {
    "a metric of one's own that nothing reports": Mistake(
        '    size_field = "n"',
        '    metrics = {"acc": "up", "far": "down"}\n    size_field = "n"',
        "class Mine",
        "",
        "Mine has the metric far, and no `scores(self, found, wanted)` that reports it",
    ),
    "a wrong name in `scores`": Mistake(
        '    size_field = "n"',
        '    metrics = {"acc": "up", "far": "down"}\n    size_field = "n"\n\n'
        '    def scores(self, found, wanted):\n        return {"near": 0.0}',
        "def scores",
        "metrics",
        "Mine.scores reported 'near' (str), which its `metrics` do not name; …",
    ),
    "random numbers in `scores`": Mistake(
        '    size_field = "n"',
        '    metrics = {"acc": "up", "far": "down"}\n    size_field = "n"\n\n'
        '    def scores(self, found, wanted):\n        return {"far": np.random.rand()}',
        "def scores",
        "metrics",
        "gives another far for the same answers; compute it from `found` and `wanted` alone, "
        "without random numbers",
    ),
}

IN_CLASSES = {
    "no @dataclass(frozen=True)": Mistake(
        "@dataclass(frozen=True)\nclass Mine",
        "class Mine",
        "class Mine",
        "",
        "Mine is no dataclass: put @dataclass(frozen=True) above it",
    ),
    "no `size_field`": Mistake(
        'size_field = "n"\n',
        "\n",
        "class Mine",
        "",
        "Mine lacks `size_field`, the name of the field that is its size",
    ),
    "a field that is a list": Mistake(
        "n: int = 8",
        "n: int = 8\n    texts: list[str] = ()",
        "class Mine",
        "",
        "Mine has a field texts that is no int, float, str, bool, None or Literal of these; what "
        "is no parameter of a grid has no type, or is a property",
    ),
    "a field with the name of a method": Mistake(
        "n: int = 8",
        "n: int = 8\n    words: int = 16",
        "class Mine",
        "",
        "Mine has a field words, which hides the method Task.words; rename it",
    ),
    "a type after `vocab`": Mistake(
        "    vocab = (",
        "    vocab: tuple = (",
        "class Mine",
        "",
        "Mine gives vocab a type, which makes it a field; write `vocab = …` without one",
    ),
    "a method that is missing": Mistake(
        "def prompt_length(self):",
        "def length_of_prompt(self):",
        "class Mine",
        "",
        "Mine lacks prompt_length",
    ),
    "a field assigned in `__post_init__`": Mistake(
        '    size_field = "n"',
        '    def __post_init__(self):\n        self.half = self.n // 2\n\n    size_field = "n"',
        "self.half",
        "",
        "FrozenInstanceError: cannot assign to field 'half'; the dataclass is frozen: keep the "
        "value in a local variable, or compute it in a property",
    ),
}

_ROW = 'return {"acc": 0.5, "f1": self.at}'
IN_LOOPS = {
    "a metric that `metrics` does not name": Mistake(
        _ROW,
        'return {"acc": 0.5, "f1": self.at, "f2": 0.5}',
        "def advance",
        "rows",
        "Walk.advance reported 'f2' (str), which its `metrics` do not name; name it "
        "there, or leave it "
        "out",
    ),
    "a metric left out": Mistake(
        _ROW,
        'return {"acc": 0.5}',
        "def advance",
        "rows",
        "Walk.advance did not report f1; give all of its `metrics` every time",
    ),
    "no row": Mistake(
        _ROW,
        "return self.at",
        "def advance",
        "rows",
        "Walk.advance returned … (float); it must return a mapping of its metrics (acc, f1)",
    ),
    "an end before the first row": Mistake(
        _ROW,
        "return None",
        "def advance",
        "rows",
        "Walk.advance returned None before any row; return at least one",
    ),
    "a text in place of a number": Mistake(
        _ROW,
        'return {"acc": 0.5, "f1": f"{self.at:.2f}"}',
        "def advance",
        "rows",
        "Walk.advance reported f1 = '…' (str); it must be one number",
    ),
    "a number for each class": Mistake(
        _ROW,
        'return {"acc": 0.5, "f1": torch.ones(3)}',
        "def advance",
        "rows",
        "Walk.advance reported f1 = tensor([1., 1., 1.]) (Tensor); it must be one number",
    ),
    "percent in place of a share": Mistake(
        _ROW,
        'return {"acc": 50, "f1": self.at}',
        "def advance",
        "rows",
        "Walk.advance reported acc = 50; it lies between 0 and 1",
    ),
    "a division of 0 by 0": Mistake(
        _ROW,
        'return {"acc": 0.5, "f1": float(torch.tensor(0.0) / 0)}',
        "def advance",
        "rows",
        "Walk.advance reported f1 = nan at step 1, where a trial ends as a fail; look "
        "for a division by "
        "0, or a rate that is too high",
    ),
    "a row of all weights": Mistake(
        _ROW,
        "return {f'weight{i}': 0.0 for i in range(100_000)}",
        "def advance",
        "rows",
        "Walk.advance reported 'weight0' (str) and 99999 more, which its `metrics` do not name; …",
    ),
    "an error in the training": Mistake(
        _ROW,
        'return {"acc": 0.5, "f1": self.at / self.steps}',
        "self.at / self.steps",
        "rows",
        "AttributeError: 'Walk' object has no attribute 'steps'",
    ),
    "a seed that is not used": Mistake(
        "random.Random(seed)",
        "random.Random(time.time_ns())",
        "def start",
        "seed",
        "gives other numbers for the same seed: f1 … and …; give every generator the seed, and "
        "report nothing that depends on time (sweepd records the seconds)",
    ),
    "the time in a row": Mistake(
        _ROW,
        'return {"acc": 0.5, "f1": time.perf_counter()}',
        "def start",
        "seed",
        "gives other numbers for the same seed: f1 … and …; give every generator the seed, …",
    ),
    "`start` that trains at once": Mistake(
        "return Walk(seed)",
        "return Walk(seed).advance()",
        "def start",
        "rows",
        "Mine.start returned {…} (dict), which has no `advance()`; return an object whose "
        "`advance()` trains on and returns a row",
    ),
    "`save` without `load`": Mistake(
        "def load(",
        "def restore(",
        "def start",
        "rows",
        "Mine.start returned … (Walk), which has only one of `save()` and `load(data)`; "
        "give it both, or none",
    ),
    "a budget that is no whole number": Mistake(
        "steps: int = 5",
        "steps: float = 5.0",
        "def start",
        "rows",
        "ValueError: steps = 5.0: a budget of steps is a whole number from 1 on",
    ),
    "`start` with other parameters": Mistake(
        "def start(self, seed, device)",
        "def start(self, seed)",
        "def start",
        "rows",
        "TypeError: Mine.start() takes 2 positional arguments but 3 were given; define it as "
        "`start(self, seed, device)`",
    ),
    "`save` that gives no bytes": Mistake(
        "return json.dumps([self.at, self.random.getstate()]).encode()",
        "return [self.at, self.random.getstate()]",
        "def save",
        "rows",
        "Walk.save returned … (list); it must return bytes: write to an io.BytesIO and return its "
        "getvalue()",
    ),
    "`save` that forgets": Mistake(
        "[self.at, self.random.getstate()]",
        "[0.0, self.random.getstate()]",
        "def load",
        "checkpoint",
        "goes on with other numbers than the run that was saved: f1 … and …; let `save` return all "
        "that `advance` reads, generators too, and `load` restore it",
    ),
    "a state that cannot be loaded": Mistake(
        "self.at, state = json.loads(data)",
        "self.at, state, more = json.loads(data)",
        "state, more",
        "checkpoint",
        "ValueError: not enough values to unpack (expected 3, got 2)",
    ),
    "metrics without a direction": Mistake(
        'metrics = {"acc": "up", "f1": "up"}',
        'metrics = ("acc", "f1")',
        "class Mine",
        "",
        "Mine has `metrics` that do not say whether more of f1 is better; write a mapping, as "
        "{'f1': 'up'}, or 'down'",
    ),
    "no metrics": Mistake(
        '    metrics = {"acc": "up", "f1": "up"}',
        "",
        "class Mine",
        "",
        "Mine lacks `metrics`: what it reports, such as `metrics = {'acc': 'up'}`",
    ),
    "no `start`": Mistake(
        "def start(",
        "def train(",
        "class Mine",
        "",
        "Mine lacks `start`: `start(self, seed, device)`, which returns what trains",
    ),
}
