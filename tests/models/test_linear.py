"""Linear attention: the chunks compute the masked equation, also on hard inputs, and sums are kept
in float32."""

import torch
from gradients import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.models.linear import FEATURES, FeatureMap, Linear, LinearAttention


def naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, name: FeatureMap) -> torch.Tensor:
    features = FEATURES[name]
    weights = (features(q) @ features(k).mT).tril()
    return weights @ v / weights.sum(-1, keepdim=True)


@settings(max_examples=60)
@given(
    T=st.integers(1, 200),
    heads=st.sampled_from([1, 2]),
    head_dim=st.sampled_from([1, 3, 8, 40, 64]),
    name=st.sampled_from(list(FEATURES)),
)
def test_chunks_equal_the_masked_equation(
    T: int, heads: int, head_dim: int, name: FeatureMap
) -> None:
    layer = LinearAttention(heads * head_dim, heads, FEATURES[name])
    qkv = torch.randn(3, 2, heads, T, head_dim, dtype=torch.float64, requires_grad=True)
    q, k, v = qkv
    fast, slow = layer.attend(q, k, v), naive(q, k, v, name)
    assert_same(fast, slow, [qkv])


def test_features_that_underflow_give_zeros() -> None:
    layer = LinearAttention(8, 1, FEATURES["elu"])
    q, k, v = torch.full((3, 1, 1, 50, 8), -200.0).requires_grad_()
    read = layer.attend(q, k, v)
    assert torch.equal(read, torch.zeros_like(read))
    assert all(g.isfinite().all() for g in torch.autograd.grad(read.sum(), (q, k, v)))


def test_sums_are_float32_under_autocast() -> None:
    layer = LinearAttention(32, 2, FEATURES["elu"])
    lengths, position = torch.tensor([2048]), torch.tensor([2048])
    x = torch.randn(1, 2048, 32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        q, k, v = layer.split(x)
        assert q.dtype is torch.bfloat16
        read, (state,) = layer.attend(q, k, v), layer.remember(k, v, lengths)
        step, (after,) = layer.recall(q[:, :, 0], k[:, :, 0], v[:, :, 0], (state,), position)
    assert {t.dtype for t in (read, state, step, after)} == {torch.float32}
    torch.testing.assert_close(read, naive(q.float(), k.float(), v.float(), "elu"))


def test_flops_are_those_of_the_recurrence() -> None:
    architecture, L, d, head_dim = Linear(d=32), 87, 32, 8
    a_token_and_head = 2 * head_dim * (head_dim + 1)  # φ(k)ᵀ [v, 1], and the same for φ(q)
    assert architecture.attention_flops(L) == [
        ("attention state", L * 4 * a_token_and_head),
        ("attention values", L * 4 * a_token_and_head),
    ]
    assert architecture.memory_floats(10) == architecture.memory_floats(1000) == d * (head_dim + 1)
