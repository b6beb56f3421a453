"""Attention over a cache of all earlier keys and values, one column for each position."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from sweepd.models._backbone import Attention, Memory


class CachedAttention(Attention):
    """Attention whose memory is every key and value so far.

    A subclass says how queries read this memory: `read` for some queries, `attend` for all at once.
    """

    @abstractmethod
    def read(self, q_BHQE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, position_BQ: Tensor) -> Tensor:
        """Returns (B, H, Q, E): what queries at `position_BQ` read of the columns 0 to C - 1."""

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


def extended(memory: Memory, new: tuple[Tensor, ...], position_B: Tensor, columns: int) -> Memory:
    """Returns the caches with each row's new vectors (B, H, E) at `position_B`. Each cache is at
    least `columns` wide. The given caches may be changed in place."""
    memory = tuple(widened(cache_BHCE, columns) for cache_BHCE in memory)
    rows = torch.arange(len(position_B), device=position_B.device)
    for cache_BHCE, new_BHE in zip(memory, new, strict=True):
        cache_BHCE[rows, :, position_B] = new_BHE
    return memory


def widened(tensor_BHCE: Tensor, columns: int) -> Tensor:
    """Returns the cache with room for at least `columns` columns. It grows by half, so copies stay
    rare."""
    width = tensor_BHCE.size(2)
    if columns <= width:
        return tensor_BHCE
    return F.pad(tensor_BHCE, (0, 0, 0, max(columns, width + width // 2) - width))
