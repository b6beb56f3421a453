"""log-RPE (P2): causal softmax attention whose scores fall with the logarithm of the distance."""

from __future__ import annotations

from dataclasses import dataclass

from sweepd.models._relative import RelativeAttention, bias_floats
from sweepd.models.base import Attention, Positions, TransformerArchitecture
from sweepd.models.standard import Standard

VERSION = 1


@dataclass(frozen=True)
class LogRpe(Standard):
    """Causal softmax attention with the bias -p·log(1 + t - s), p > 0 learned per head.

    Source: Wang & E 2024 (P2, arXiv 2402.00522), log-RPE. Ours: 1 + t - s in place of t - s, and
    where p starts.

    Family: attention by distance

    Examples:
        x (B, T, d) → q, k, v (B, H, T, E) → softmax(q·k / √E - p·log(1 + t - s)) (B, H, T, T)
        → (B, T, d)
    """

    positions: Positions = "none"
    """of the embedding or of queries and keys; the bias comes on top"""

    def attention(self, L: int, capacity: int) -> Attention:
        return RelativeAttention(self.d, self.heads, "log")

    def attention_kept(self, L: int) -> tuple[int, int]:
        return TransformerArchitecture.attention_kept(self, L)[0], bias_floats(L)
