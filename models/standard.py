"""Standard: causal softmax attention over all earlier positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sweepd.models.backbone import Attention, Memory
from sweepd.models.base import Architecture


@dataclass(frozen=True)
class Standard(Architecture):
    """Causal softmax attention: L(L+1)/2 query-key pairs, a key-value cache when decoding."""

    def attention(self, L: int, capacity: int) -> Attention:
        return CausalAttention(self.d, self.heads)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        pairs = L * (L + 1) // 2
        return [("attention scores", 2 * self.d * pairs), ("attention values", 2 * self.d * pairs)]

    def attention_kept(self, L: int) -> tuple[int, int]:
        return self.fused_kept(L), 0

    def memory_floats(self, L: int) -> int:
        return 2 * self.d * L


class CausalAttention(Attention):
    """softmax(q·k / sqrt(E)) over j <= i. Memory: keys and values, a column a position."""

    def attend(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q_BHTE, k_BHTE, v_BHTE, is_causal=True)

    def remember(self, k_BHTE: Tensor, v_BHTE: Tensor, lengths_B: Tensor) -> Memory:
        # Columns from lengths_b on are invisible until `recall` has overwritten them.
        return k_BHTE.contiguous(), v_BHTE.contiguous()

    def recall(
        self, q_BHE: Tensor, k_BHE: Tensor, v_BHE: Tensor, memory: Memory, position_B: Tensor
    ) -> tuple[Tensor, Memory]:
        columns = int(position_B.max()) + 1
        memory = extended(memory, (k_BHE, v_BHE), position_B, columns)
        k_BHCE, v_BHCE = (cache[:, :, :columns] for cache in memory)
        read_BH1E = self.read(q_BHE.unsqueeze(2), k_BHCE, v_BHCE, position_B[:, None])
        return read_BH1E.squeeze(2), memory

    def read(self, q_BHQE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, position_BQ: Tensor) -> Tensor:
        """(B, H, Q, E): what queries at `position_BQ` read of the columns 0 to C - 1."""
        column = torch.arange(k_BHCE.size(2), device=position_BQ.device)
        visible_BHQC = (column <= position_BQ[:, :, None]).unsqueeze(1)
        return F.scaled_dot_product_attention(q_BHQE, k_BHCE, v_BHCE, attn_mask=visible_BHQC)


def extended(memory: Memory, new: tuple[Tensor, ...], position_B: Tensor, columns: int) -> Memory:
    """The caches with each row's new vectors (B, H, E) at `position_B`, at least `columns` wide."""
    memory = tuple(widened(cache_BHCE, columns) for cache_BHCE in memory)
    rows = torch.arange(len(position_B), device=position_B.device)
    for cache_BHCE, new_BHE in zip(memory, new, strict=True):
        cache_BHCE[rows, :, position_B] = new_BHE
    return memory


def widened(tensor_BHCE: Tensor, columns: int) -> Tensor:
    """The cache with room for at least `columns`; it grows by half, so copies stay rare."""
    width = tensor_BHCE.size(2)
    if columns <= width:
        return tensor_BHCE
    return F.pad(tensor_BHCE, (0, 0, 0, max(columns, width + width // 2) - width))
