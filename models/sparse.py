"""Sparse (Child et al. 2019, the "fixed" pattern): a local window and the last columns of blocks.

Query i (1-based) reads the keys {j <= i : i - kB < j} (local) and {j <= i : (j-1) mod B >= B - c}
(summaries); a key that is both counts once. Positions below are 0-based.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from sweepd.models.base import Attention, Memory, TransformerArchitecture, read

VERSION = 1
SHORT = 64
"""Sequences up to this length are one dense tile, which is then the fastest."""


@dataclass(frozen=True)
class BlockRule:
    """B as a multiple of the root of the task's length: `round(of_sqrt · sqrt(L))`."""

    of_sqrt: float

    def __post_init__(self) -> None:
        if not 0 < self.of_sqrt < math.inf:
            raise ValueError(f"of_sqrt = {self.of_sqrt}: must be above 0")

    def at(self, L: int) -> int:
        return max(1, round(self.of_sqrt * math.sqrt(L)))


@dataclass(frozen=True)
class Sparse(TransformerArchitecture):
    """Attention to the last k blocks of B positions and to the last c positions of every block.

    B = 2^floor(log2(sqrt(L))) unless `block` is set, to a number or to a multiple of sqrt(L). L is
    the task's length, not the row's.

    Source: Child et al. 2019 (arXiv 1904.10509), the "fixed" pattern, with the c and B of Yang et
    al. 2024 (P1, arXiv 2402.13934). Ours: k = 1, which P1 does not give; a key that is both near
    and a summary counts once.

    Family: attention

    Examples:
        x (B, T, d) → q, k, v (B, H, T, E) → tiles of queries (B, H, N, Q, E) against the keys that
        each tile may see (B, H, N, K, E) → softmax (B, H, N, Q, K) → (B, T, d)
    """

    block: int | BlockRule | None = None
    """B; `{of_sqrt: 1}` holds B / sqrt(L) constant; None takes the paper's powers of two, which
    jump as L grows"""
    k: int = 1
    c: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("block", "k", "c"):
            value = getattr(self, name)
            if isinstance(value, int) and value < 1:
                raise ValueError(f"{name} = {value}: must be at least 1")

    def block_at(self, L: int) -> int:
        """Returns B for a task of length L. Raises ValueError if the block does not fit L, or c the
        block."""
        rule = self.block
        block = rule.at(L) if isinstance(rule, BlockRule) else rule
        block = block or 1 << (L.bit_length() - 1) // 2
        if block > L:
            raise ValueError(f"block = {block} is larger than L = {L}")
        if self.c > block:
            raise ValueError(f"c = {self.c} is larger than the block, {block} at L = {L}")
        return block

    def attention(self, L: int, capacity: int) -> Attention:
        return SparseAttention(self.d, self.heads, self.block_at(L), self.k, self.c, capacity)

    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        window = self.k * self.block_at(L)
        pairs = sum(min(i, window) + self.distant(L, i) for i in range(1, L + 1))
        return [("attention scores", 2 * self.d * pairs), ("attention values", 2 * self.d * pairs)]

    def attention_kept(self, L: int) -> tuple[int, int]:
        """Returns the floats that one layer keeps of a sequence: each tile's queries, copies of its
        keys and values, and all its weights. A sequence of one dense tile keeps what fused
        attention does."""
        window = self.k * self.block_at(L)
        if short(window) >= L:
            return self.fused_kept(L), 0
        tile = tile_of(window)
        summaries = (L - 1 - window + self.c) // self.block_at(L) * self.c
        keys = window - 1 + tile + summaries
        tiles = -(-L // tile)
        return tiles * (self.d * (tile + 2 * keys) + self.heads * tile * keys), 0

    def memory_floats(self, L: int) -> int:
        """Returns the floats of the last kB keys and values, and of those of the summaries before
        them."""
        return 2 * self.d * (min(L, self.k * self.block_at(L)) + self.distant(L, L))

    def distant(self, L: int, i: int) -> int:
        """Returns how many summaries query i (1-based) reads from before its local window."""
        block = self.block_at(L)
        blocks, rest = divmod(max(0, i - self.k * block), block)
        return blocks * self.c + max(0, rest - (block - self.c))


def tile_of(window: int) -> int:
    """Returns how many queries a tile has, for a local window of that many keys."""
    return max(16, 2 * window)


def short(window: int) -> int:
    """Returns the greatest length at which a sequence is one dense tile."""
    return max(SHORT, tile_of(window))


class SparseAttention(Attention):
    """Sparse attention by tiles of queries, each against its local span and the summary columns.

    The cost is proportional to T·(kB + T·c/B). The memory of a row is one buffer of keys and one of
    values. Each holds a ring of the last kB positions (position p in column p mod kB), and then the
    summaries in order.
    """

    short_mask: Tensor
    tile_mask: Tensor
    summary: Tensor

    def __init__(self, d: int, heads: int, block: int, k: int, c: int, capacity: int) -> None:
        super().__init__(d, heads)
        self.block, self.window, self.c = block, k * block, c
        self.tile, self.short = tile_of(self.window), short(self.window)

        position = torch.arange(min(self.short, capacity))
        visible = self.local(position[:, None], position) | (
            (position <= position[:, None]) & (position % block >= block - c)
        )
        self.buffer("short_mask", additive(visible))

        blocks = torch.arange((capacity - 1) // block + 1)
        self.buffer("summary", (blocks[:, None] * block + torch.arange(block - c, block)).flatten())
        start = torch.arange(0, capacity, self.tile)[:, None, None]
        query = start + torch.arange(self.tile)[:, None]
        span = start + torch.arange(1 - self.window, self.tile)
        local = self.local(query, span) & (span >= 0)
        distant = self.summary <= query - self.window
        self.buffer("tile_mask", additive(torch.cat([local, distant], dim=-1)))

    def buffer(self, name: str, tensor: Tensor) -> None:
        self.register_buffer(name, tensor, persistent=False)

    def local(self, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (key > query - self.window)

    def attend(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> Tensor:
        T = q_BHTE.size(2)
        if q_BHTE.size(2) <= self.short:
            mask_TT = self.short_mask[:T, :T]
            return F.scaled_dot_product_attention(q_BHTE, k_BHTE, v_BHTE, attn_mask=mask_TT)
        tiles = -(-T // self.tile)
        room = tiles * self.tile - T
        q_BHNQE = torch.unflatten(F.pad(q_BHTE, (0, 0, 0, room)), 2, (tiles, self.tile))
        k_BHNKE = self.keys_of_tiles(k_BHTE, tiles)
        v_BHNKE = self.keys_of_tiles(v_BHTE, tiles)
        scores_BHNQK = (q_BHNQE * q_BHNQE.size(-1) ** -0.5) @ k_BHNKE.mT
        scores_BHNQK += self.tile_mask[:tiles, :, : k_BHNKE.size(3)]
        read_BHNQE = torch.softmax(scores_BHNQK, dim=-1) @ v_BHNKE
        return read_BHNQE.flatten(2, 3)[:, :, :T]

    def keys_of_tiles(self, x_BHTE: Tensor, tiles: int) -> Tensor:
        """Returns (B, H, tiles, K, E): what the queries of each tile may read. These are the window
        - 1 positions before the tile, the tile, and the summaries before the last query's
        window."""
        T = x_BHTE.size(2)
        padding = (0, 0, self.tile, tiles * self.tile - T)  # a tile of zeros before the first
        x_BHNQE = torch.unflatten(F.pad(x_BHTE, padding), 2, (tiles + 1, self.tile))
        before = x_BHNQE[:, :, :-1, self.tile - self.window + 1 :]
        blocks = (T - 1 - self.window + self.c) // self.block
        whole = torch.unflatten(x_BHTE[:, :, : blocks * self.block], 2, (blocks, self.block))
        summaries = whole[:, :, :, self.block - self.c :].flatten(2, 3)
        shared = summaries[:, :, None].expand(-1, -1, tiles, -1, -1)
        return torch.cat([before, x_BHNQE[:, :, 1:], shared], dim=3)

    def remember(self, k_BHTE: Tensor, v_BHTE: Tensor, lengths_B: Tensor) -> Memory:
        # Columns of positions not yet fed hold whatever is there; `recall` sees none of them
        # before it has overwritten them.
        last_B1 = lengths_B[:, None] - 1
        slot = torch.arange(self.window, device=lengths_B.device)
        ring_BC = last_B1 - (last_B1 - slot) % self.window
        position_BC = torch.cat([ring_BC, self.summary.expand(len(lengths_B), -1)], dim=1)
        index = position_BC.clamp(0, k_BHTE.size(2) - 1)[:, None, :, None]
        return k_BHTE.take_along_dim(index, dim=2), v_BHTE.take_along_dim(index, dim=2)

    def recall(
        self, q_BHE: Tensor, k_BHE: Tensor, v_BHE: Tensor, memory: Memory, position_B: Tensor
    ) -> tuple[Tensor, Memory]:
        rows = torch.arange(len(position_B), device=position_B.device)
        # Every position before a block's summaries writes to the first of their columns, which is
        # hidden until the summary itself has been written there.
        in_block = (position_B % self.block - (self.block - self.c)).clamp(min=0)
        column_B = self.window + position_B // self.block * self.c + in_block
        for buffer_BHCE, new_BHE in zip(memory, (k_BHE, v_BHE), strict=True):
            buffer_BHCE[rows, :, position_B % self.window] = new_BHE
            buffer_BHCE[rows, :, column_B] = new_BHE
        position_B1 = position_B[:, None]
        slot = torch.arange(self.window, device=position_B.device)
        visible_BC = torch.cat(
            [slot <= position_B1, self.summary <= position_B1 - self.window], dim=1
        )
        k_BHCE, v_BHCE = memory
        return read(q_BHE, k_BHCE, v_BHCE, visible_BC), memory


def additive(visible: Tensor) -> Tensor:
    """Returns a bias that is 0 where a key is visible and -inf elsewhere."""
    return torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)
