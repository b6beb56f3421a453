"""Classes as a user writes them. What becomes of them shows what the bases, the training and the
runner of loops do."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sweepd.models.base import (
    Architecture,
    Attention,
    CachedAttention,
    Memory,
    Mixer,
    Recurrence,
    RecurrentArchitecture,
    TransformerArchitecture,
    gated_step,
    gated_sums,
)
from sweepd.tasks.base import SPECIALS, ChainTask, Rows, RowTask, SumOfMemories, Tokens


@dataclass(frozen=True)
class Sums(ChainTask):
    """The sum of n digits modulo 5; the chain is the sum so far."""

    n: int = 6

    size_field = "n"
    vocab = (*SPECIALS, *"01234")

    @property
    def prompt_length(self) -> int:
        return self.n + 1

    chain_length = prompt_length

    def draw(self, rng: np.random.Generator) -> tuple[Tokens, Tokens, Tokens]:
        digits = rng.integers(5, size=self.n)
        so_far = [str(total % 5) for total in digits.cumsum()]
        return [str(digit) for digit in digits], so_far, so_far[-1]


@dataclass(frozen=True)
class Before(RowTask):
    """The letter before, at every second position; `ahead` is a score of its own."""

    n: int = 12

    size_field = "n"
    metrics: ClassVar = {"acc": "up", "loss": "down", "ahead": "up"}
    vocab = tuple("abcd")

    @property
    def length(self) -> int:
        return self.n

    def draw(self, rng: np.random.Generator) -> tuple[list[str], list[str | None]]:
        letters = [self.vocab[at] for at in rng.integers(4, size=self.n)]
        return letters, [letters[at - 1] if at % 2 else None for at in range(self.n)]

    def scores(self, found: Any, wanted: Any) -> Mapping[str, float]:
        return {"ahead": float((found[wanted.scored] > wanted.targets[wanted.scored]).mean())}


@dataclass(frozen=True)
class Lagged(SumOfMemories):
    """The sum of the inputs at the lags 1 to M."""

    def targets(self, inputs: Rows) -> Rows:
        ends = range(self.memories - 1, -1, -1)
        return self.total([inputs[:, at : self.length - self.memories + at] for at in ends])


@dataclass(frozen=True)
class Plain(Architecture):
    """Nothing but torch's own layers. It decodes by running the whole prefix for every token."""

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        return PlainNet(vocab, self.d)


class PlainNet(nn.Module):
    def __init__(self, vocab: int, d: int) -> None:
        super().__init__()
        self.first = nn.Embedding(vocab, d) if vocab else nn.Linear(1, d)
        self.dropout = nn.Dropout(0.1)
        self.mix = nn.GRU(d, d, batch_first=True)
        self.head = nn.Linear(d, vocab or 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.first(x if isinstance(self.first, nn.Embedding) else x.unsqueeze(-1))
        logits: Tensor = self.head(self.mix(self.dropout(first))[0])
        return logits


@dataclass(frozen=True)
class Softmax(TransformerArchitecture):
    def attention(self, L: int, capacity: int) -> Attention:
        return SoftmaxAttention(self.d, self.heads)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        return [("attention", 2 * self.d * L * (L + 1))]

    def attention_kept(self, L: int) -> tuple[int, int]:
        return self.fused_kept(L), 0

    def memory_floats(self, L: int) -> int:
        return 2 * self.d * L


class SoftmaxAttention(CachedAttention):
    def attend(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q_BHTE, k_BHTE, v_BHTE, is_causal=True)

    def read(self, q_BHQE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, position_BQ: Tensor) -> Tensor:
        column = torch.arange(k_BHCE.size(2), device=position_BQ.device)
        seen_B1QC = (column <= position_BQ.unsqueeze(-1)).unsqueeze(1)
        return F.scaled_dot_product_attention(q_BHQE, k_BHCE, v_BHCE, seen_B1QC)


@dataclass(frozen=True)
class Decaying(RecurrentArchitecture):
    def attention(self, L: int, capacity: int) -> Mixer:
        return DecayingSums(self.d, self.heads)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        return [("attention", 4 * self.memory_floats(L) * L)]

    def memory_floats(self, L: int) -> int:
        return self.d * (self.d // self.heads)


class DecayingSums(Recurrence):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def initialise(self, generator: torch.Generator) -> None:
        for layer in (self.qkv, self.out):
            nn.init.xavier_uniform_(layer.weight, generator=generator)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        return q, k, v, torch.full_like(q[..., :1], -0.1)

    def run(self, x_BTD: Tensor, fed_BT: Tensor | None) -> tuple[Tensor, Memory]:
        q, k, v, log_decay = (part.transpose(1, 2) for part in self.parts(x_BTD))
        if fed_BT is not None:
            fed = fed_BT[:, None, :, None]
            k, log_decay = k * fed, log_decay * fed
        read, state = gated_sums(q, k, v, log_decay)
        return self.out(read.transpose(1, 2).flatten(-2)), (state,)

    def step(self, x_BD: Tensor, memory: Memory, position_B: Tensor) -> tuple[Tensor, Memory]:
        read, state = gated_step(*self.parts(x_BD), memory[0])
        return self.out(read.flatten(-2)), (state,)


@dataclass(frozen=True)
class Draws:
    """A loop that reports what the generators give that the seed decides."""

    n: int = 2
    steps: int = 3

    size_field = "n"
    task = "draws"
    metrics: ClassVar = {"acc": "up", "loss": "down"}

    def start(self, seed: int, device: str) -> "Drawing":
        return Drawing(seed)


class Drawing:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def advance(self) -> dict[str, float]:
        acc = (random.random() + np.random.random() + torch.rand(()).item()) / 3
        return {"acc": acc, "loss": self.seed + np.random.normal(), "total": 10}
