"""TMX (P2): each token chooses the relative positions that it reads, without a query-key product.

P2's formula was not at hand; this is our reading of its role: a cheaper substitute for the
query-key product, in which a lag encoded by the current token meets t - s. The score is

    u_t · φ(t - s) / sqrt(E) - p·distance

where u_t is a linear function of the token at t, and φ(lag) holds cos and -sin of ω·lag for the
E/2 frequencies ω of sinusoidal positions. A token whose u_t is a multiple of φ(some lag) reads
there most. That takes half of the weights of queries and keys, and no cache of keys.

It is computed as rotary attention in which every key is the same vector. The score is the product
of u_t rotated by t and that vector rotated by s.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sweepd.models._relative import RelativeAttention, Rpe, bias_floats
from sweepd.models.base import Attention, TransformerArchitecture, rotated, sinusoids
from sweepd.models.dot_free import DotFree

VERSION = 1


@dataclass(frozen=True)
class Tmx(DotFree):
    """Attention by distance and by a lag that the current token encodes (our reading of P2).

    Source: Wang & E 2024 (P2, arXiv 2402.00522), TMX, by its role. Ours: the formula.

    Family: attention by distance

    Examples:
        x (B, T, d) → u, v (B, H, T, E) → softmax(u_t·φ(t - s) / √E - p·distance) (B, H, T, T)
        → (B, T, d)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.d // self.heads % 2:
            raise ValueError(
                f"d / heads = {self.d} / {self.heads} is odd: a lag is encoded in pairs of features"
            )

    @property
    def qkv_widths(self) -> tuple[int, int, int]:
        return self.d, 0, self.d

    def attention(self, L: int, capacity: int) -> Attention:
        return TmxAttention(self.d, self.heads, self.rpe, self.qkv_widths, capacity)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        pairs = L * (L + 1) // 2
        return [("attention scores", 2 * self.d * pairs), *super().attention_flops(L)]

    def attention_kept(self, L: int) -> tuple[int, int]:
        return TransformerArchitecture.attention_kept(self, L)[0], bias_floats(L)


class TmxAttention(RelativeAttention):
    """softmax(u_t·φ(t - s) / sqrt(E) - p·distance) over s <= t. Memory: values."""

    waves: Tensor
    keys: Tensor

    def __init__(
        self, d: int, heads: int, rpe: Rpe, widths: tuple[int, int, int], capacity: int
    ) -> None:
        super().__init__(d, heads, rpe, widths)
        waves = sinusoids(capacity, d // heads)
        same = torch.tensor([1.0, 0.0]).repeat(d // heads // 2)
        self.register_buffer("waves", waves, persistent=False)
        self.register_buffer("keys", rotated(same, waves), persistent=False)

    def read(self, q_BHQE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, position_BQ: Tensor) -> Tensor:
        turned_BHQE = rotated(q_BHQE, self.waves[position_BQ].unsqueeze(1))
        keys_BHCE = self.keys[: v_BHCE.size(2)].expand_as(v_BHCE)
        return super().read(turned_BHQE, keys_BHCE, v_BHCE, position_BQ)
