"""lin-RPE (P2): causal softmax attention whose scores fall linearly with distance."""

from __future__ import annotations

from dataclasses import dataclass

from sweepd.models.backbone import Attention, Positions
from sweepd.models.base import Architecture
from sweepd.models.relative import RelativeAttention, bias_floats
from sweepd.models.standard import Standard


@dataclass(frozen=True)
class LinRpe(Standard):
    """Causal softmax attention with the bias -p·(t - s), p > 0 learned per head."""

    positions: Positions = "none"
    """of the embedding or of queries and keys; the bias comes on top"""

    def attention(self, L: int, capacity: int) -> Attention:
        return RelativeAttention(self.d, self.heads, "lin")

    def attention_kept(self, L: int) -> tuple[int, int]:
        return Architecture.attention_kept(self, L)[0], bias_floats(L)
