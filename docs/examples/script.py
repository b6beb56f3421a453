"""A plain PyTorch script as a loop: which width learns the parity of n bits?"""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import product

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Parity:
    """One hidden layer, trained for 100 times `steps` steps on all 2^n rows of n bits."""

    hidden: int
    n: int = 4
    lr: float = 0.02
    steps: int = 10

    task = "parity_table"
    size_field = "n"
    metrics = {"loss": "down", "acc": "up"}

    def start(self, seed: int, device: str) -> Script:
        return Script(self, device)


class Script:
    def __init__(self, run: Parity, device: str) -> None:
        self.bits = torch.tensor(list(product((-1.0, 1.0), repeat=run.n)), device=device)
        self.odd = (self.bits.prod(1) < 0).float()
        layers = nn.Linear(run.n, run.hidden), nn.Tanh(), nn.Linear(run.hidden, 1), nn.Flatten(0)
        self.net = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=run.lr)

    def advance(self) -> dict[str, float]:
        for _ in range(100):
            outputs = self.net(self.bits)
            loss = F.binary_cross_entropy_with_logits(outputs, self.odd)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        right = (outputs > 0) == (self.odd > 0)
        return {"loss": loss.item(), "acc": right.float().mean().item()}

    def save(self) -> bytes:
        file = io.BytesIO()
        torch.save([self.net.state_dict(), self.optimizer.state_dict()], file)
        return file.getvalue()

    def load(self, data: bytes) -> None:
        net, optimizer = torch.load(io.BytesIO(data), weights_only=True)
        self.net.load_state_dict(net)
        self.optimizer.load_state_dict(optimizer)
