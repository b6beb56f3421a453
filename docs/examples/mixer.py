"""Causal MLP-mixer (after Tolstikhin et al. 2021, arXiv 2105.01601)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sweepd.models.base import Architecture


@dataclass(frozen=True)
class Mixer(Architecture):
    """Fixed weights between positions in place of attention; a position sees none after it."""

    layers: int = 2

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        layers = [Layer(self.d, capacity) for _ in range(self.layers)]
        ends = nn.Embedding(vocab, self.d), nn.Linear(self.d, vocab)
        return nn.Sequential(ends[0], *layers, nn.LayerNorm(self.d), ends[1])


class Layer(nn.Module):
    def __init__(self, d: int, capacity: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.mix_TT = nn.Parameter(torch.eye(capacity) + torch.randn(capacity, capacity) / capacity)
        self.channels = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x_BTD: Tensor) -> Tensor:
        T = x_BTD.size(1)
        mix_TT = self.mix_TT[:T, :T].tril()
        x_BTD = x_BTD + mix_TT @ self.norms[0](x_BTD)
        return x_BTD + self.channels(self.norms[1](x_BTD))
