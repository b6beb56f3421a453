"""Attention whose scores hold a bias by distance, which P2's four architectures share.

RPE (relative positional encoding) adds -p·distance to the score of a key that stands t - s
positions before its query, with p > 0 learned per head. P2 (Wang & E 2024, arXiv 2402.00522) has
the distance t - s ("lin") or log(t - s) ("log").

Three things are ours. The distance "log" is log(1 + t - s) in place of log(t - s), so that a
position can read itself and the first position has something to read. (P2's kernels of a power of
the lag are thereby shifted by one.) p is exp(log_slope), which weight decay pulls towards 1.
`slopes` says where p starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sweepd.models._cache import CachedAttention

Rpe = Literal["log", "lin"]

DISTANCE: dict[Rpe, Callable[[Tensor], Tensor]] = {"log": torch.log1p, "lin": lambda lag: lag}
FIRST_SLOPE: dict[Rpe, float] = {"log": 16.0, "lin": 1.0}


def bias_floats(L: int) -> int:
    """Returns how many floats one layer keeps of its bias: for each pair of positions its distance,
    and one byte of the mask."""
    return L**2 + L**2 // 4


def slopes(heads: int, rpe: Rpe) -> Tensor:
    """Returns (H,) the values at which p starts. They are ALiBi's (Press et al. 2022) 2^(-8h/H) for
    h = 1 to H, so that the heads see far and near. For log they are 16 times these, since p is an
    exponent there and 1 is its middle."""
    return FIRST_SLOPE[rpe] * 2.0 ** (-8 * torch.arange(1, heads + 1) / heads)


class RelativeAttention(CachedAttention):
    """softmax(q·k / sqrt(E) - p·distance) over s <= t.

    Subclasses put something else in the place of q·k, by `read` and the widths of queries and keys.
    A memory of keys without width costs nothing.
    """

    def __init__(
        self, d: int, heads: int, rpe: Rpe, widths: tuple[int, int, int] | None = None
    ) -> None:
        super().__init__(d, heads, widths)
        self.distance = DISTANCE[rpe]
        self.log_slope = nn.Parameter(slopes(heads, rpe).log())

    def read(self, q_BHQE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, position_BQ: Tensor) -> Tensor:
        """Returns what the queries read. A first dimension of 1 in position_BQ stands for all
        rows."""
        bias_BHQC = self.bias(position_BQ, k_BHCE.size(2))
        return F.scaled_dot_product_attention(q_BHQE, k_BHCE, v_BHCE, attn_mask=bias_BHQC)

    def bias(self, position_BQ: Tensor, columns: int) -> Tensor:
        """Returns (B, H, Q, C): -p·distance, and -inf for columns after the query."""
        return self.faded(self.log_slope.exp()[:, None, None], position_BQ, columns)

    def faded(self, slope_BHQ1: Tensor, position_BQ: Tensor, columns: int) -> Tensor:
        """Returns (B, H, Q, C): -slope·distance, and -inf for columns after the query."""
        lag_BQC = position_BQ[:, :, None] - torch.arange(columns, device=position_BQ.device)
        distance_BQC = self.distance(lag_BQC.clamp(min=0).to(self.log_slope.dtype))
        faded_BHQC = -slope_BHQ1 * distance_BQC[:, None]
        return faded_BHQC.masked_fill(lag_BQC[:, None] < 0, -torch.inf)

    def attend(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> Tensor:
        position_1T = torch.arange(v_BHTE.size(2), device=v_BHTE.device)[None]
        return self.read(q_BHTE, k_BHTE, v_BHTE, position_1T)
