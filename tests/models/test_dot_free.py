"""Attention without dot products: its equation, that it does not look at the tokens, and its costs
without q and k."""

import math

import torch
from gradients import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from sweepd.models._relative import Rpe
from sweepd.models.dot_free import DotFree, DotFreeAttention


def naive(v: torch.Tensor, p: torch.Tensor, rpe: Rpe) -> torch.Tensor:
    T = v.size(2)
    lag = [[max(0, t - s) for s in range(T)] for t in range(T)]
    distance = torch.tensor(
        [[math.log(1 + x) if rpe == "log" else float(x) for x in r] for r in lag],
        dtype=torch.float64,
    )
    kernel = torch.exp(-p[:, None, None] * distance).tril()
    return kernel @ v / kernel.sum(-1, keepdim=True)


@settings(max_examples=30)
@given(
    T=st.integers(1, 40),
    heads=st.integers(1, 3),
    head_dim=st.sampled_from([1, 2, 5]),
    rpe=st.sampled_from(["log", "lin"]),
)
def test_attends_by_its_equation(T: int, heads: int, head_dim: int, rpe: Rpe) -> None:
    d = heads * head_dim
    layer = DotFreeAttention(d, heads, rpe, (0, 0, d)).double()
    layer.log_slope.data.normal_()
    q, k, v = layer.split(torch.randn(2, T, d, dtype=torch.float64))
    assert q.shape == k.shape == (2, heads, T, 0)
    fast, slow = layer.attend(q, k, v), naive(v, layer.log_slope.exp(), rpe)
    assert_same(fast, slow, (layer.qkv.weight, layer.log_slope))


def test_flops_are_the_causal_part_of_what_torch_counts() -> None:
    architecture, L = DotFree(d=32, layers=1), 48
    layer = architecture.attention(L, L)
    v = torch.randn(1, 4, L, 8)
    with FlopCounterMode(display=False) as counter:
        layer.attend(v[..., :0], v[..., :0], v)
    counted = sum(flops for _, flops in architecture.attention_flops(L))
    assert counted * 2 * L == counter.get_total_flops() * (L + 1)  # L(L+1)/2 pairs of L²


def test_there_are_no_weights_of_queries_and_keys() -> None:
    layer = DotFree(d=32).attention(48, 48)
    assert layer.qkv.weight.shape == (32, 32)
    parts = {part.name: part for part in DotFree(d=32).parts(vocab=21, L=48)}
    assert parts["qkv"].flops == parts["attention output"].flops
