"""Layers that keep a state of fixed size, computed in chunks of positions.

Shape suffixes: B rows, T positions, D = d, H heads, K key width, E value width. Inside a chunk:
N chunks, C positions of a chunk.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from sweepd.models._architecture import Architecture
from sweepd.models._backbone import Memory, Mixer
from sweepd.models._transformer import TransformerArchitecture

CHUNK = 32
LEAST_LOG_DECAY = -2.5
"""A feature's state shrinks at most by exp(-2.5) = .08 a position. Over a chunk of 32 positions
that is exp(-80), whose inverse float32 still holds."""


@dataclass(frozen=True)
class RecurrentArchitecture(TransformerArchitecture):
    """Hyper-parameters of a transformer whose layers are recurrences. What autograd keeps of them
    is counted, since no formula of attention holds for it."""

    no_rotary: ClassVar[str | None] = (
        "the state mixes keys of all distances; use sinusoidal, learned or none"
    )
    kept_floats = Architecture.kept_floats


class Recurrence(Mixer):
    """A layer whose memory is a state of fixed size. A subclass defines `run` and `step`."""

    @abstractmethod
    def run(self, x_BTD: Tensor, fed_BT: Tensor | None) -> tuple[Tensor, Memory]:
        """Returns what each position makes of itself and those before it, (B, T, D), and the state
        after the last position that was fed. fed_BT: which positions count, the first of each row;
        None for all."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.run(x_BTD, None)[0]

    def prefill(self, x_BTD: Tensor, lengths_B: Tensor) -> tuple[Tensor, Memory]:
        return self.run(
            x_BTD, torch.arange(x_BTD.size(1), device=lengths_B.device) < lengths_B[:, None]
        )


def gated_sums(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> tuple[Tensor, Tensor]:
    """Returns reads (B, H, T, E) and the last state (B, H, K, E) of the recurrence

        S_t = exp(log_decay_t) S_(t-1) + k_tᵀ v_t,   read_t = q_t S_t

    with q, k (B, H, T, K), v (B, H, T, E). log_decay <= 0 has one number for each key feature, (B,
    H, T, K) and then at least LEAST_LOG_DECAY, or one for all of them, (B, H, T, 1). A position
    with k = 0 and log_decay = 0 leaves the state as it is.

    Source: the chunked forms of Yang et al. 2023 (arXiv 2312.06635), section 4, and of Dao & Gu
    2024 (arXiv 2405.21060), section 6.
    """
    T, shared = q.size(2), log_decay.size(-1) == 1
    chunks = -(-T // CHUNK)
    q, k, v, log_decay = (in_chunks(x, chunks) for x in (q, k, v, log_decay))
    so_far = log_decay.cumsum(3)  # from a chunk's start through each position
    whole = so_far[:, :, :, -1:]
    # Inside a chunk, position i reads j <= i with weight exp(so_far_i - so_far_j).
    if shared:
        later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
        weights = (so_far - so_far.mT).masked_fill(later, -torch.inf).exp()
        scores = (q @ k.mT) * weights
    else:
        scores = ((q * so_far.exp()) @ (k * (-so_far).exp()).mT).tril()
    read = scores @ v
    # Across chunks, each one reads the state before it, and adds its own positions to it.
    added = (k * (whole - so_far).exp()).mT @ v
    shrink = whole.exp().mT  # (B, H, N, K, 1), or 1 in place of K
    state, before = torch.zeros_like(added[:, :, 0]), []
    for chunk in range(chunks):
        before.append(state)
        state = shrink[:, :, chunk] * state + added[:, :, chunk]
    read = read + (q * so_far.exp()) @ torch.stack(before, dim=2)
    return read.flatten(2, 3)[:, :, :T], state


def gated_step(
    q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor, state_BHKE: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns what one more position reads, (B, H, E), and the state after it, by the equations of
    `gated_sums`. q, k (B, H, K), v (B, H, E), log_decay (B, H, K) or (B, H, 1)."""
    added = k.unsqueeze(-1) * v.unsqueeze(-2)
    state_BHKE = log_decay.exp().unsqueeze(-1) * state_BHKE + added
    return (q.unsqueeze(-2) @ state_BHKE).squeeze(-2), state_BHKE


def in_chunks(x_BHTE: Tensor, chunks: int) -> Tensor:
    """Returns x as (B, H, chunks, CHUNK, E), with zeros after position T."""
    padded = F.pad(x_BHTE, (0, 0, 0, chunks * CHUNK - x_BHTE.size(2)))
    return torch.unflatten(padded, 2, (chunks, CHUNK))


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Returns a context in which x is computed with as it is. The meta device knows no autocast."""
    if x.is_meta:
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def at_least_float32(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
