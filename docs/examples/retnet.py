"""RetNet: multi-scale retention (Sun et al. 2023, arXiv 2307.08621)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sweepd.models.base import Architecture, rotated, sinusoids


@dataclass(frozen=True)
class RetNet(Architecture):
    """Attention without a softmax, whose weight falls by a fixed factor a token."""

    layers: int = 2
    heads: int = 2

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        layers = [Layer(self.d, self.heads) for _ in range(self.layers)]
        ends = nn.Embedding(vocab, self.d), nn.Linear(self.d, vocab)
        return nn.Sequential(ends[0], *layers, nn.LayerNorm(self.d), ends[1])


class Layer(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.qkvg, self.out = nn.Linear(d, 4 * d), nn.Linear(d, d)
        self.group = nn.GroupNorm(heads, d)
        self.feed_forward = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x_BTD: Tensor) -> Tensor:
        B, T, D = x_BTD.shape
        q, k, v, gate = self.qkvg(self.norms[0](x_BTD)).view(B, T, 4, self.heads, -1).unbind(2)
        waves_T1E = sinusoids(T, D // self.heads)[:, None]
        q, k = rotated(q, waves_T1E), rotated(k, waves_T1E)
        age_TT = torch.arange(T)[:, None] - torch.arange(T)
        keep_H = 1 - 2.0 ** (-5 - torch.arange(self.heads))
        decay_HTT = (keep_H[:, None, None] ** age_TT.clamp(min=0)) * (age_TT >= 0)
        scores_BHTT = torch.einsum("bthe,bshe->bhts", q, k) * (D // self.heads) ** -0.5
        y_BTD = torch.einsum("bhts,bshe->bthe", scores_BHTT * decay_HTT, v).reshape(B * T, D)
        y_BTD = self.group(y_BTD).view(B, T, D) * nn.functional.silu(gate.reshape(B, T, D))
        x_BTD = x_BTD + self.out(y_BTD)
        return x_BTD + self.feed_forward(self.norms[1](x_BTD))
