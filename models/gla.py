"""Gated linear attention (Yang et al. 2023): a running sum that forgets at a learned pace.

S_t = diag(α_t) S_(t-1) + k_tᵀ v_t is read by q_t. A gate α_t in (0, 1) for each key feature depends
on the token. With a fixed gate for each head it is the retention of RetNet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sweepd.models._backbone import xavier
from sweepd.models._recurrence import LEAST_LOG_DECAY
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
Gate = Literal["learned", "fixed"]
RANK, TEMPERATURE = 16, 16


@dataclass(frozen=True)
class Gla(RecurrentArchitecture):
    """Linear attention whose state decays, by gates of the token or by a fixed one of each head.

    Source: Yang et al. 2023 (arXiv 2312.06635), section 4, with its gate of rank 16 to the power of
    1/16; fixed: Sun et al. 2023 (RetNet, arXiv 2307.08621), 1 - 2^(-5-h) for head h = 0, 1, ….
    Ours: keys as wide as values, and a gate is at least .08.

    Family: recurrence

    Examples:
        x (B, T, d) → q, k, v (B, H, T, E), α (B, H, T, E) → decaying sum of kᵀ v (B, H, E, E), read
        by q → RMSNorm of each head, times silu(gate) → (B, T, d)
    """

    gate: Gate = "learned"
    """learned: from the token; fixed: as in RetNet"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gate not in get_args(Gate):
            raise ValueError(f"gate = {self.gate!r}: must be one of {', '.join(get_args(Gate))}")

    def attention(self, L: int, capacity: int) -> Mixer:
        return GatedAttention(self.d, self.heads, self.gate)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        """Returns the FLOPs of the recurrence. Training uses the chunked form, which takes more."""
        product = 2 * self.memory_floats(L) * L
        return [("attention state", product), ("attention values", product)]

    def mixer_weights(self) -> dict[str, int]:
        gates = self.d**2 + (2 * RANK * self.d if self.gate == "learned" else 0)
        return super().mixer_weights() | {"gates": gates}

    def memory_floats(self, L: int) -> int:
        return self.d * (self.d // self.heads)


class GatedAttention(Recurrence):
    """Memory: the state (B, H, E, E), in float32 at least, also under autocast."""

    fixed_decay: Tensor

    def __init__(self, d: int, heads: int, gate: Gate) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.read_gate, self.norm = nn.Linear(d, d), nn.RMSNorm(d // heads)
        self.learned = gate == "learned"
        if self.learned:
            self.narrow, self.wide = nn.Linear(d, RANK, bias=False), nn.Linear(RANK, d)
        kept = 1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float64))
        self.register_buffer("fixed_decay", kept.log()[None, :, None].float(), persistent=False)

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self.qkv, generator, (self.out.in_features,) * 3)
        xavier(self.out, generator)
        xavier(self.read_gate, generator)
        if self.learned:
            nn.init.xavier_uniform_(self.narrow.weight, generator=generator)
            xavier(self.wide, generator)

    def run(self, x_BTD: Tensor, fed_BT: Tensor | None) -> tuple[Tensor, Memory]:
        q, k, v, log_decay = (part.transpose(1, 2) for part in self.parts(x_BTD))
        if fed_BT is not None:  # what was not fed adds nothing, and lets nothing decay
            fed = fed_BT[:, None, :, None]
            k, log_decay = k * fed, log_decay * fed
        with without_autocast(x_BTD):
            read, state = gated_sums(*map(at_least_float32, (q, k, v, log_decay)))
        return self.leave(read.transpose(1, 2), x_BTD), (state,)

    def step(self, x_BD: Tensor, memory: Memory, position_B: Tensor) -> tuple[Tensor, Memory]:
        (state_BHEE,) = memory
        with without_autocast(x_BD):
            q, k, v, log_decay = map(at_least_float32, self.parts(x_BD))
            read, state_BHEE = gated_step(q, k, v, log_decay, state_BHEE)
        return self.leave(read, x_BD), (state_BHEE,)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns q, k, v and the logarithm of the decay of x (…, D), each (…, H, E) (a fixed decay
        (…, H, 1))."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        if not self.learned:
            return q * q.size(-1) ** -0.5, k, v, self.fixed_decay.expand(*k.shape[:-1], 1)
        log_decay = F.logsigmoid(self.wide(self.narrow(x))) / TEMPERATURE
        log_decay = torch.unflatten(log_decay.clamp_min(LEAST_LOG_DECAY), -1, (self.heads, -1))
        return q * q.size(-1) ** -0.5, k, v, log_decay

    def leave(self, read: Tensor, x: Tensor) -> Tensor:
        """Returns (…, D) of what was read, (…, H, E)."""
        gated: Tensor = self.out(self.norm(read).flatten(-2) * F.silu(self.read_gate(x)))
        return gated
