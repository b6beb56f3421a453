"""Selective state space (Mamba: Gu & Dao 2023, arXiv 2312.00752), as one parallel scan."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sweepd.models.base import Architecture


@dataclass(frozen=True)
class Ssm(Architecture):
    """Linear recurrence whose step size, input and output depend on the token."""

    layers: int = 2
    state: int = 8

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        layers = [Layer(self.d, self.state) for _ in range(self.layers)]
        ends = nn.Embedding(vocab, self.d), nn.Linear(self.d, vocab)
        return nn.Sequential(ends[0], *layers, nn.LayerNorm(self.d), ends[1])

    def state_bytes(self, vocab: int, L: int) -> int:
        return 4 * self.layers * 2 * self.d * (self.state + 3)


class Layer(nn.Module):
    def __init__(self, d: int, state: int) -> None:
        super().__init__()
        self.norm, self.enter, self.leave = (
            nn.LayerNorm(d),
            nn.Linear(d, 4 * d),
            nn.Linear(2 * d, d),
        )
        self.shift = nn.Conv1d(2 * d, 2 * d, 4, padding=3, groups=2 * d)
        self.select = nn.Linear(2 * d, 2 * state)
        self.pace = nn.Linear(2 * d, 2 * d)
        self.rate_N = nn.Parameter(torch.arange(1.0, state + 1).log())
        self.skip = nn.Parameter(torch.ones(2 * d))

    def forward(self, x_BTD: Tensor) -> Tensor:
        T = x_BTD.size(1)
        u_BTE, gate_BTE = self.enter(self.norm(x_BTD)).chunk(2, dim=-1)
        u_BTE = F.silu(self.shift(u_BTE.mT)[..., :T].mT)
        pace_BTE = F.softplus(self.pace(u_BTE) - 4)
        write_BTN, read_BTN = self.select(u_BTE).chunk(2, dim=-1)
        decay_BTEN = -pace_BTE[..., None] * self.rate_N.exp()
        held_BTEN = scan(decay_BTEN, (pace_BTE * u_BTE)[..., None] * write_BTN[..., None, :])
        y_BTE = (held_BTEN * read_BTN[..., None, :]).sum(-1) + self.skip * u_BTE
        return x_BTD + self.leave(y_BTE * F.silu(gate_BTE))


def scan(log_decay: Tensor, added: Tensor) -> Tensor:
    """h[t] = exp(log_decay[t]) * h[t - 1] + added[t] along dimension 1, in log2(T) rounds."""
    reach = 1
    while reach < added.size(1):
        before = F.pad(added[:, :-reach], (0, 0, 0, 0, reach, 0))
        earlier = F.pad(log_decay[:, :-reach], (0, 0, 0, 0, reach, 0))
        added = added + log_decay.exp() * before
        log_decay = log_decay + earlier
        reach *= 2
    return added
