"""Dot-product-free (P2): attention by distance alone, the same for every token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import torch
from torch import Tensor

from sweepd.models._relative import RelativeAttention, Rpe, bias_floats
from sweepd.models.base import Attention, Positions, TransformerArchitecture

VERSION = 1


@dataclass(frozen=True)
class DotFree(TransformerArchitecture):
    """Attention with the score -p·distance, p > 0 learned per head: no queries and no keys.

    P2 proves it sufficient for memories at fixed lags, and insufficient for adaptive ones.

    Source: Wang & E 2024 (P2, arXiv 2402.00522), dot-product-free attention. Ours: as for
    `log_rpe`.

    Family: attention by distance

    Examples:
        x (B, T, d) → v (B, H, T, E), weighted by softmax(-p·distance) (1, H, T, T) → (B, T, d)
    """

    no_rotary: ClassVar[str | None] = (
        "there is no product of queries and keys to rotate; use none, sinusoidal or learned"
    )

    positions: Positions = "none"
    """of the embedding; the score knows distances without them"""
    rpe: Rpe = "log"
    """distance: log is log(1 + t - s), lin is t - s"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rpe not in get_args(Rpe):
            raise ValueError(f"rpe = {self.rpe!r}: must be one of {', '.join(get_args(Rpe))}")

    @property
    def qkv_widths(self) -> tuple[int, int, int]:
        return 0, 0, self.d

    def attention(self, L: int, capacity: int) -> Attention:
        return DotFreeAttention(self.d, self.heads, self.rpe, self.qkv_widths)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        pairs = L * (L + 1) // 2
        return [("attention values", 2 * self.d * pairs)]

    def attention_kept(self, L: int) -> tuple[int, int]:
        """Returns the floats that one layer keeps. Weights and bias are kept once for the whole
        batch, since all rows share them."""
        return self.d * L, self.heads * L**2 + bias_floats(L)

    def memory_floats(self, L: int) -> int:
        return self.d * L


class DotFreeAttention(RelativeAttention):
    """softmax(-p·distance) over s <= t: one weight matrix a head, shared by all rows."""

    def read(self, q_BHQE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, position_BQ: Tensor) -> Tensor:
        weights_BHQC = torch.softmax(self.bias(position_BQ, v_BHCE.size(2)), dim=-1)
        # Unlike @, einsum does not copy weights that all rows share for each row.
        return torch.einsum("bhqc,bhce->bhqe", weights_BHQC, v_BHCE)
