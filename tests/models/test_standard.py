"""Standard attention: its equation and its parity with torch's FLOPs counter."""

import torch
from gradients import assert_same
from torch.utils.flop_counter import FlopCounterMode

from sweepd.models.standard import CausalAttention, Standard


def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.mT / q.size(-1) ** 0.5
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(later, -torch.inf), -1) @ v


def test_attends_by_its_equation() -> None:
    qkv = torch.randn(3, 2, 4, 37, 8, dtype=torch.float64, requires_grad=True)
    fast, slow = CausalAttention(32, 4).attend(*qkv), naive(*qkv)
    assert_same(fast, slow, [qkv])


def test_flops_are_the_causal_part_of_what_torch_counts() -> None:
    architecture, L = Standard(d=32, layers=1), 48
    q, k, v = torch.randn(3, 1, 4, L, 8)
    with FlopCounterMode(display=False) as counter:
        naive(q, k, v)
    counted = sum(flops for _, flops in architecture.attention_flops(L))
    assert counted * 2 * L == counter.get_total_flops() * (L + 1)  # L(L+1)/2 pairs of L²
