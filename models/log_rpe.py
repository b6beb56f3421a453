"""log-RPE (P2): causal softmax attention whose scores fall with the logarithm of the distance."""

from __future__ import annotations

from dataclasses import dataclass

from sweepd.models.backbone import Attention, Positions
from sweepd.models.base import Architecture
from sweepd.models.relative import RelativeAttention, bias_floats
from sweepd.models.standard import Standard


@dataclass(frozen=True)
class LogRpe(Standard):
    """Causal softmax attention with the bias -p·log(1 + t - s), p > 0 learned per head."""

    positions: Positions = "none"
    """of the embedding or of queries and keys; the bias comes on top"""

    def attention(self, L: int, capacity: int) -> Attention:
        return RelativeAttention(self.d, self.heads, "log")

    def attention_kept(self, L: int) -> tuple[int, int]:
        return Architecture.attention_kept(self, L)[0], bias_floats(L)
