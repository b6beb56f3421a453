"""Standard: causal softmax attention over all earlier positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sweepd.models.base import Attention, CachedAttention, TransformerArchitecture

VERSION = 1


@dataclass(frozen=True)
class Standard(TransformerArchitecture):
    """Causal softmax attention over all earlier positions, with a key-value cache when decoding.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), equation 1.

    Family: attention

    Examples:
        x (B, T, d) → q, k, v (B, H, T, E) → softmax(q·k / √E) (B, H, T, T) → (B, T, d)
    """

    def attention(self, L: int, capacity: int) -> Attention:
        return CausalAttention(self.d, self.heads)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        pairs = L * (L + 1) // 2
        return [("attention scores", 2 * self.d * pairs), ("attention values", 2 * self.d * pairs)]

    def attention_kept(self, L: int) -> tuple[int, int]:
        return self.fused_kept(L), 0

    def memory_floats(self, L: int) -> int:
        return 2 * self.d * L


class CausalAttention(CachedAttention):
    """softmax(q·k / sqrt(E)) over j <= i."""

    def attend(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q_BHTE, k_BHTE, v_BHTE, is_causal=True)

    def read(self, q_BHQE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, position_BQ: Tensor) -> Tensor:
        column = torch.arange(k_BHCE.size(2), device=position_BQ.device)
        visible_BHQC = (column <= position_BQ[:, :, None]).unsqueeze(1)
        return F.scaled_dot_product_attention(q_BHQE, k_BHCE, v_BHCE, attn_mask=visible_BHQC)
