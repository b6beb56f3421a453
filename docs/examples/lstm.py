"""LSTM (Hochreiter & Schmidhuber 1997, equations as in torch.nn.LSTM)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sweepd.models.base import Architecture


@dataclass(frozen=True)
class Lstm(Architecture):
    """Recurrent net with gates; it remembers 2d numbers a layer, however long the row."""

    layers: int = 1

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        if not vocab:
            raise ValueError("this LSTM reads tokens, and the task gives real numbers")
        return Net(vocab, self.d, self.layers)

    def state_bytes(self, vocab: int, L: int) -> int:
        return 4 * self.layers * 2 * self.d


class Net(nn.Module):
    def __init__(self, vocab: int, d: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d)
        self.lstm = nn.LSTM(d, d, layers, batch_first=True)
        self.head = nn.Linear(d, vocab)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        hidden_BTD, _ = self.lstm(self.embedding(tokens_BT))
        logits_BTV: Tensor = self.head(hidden_BTD)
        return logits_BTV
