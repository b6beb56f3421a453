"""Linear attention (Katharopoulos et al. 2020): a running sum in place of a softmax.

Query i reads Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j) over j <= i. With a column of ones beside
the values, numerator and denominator are one product with one state Σ_j φ(k_j)ᵀ [v_j, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from sweepd.models.base import (
    Attention,
    Memory,
    TransformerArchitecture,
    at_least_float32,
    without_autocast,
)

VERSION = 1
FeatureMap = Literal["elu", "relu"]
TINY = 1e-30
"""Least denominator: where every feature has underflowed to 0 the result is 0, not NaN."""


def elu_features(x: Tensor) -> Tensor:
    return F.elu(x) + 1


def relu_features(x: Tensor) -> Tensor:
    return F.relu(x) + 1e-3


FEATURES: dict[FeatureMap, Callable[[Tensor], Tensor]] = {
    "elu": elu_features,
    "relu": relu_features,
}


@dataclass(frozen=True)
class Linear(TransformerArchitecture):
    """Attention whose cost is linear in L and whose decoding state has a constant size.

    Source: Katharopoulos et al. 2020 (arXiv 2006.16236), sections 3.2 and 3.3.

    Family: recurrence

    Examples:
        x (B, T, d) → φ(q), φ(k), v (B, H, T, E) → running sum of φ(k)ᵀ [v, 1] (B, H, E, E + 1),
        read by φ(q) → numerator and denominator (B, H, T, E + 1) → (B, T, d)
    """

    no_rotary: ClassVar[str | None] = (
        "rotated after the feature map, keys may have negative weights; rotated before it, weights "
        "that depend on more than the distance; use sinusoidal, learned or none"
    )

    feature_map: FeatureMap = "elu"
    """φ: elu is elu(x) + 1, the paper's; relu is relu(x) + 0.001"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feature_map not in get_args(FeatureMap):
            known = ", ".join(get_args(FeatureMap))
            raise ValueError(f"feature_map = {self.feature_map!r}: must be one of {known}")

    def attention(self, L: int, capacity: int) -> Attention:
        return LinearAttention(self.d, self.heads, FEATURES[self.feature_map])

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        """Returns the FLOPs of the recurrence, which adds φ(k)ᵀ [v, 1] to the state and multiplies
        φ(q) with it. Training uses the chunked form, which takes more FLOPs (a chunk's scores) and
        fewer steps."""
        product = 2 * self.memory_floats(L) * L
        return [("attention state", product), ("attention values", product)]

    def attention_kept(self, L: int) -> tuple[int, int]:
        """Returns the floats that one layer keeps of a sequence.

        These are what goes into the feature map and what comes out, values with their ones, the
        scores inside each chunk, numerators and denominators. Where there are several chunks, their
        sums and copies of what is summed are added.
        """
        chunks = -(-L // chunk_of(self.d // self.heads))
        length = -(-L // chunks)
        d, heads, padded = self.d, self.heads, chunks * length
        inside = (2 * d + d + heads + heads * length) * padded
        across = (chunks - 1) * length * (2 * d + heads) + chunks * self.memory_floats(L)
        return 2 * d * L + inside + (across if chunks > 1 else 0) + (d + 2 * heads) * L, 0

    def memory_floats(self, L: int) -> int:
        return self.d * (self.d // self.heads + 1)


def chunk_of(width: int) -> int:
    """Returns the most positions that a chunk may have, for heads of that width."""
    return min(max(32, width), 64)


class LinearAttention(Attention):
    """Linear attention by chunks: dense inside a chunk, and through the summed state of all before
    it.

    Sums are kept in float32 at least, also under autocast. Memory: the state (B, H, E, E+1).
    """

    def __init__(self, d: int, heads: int, features: Callable[[Tensor], Tensor]) -> None:
        super().__init__(d, heads)
        self.features = features
        self.chunk = chunk_of(d // heads)

    def attend(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> Tensor:
        T = q_BHTE.size(2)
        chunks = -(-T // self.chunk)
        length = -(-T // chunks)
        with without_autocast(q_BHTE):
            # From here (B, H, chunks, length, E). Padding comes after the feature map, so that it
            # weighs 0; contiguous inputs make that map's backward pass a third faster.
            q, k, v = (at_least_float32(x) for x in (q_BHTE, k_BHTE, v_BHTE))
            q = chunked(self.features(q.contiguous()), chunks, length)
            k = chunked(self.features(k.contiguous()), chunks, length)
            v = chunked(F.pad(v, (0, 1), value=1.0), chunks, length)
            read = (q @ k.mT).tril() @ v
            if chunks > 1:
                sums = (k[:, :, :-1].mT @ v[:, :, :-1]).cumsum(2)
                before = F.pad(sums, (0, 0, 0, 0, 1, 0))
                read = torch.baddbmm(
                    read.flatten(0, 2), q.flatten(0, 2), before.flatten(0, 2)
                ).view_as(read)
            return normalised(read.flatten(2, 3)[:, :, :T])

    def remember(self, k_BHTE: Tensor, v_BHTE: Tensor, lengths_B: Tensor) -> Memory:
        fed_BT = torch.arange(k_BHTE.size(2), device=lengths_B.device) < lengths_B[:, None]
        with without_autocast(k_BHTE):
            k_BHTE, v_BHTE = at_least_float32(k_BHTE), at_least_float32(v_BHTE)
            keys_BHTE = self.features(k_BHTE) * fed_BT[:, None, :, None]
            return (keys_BHTE.mT @ F.pad(v_BHTE, (0, 1), value=1.0),)

    def recall(
        self,
        q_BHE: Tensor,
        k_BHE: Tensor,
        v_BHE: Tensor,
        memory: Memory,
        position_B: Tensor,
    ) -> tuple[Tensor, Memory]:
        (state_BHEE,) = memory
        with without_autocast(q_BHE):
            q_BHE, k_BHE, v_BHE = (at_least_float32(x) for x in (q_BHE, k_BHE, v_BHE))
            ones_beside_v = F.pad(v_BHE, (0, 1), value=1.0)
            state_BHEE.addcmul_(self.features(k_BHE).unsqueeze(-1), ones_beside_v.unsqueeze(-2))
            read = (self.features(q_BHE).unsqueeze(-2) @ state_BHEE).squeeze(-2)
            return normalised(read), memory


def chunked(x_BHTE: Tensor, chunks: int, length: int) -> Tensor:
    """Returns x as (B, H, chunks, length, E), with zeros after position T."""
    if room := chunks * length - x_BHTE.size(2):
        x_BHTE = F.pad(x_BHTE, (0, 0, 0, room))
    return torch.unflatten(x_BHTE, 2, (chunks, length))


def normalised(read: Tensor) -> Tensor:
    """Returns (…, E) from (…, E+1): the numerator over the denominator beside it."""
    return read[..., :-1] / read[..., -1:].clamp_min(TINY)
