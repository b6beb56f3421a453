"""Mamba-2 (Dao & Gu 2024): a selective state space with one decay a head, computed in chunks.

h_t = exp(-Δ_t a) h_(t-1) + Δ_t b_tᵀ x_t is read by c_t, with a skip D x_t. Δ, b, c and x depend on
the token; a short convolution lets x, b and c see the last four positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sweepd.models._backbone import xavier
from sweepd.models.base import (
    Memory,
    Mixer,
    Recurrence,
    RecurrentArchitecture,
    at_least_float32,
    gated_step,
    gated_sums,
    without_autocast,
)

VERSION = 1
WIDTH = 4
"""Positions that the convolution sees."""


@dataclass(frozen=True)
class Mamba2(RecurrentArchitecture):
    """State-space layer (SSD) of inner width 2d, one decay for each head, b and c shared by heads.

    Source: Dao & Gu 2024 (arXiv 2405.21060), sections 6 and 7. Ours: each layer is followed by the
    feed-forward part that all models here have, where Mamba-2 has another such layer.

    Family: recurrence

    Examples:
        x (B, T, d) → z, x (B, T, 2d), b, c (B, T, N), Δ (B, T, H) → convolution → state (B, H, N,
        2d / H), read by c → RMSNorm(y · silu(z)) → (B, T, d)
    """

    state: int = 16
    """N, numbers that each inner feature keeps"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.state <= 4096:
            raise ValueError(f"state = {self.state}: must be from 1 to 4096")

    def attention(self, L: int, capacity: int) -> Mixer:
        return StateSpace(self.d, self.heads, self.state)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        """Returns the FLOPs of the recurrence. Training uses the chunked form, which takes more."""
        product = 2 * 2 * self.d * self.state * L
        return [("attention state", product), ("attention values", product)]

    def mixer_weights(self) -> dict[str, int]:
        inner, d = 2 * self.d, self.d
        return {
            "projections in": d * (2 * inner + 2 * self.state + self.heads),
            "convolution": WIDTH * (inner + 2 * self.state),
            "projection out": inner * d,
        }

    def memory_floats(self, L: int) -> int:
        inner = 2 * self.d
        return inner * self.state + (WIDTH - 1) * (inner + 2 * self.state)


class StateSpace(Recurrence):
    """Memory: the state (B, H, N, P) with P = 2d / H, in float32 at least, and the last three
    positions before the convolution (B, 3, 2d + 2N)."""

    def __init__(self, d: int, heads: int, state: int) -> None:
        super().__init__()
        self.heads = heads
        self.widths = 2 * d, 2 * d + 2 * state, heads  # z; what is convolved; Δ
        self.enter, self.out = nn.Linear(d, sum(self.widths), bias=False), nn.Linear(2 * d, d)
        self.kernel = nn.Parameter(torch.empty(self.widths[1], 1, WIDTH))
        self.kernel_bias = nn.Parameter(torch.zeros(self.widths[1]))
        self.pace_start, self.log_rate = (nn.Parameter(torch.empty(heads)) for _ in range(2))
        self.skip, self.norm = nn.Parameter(torch.ones(heads)), nn.RMSNorm(2 * d)
        self.split_widths = [2 * d, state, state]

    def initialise(self, generator: torch.Generator) -> None:
        nn.init.xavier_uniform_(self.enter.weight, generator=generator)
        xavier(self.out, generator)
        nn.init.uniform_(self.kernel, -(WIDTH**-0.5), WIDTH**-0.5, generator=generator)
        # As the paper's code: Δ from .001 to .1 and a from 1 to 16, Δ evenly on a log scale.
        with torch.no_grad():
            self.log_rate.uniform_(1, 16, generator=generator).log_()
            self.pace_start.uniform_(math.log(1e-3), math.log(1e-1), generator=generator).exp_()
            self.pace_start.copy_(self.pace_start + torch.log(-torch.expm1(-self.pace_start)))

    def run(self, x_BTD: Tensor, fed_BT: Tensor | None) -> tuple[Tensor, Memory]:
        T = x_BTD.size(1)
        z_BTI, raw_BTJ, pace_BTH = self.enter(x_BTD).split(self.widths, dim=-1)
        padded = F.pad(raw_BTJ, (0, 0, WIDTH - 1, 0))
        convolved = F.conv1d(padded.mT, self.kernel, self.kernel_bias, groups=self.widths[1]).mT
        q, k, v, skipped, log_decay = self.parts(convolved, pace_BTH)
        if fed_BT is not None:  # what was not fed adds nothing, and lets nothing decay
            k, log_decay = k * fed_BT[..., None, None], log_decay * fed_BT[..., None, None]
        with without_autocast(x_BTD):
            parts = (at_least_float32(x).transpose(1, 2) for x in (q, k, v, log_decay))
            read, state = gated_sums(*parts)
        lengths_B = fed_BT.sum(1) if fed_BT is not None else raw_BTJ.new_tensor([T]).long()
        last = lengths_B[:, None] + torch.arange(WIDTH - 1, device=x_BTD.device)
        recent = padded.take_along_dim(last[..., None].expand(len(x_BTD), -1, 1), dim=1)
        return self.leave(read.transpose(1, 2) + skipped, z_BTI), (state, recent)

    def step(self, x_BD: Tensor, memory: Memory, position_B: Tensor) -> tuple[Tensor, Memory]:
        state, recent = memory
        z_BI, raw_BJ, pace_BH = self.enter(x_BD).split(self.widths, dim=-1)
        seen_BWJ = torch.cat([recent, raw_BJ[:, None].to(recent.dtype)], dim=1)
        convolved = (seen_BWJ * self.kernel.squeeze(1).mT).sum(1) + self.kernel_bias
        q, k, v, skipped, log_decay = self.parts(convolved, pace_BH)
        with without_autocast(x_BD):
            q, k, v, log_decay = map(at_least_float32, (q, k, v, log_decay))
            read, state = gated_step(q, k, v, log_decay, state)
        return self.leave(read + skipped, z_BI), (state, seen_BWJ[:, 1:])

    def parts(self, convolved: Tensor, pace: Tensor) -> tuple[Tensor, ...]:
        """Returns q, k (…, H, N), v, its skip (…, H, P) and the logarithm of the decay (…, H, 1)
        of what the convolution gave (…, 2d + 2N) and the pace before its softplus (…, H)."""
        x, b, c = torch.split(F.silu(convolved), self.split_widths, dim=-1)
        x = torch.unflatten(x, -1, (self.heads, -1))
        pace = F.softplus(pace + self.pace_start)[..., None]
        q = c.unsqueeze(-2).expand(*c.shape[:-1], self.heads, -1)
        k = b.unsqueeze(-2) * pace
        return q, k, x, self.skip[:, None] * x, -pace * self.log_rate.exp()[:, None]

    def leave(self, y: Tensor, z: Tensor) -> Tensor:
        """Returns (…, D) of y (…, H, P) and its gate z (…, 2d)."""
        left: Tensor = self.out(self.norm(y.flatten(-2) * F.silu(z)))
        return left
