"""Window: causal softmax attention over the last w positions."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sweepd.models.base import Architecture, Attention, Memory, TransformerArchitecture, read

VERSION = 1


@dataclass(frozen=True)
class Window(TransformerArchitecture):
    """Softmax attention over a sliding window, with a ring of keys and values when decoding.

    Source: Beltagy et al. 2020 (Longformer, arXiv 2004.05150), section 3.1, made causal.

    Family: attention

    Examples:
        x (B, T, d) → q, k, v (B, H, T, E) → tiles of w queries (B, H, N, w, E) against their own
        and the tile before (B, H, N, 2w, E) → (B, T, d)
    """

    width: int = 16
    """w, the positions that each one reads, itself included"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.width <= 1_000_000:
            raise ValueError(f"width = {self.width}: must be from 1 to 1000000")

    def attention(self, L: int, capacity: int) -> Attention:
        return WindowAttention(self.d, self.heads, self.width)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        near = min(self.width, L)
        pairs = near * (near + 1) // 2 + (L - near) * near
        return [("attention scores", 2 * self.d * pairs), ("attention values", 2 * self.d * pairs)]

    def memory_floats(self, L: int) -> int:
        return 2 * self.d * self.width

    kept_floats = Architecture.kept_floats


class WindowAttention(Attention):
    """softmax(q·k / sqrt(E)) over i - w < j <= i. Memory: rings of w keys and of w values, with
    position p in column p mod w."""

    def __init__(self, d: int, heads: int, width: int) -> None:
        super().__init__(d, heads)
        self.width = width

    def attend(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> Tensor:
        T, w = q_BHTE.size(2), self.width
        if 2 * w >= T:  # as many pairs in one dense tile
            at = torch.arange(T, device=q_BHTE.device)
            age_TT = at[:, None] - at
            near_TT = (age_TT >= 0) & (age_TT < w)
            return F.scaled_dot_product_attention(q_BHTE, k_BHTE, v_BHTE, attn_mask=near_TT)
        tiles = -(-T // w)
        q, k, v = (
            torch.unflatten(F.pad(x, (0, 0, 0, tiles * w - T)), 2, (tiles, w))
            for x in (q_BHTE, k_BHTE, v_BHTE)
        )
        # The tile before the first one holds nothing: its keys are hidden from the first tile.
        k, v = (torch.cat([F.pad(x, (0, 0, 0, 0, 1, 0))[:, :, :-1], x], dim=3) for x in (k, v))
        query, key = torch.arange(w, 2 * w, device=q.device), torch.arange(2 * w, device=q.device)
        age = query[:, None] - key
        near_NQK = ((age >= 0) & (age < w)).repeat(tiles, 1, 1)
        near_NQK[0, :, :w] = False
        read_BHNQE = F.scaled_dot_product_attention(q, k, v, attn_mask=near_NQK)
        return read_BHNQE.flatten(2, 3)[:, :, :T]

    def remember(self, k_BHTE: Tensor, v_BHTE: Tensor, lengths_B: Tensor) -> Memory:
        # Columns of positions not yet fed hold whatever is there; `recall` hides them.
        last_B1 = lengths_B[:, None] - 1
        slot = torch.arange(self.width, device=lengths_B.device)
        position_BC = last_B1 - (last_B1 - slot) % self.width
        index = position_BC.clamp(0, k_BHTE.size(2) - 1)[:, None, :, None]
        return k_BHTE.take_along_dim(index, dim=2), v_BHTE.take_along_dim(index, dim=2)

    def recall(
        self, q_BHE: Tensor, k_BHE: Tensor, v_BHE: Tensor, memory: Memory, position_B: Tensor
    ) -> tuple[Tensor, Memory]:
        rows = torch.arange(len(position_B), device=position_B.device)
        for ring_BHCE, new_BHE in zip(memory, (k_BHE, v_BHE), strict=True):
            ring_BHCE[rows, :, position_B % self.width] = new_BHE
        visible_BC = torch.arange(self.width, device=position_B.device) <= position_B[:, None]
        k_BHCE, v_BHCE = memory
        return read(q_BHE, k_BHCE, v_BHCE, visible_BC), memory
