"""TMX in its plainest reading (P2): each token scales how much distance counts, and nothing else.

P2's formula was not at hand. `tmx` is our reading of its role; this is the plainest one. The score
of a head is

    -(p + w·x_t)·distance(t - s)

with one number a head that is linear in the token at t: O(d) parameters a head where a product of
queries and keys has O(d²). A token can sharpen, flatten or turn round a head's view of the past.
It cannot choose one lag in the middle with one head, because the weights rise or fall with the
distance all the way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sweepd.models._relative import RelativeAttention, bias_floats
from sweepd.models.base import Attention, TransformerArchitecture
from sweepd.models.dot_free import DotFree

VERSION = 1


@dataclass(frozen=True)
class TmxScale(DotFree):
    """Attention by distance, which each token scales by one number a head (our reading of P2).

    Source: Wang & E 2024 (P2, arXiv 2402.00522), TMX, by its role. Ours: the formula.

    Family: attention by distance

    Examples:
        x (B, T, d) → u (B, H, T, 1), v (B, H, T, E) → softmax(-(p + u_t)·distance) (B, H, T, T)
        → (B, T, d)
    """

    @property
    def qkv_widths(self) -> tuple[int, int, int]:
        return self.heads, 0, self.d

    def attention(self, L: int, capacity: int) -> Attention:
        return TmxScaleAttention(self.d, self.heads, self.rpe, self.qkv_widths)

    def attention_kept(self, L: int) -> tuple[int, int]:
        return TransformerArchitecture.attention_kept(self, L)[0], bias_floats(L)


class TmxScaleAttention(RelativeAttention):
    """softmax(-(p + u_t)·distance) over s <= t. Memory: values."""

    def read(self, q_BHQE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, position_BQ: Tensor) -> Tensor:
        slope_BHQ1 = self.log_slope.exp()[:, None, None] + q_BHQE
        faded_BHQC = self.faded(slope_BHQ1, position_BQ, v_BHCE.size(2))
        return torch.softmax(faded_BHQC, dim=-1) @ v_BHCE
