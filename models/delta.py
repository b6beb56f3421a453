"""DeltaNet: a linear recurrence that overwrites what it held under a key.

S_t = (I - β_t k_tᵀ k_t) S_(t-1) + β_t k_tᵀ v_t is read by q_t. Keys have length 1, so the matrix in
front has an eigenvalue 1 - β_t, and 1 for all else.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sweepd.models._backbone import xavier
from sweepd.models._recurrence import CHUNK, in_chunks
from sweepd.models.base import (
    Memory,
    Mixer,
    Recurrence,
    RecurrentArchitecture,
    at_least_float32,
    without_autocast,
)

VERSION = 1


@dataclass(frozen=True)
class Delta(RecurrentArchitecture):
    """The delta rule in chunks: what a key gave before is taken away before its new value is added.

    Source: Schlag et al. 2021 (arXiv 2102.11174); Yang et al. 2024 (arXiv 2406.06484), section 3,
    for the chunks by the WY form; Grazzi et al. 2024 (arXiv 2411.12537) for eigenvalues in [-1, 1],
    which state tracking needs. Ours: no short convolution.

    Family: recurrence

    Examples:
        x (B, T, d) → q, k (length 1), v (B, H, T, E), β (B, H, T) → state (B, H, E, E), read by q →
        RMSNorm of each head → (B, T, d)
    """

    negative_eigenvalues: bool = False
    """whether β lies in (0, 2) and eigenvalues in (-1, 1), in place of (0, 1)"""

    def attention(self, L: int, capacity: int) -> Mixer:
        return DeltaRule(self.d, self.heads, 2.0 if self.negative_eigenvalues else 1.0)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        """Returns the FLOPs of the recurrence. Training uses the chunked form, which takes more."""
        product = 2 * self.memory_floats(L) * L
        return [("attention state", 2 * product), ("attention values", product)]

    def mixer_weights(self) -> dict[str, int]:
        return super().mixer_weights() | {"beta": self.d * self.heads}

    def memory_floats(self, L: int) -> int:
        return self.d * (self.d // self.heads)


class DeltaRule(Recurrence):
    """Memory: the state (B, H, E, E), in float32 at least, also under autocast."""

    def __init__(self, d: int, heads: int, most: float) -> None:
        super().__init__()
        self.heads, self.most = heads, most
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.beta, self.norm = nn.Linear(d, heads), nn.RMSNorm(d // heads)

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self.qkv, generator, (self.out.in_features,) * 3)
        xavier(self.out, generator)
        xavier(self.beta, generator)

    def run(self, x_BTD: Tensor, fed_BT: Tensor | None) -> tuple[Tensor, Memory]:
        T = x_BTD.size(1)
        chunks = -(-T // CHUNK)
        q, k, v, beta = (part.transpose(1, 2) for part in self.parts(x_BTD))
        if fed_BT is not None:  # with β = 0 a position leaves the state as it is
            beta = beta * fed_BT[:, None, :, None]
        with without_autocast(x_BTD):
            q, k, v, beta = (in_chunks(at_least_float32(x), chunks) for x in (q, k, v, beta))
            # Position i of a chunk writes β_i (v_i - k_i S_i), where S_i holds what the positions
            # before it wrote. Solved for all of a chunk at once: value - key S, S the state before
            # the chunk.
            system = (beta * (k @ k.mT)).tril(-1)
            key, value = torch.linalg.solve_triangular(
                system, beta * torch.cat([k, v], dim=-1), upper=False, unitriangular=True
            ).chunk(2, dim=-1)
            scores = (q @ k.mT).tril()
            state, reads = torch.zeros_like(k[:, :, 0].mT @ v[:, :, 0]), []
            for i in range(chunks):
                written = value[:, :, i] - key[:, :, i] @ state
                reads.append(q[:, :, i] @ state + scores[:, :, i] @ written)
                state = state + k[:, :, i].mT @ written
            read = torch.cat(reads, dim=2)[:, :, :T]
        return self.leave(read.transpose(1, 2)), (state,)

    def step(self, x_BD: Tensor, memory: Memory, position_B: Tensor) -> tuple[Tensor, Memory]:
        (state_BHEE,) = memory
        with without_autocast(x_BD):
            q, k, v, beta = map(at_least_float32, self.parts(x_BD))
            written = beta * (v - (k.unsqueeze(-2) @ state_BHEE).squeeze(-2))
            state_BHEE = state_BHEE + k.unsqueeze(-1) * written.unsqueeze(-2)
            read = (q.unsqueeze(-2) @ state_BHEE).squeeze(-2)
        return self.leave(read), (state_BHEE,)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns q, k, v, each (…, H, E), and β (…, H, 1) of x (…, D)."""
        qkv = F.silu(at_least_float32(self.qkv(x)))
        q, k, v = torch.unflatten(qkv, -1, (3, self.heads, -1)).unbind(-3)
        beta = self.most * torch.sigmoid(self.beta(x)).unsqueeze(-1)
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1), v, beta

    def leave(self, read: Tensor) -> Tensor:
        """Returns (…, D) of what was read, (…, H, E)."""
        left: Tensor = self.out(self.norm(read).flatten(-2))
        return left
