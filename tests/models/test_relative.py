"""Attention with a bias by distance: its equation, the gradient of its parameter p, and the value
at which p starts."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.models._relative import RelativeAttention, Rpe, slopes
from sweepd.models.lin_rpe import LinRpe


def naive(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, p: torch.Tensor, rpe: Rpe
) -> torch.Tensor:
    """One score, one softmax and one sum at a time."""
    rows, heads, T, head_dim = q.shape
    read = torch.empty_like(v)
    for b, h, t in ((b, h, t) for b in range(rows) for h in range(heads) for t in range(T)):
        scores = [
            q[b, h, t] @ k[b, h, s] / head_dim**0.5
            - p[h] * (math.log(1 + t - s) if rpe == "log" else t - s)
            for s in range(t + 1)
        ]
        read[b, h, t] = torch.stack(scores).softmax(0) @ v[b, h, : t + 1]
    return read


@settings(max_examples=25)
@given(
    T=st.integers(1, 12),
    heads=st.integers(1, 3),
    head_dim=st.sampled_from([1, 2, 5]),
    rpe=st.sampled_from(["log", "lin"]),
)
def test_attends_by_its_equation(T: int, heads: int, head_dim: int, rpe: Rpe) -> None:
    layer = RelativeAttention(heads * head_dim, heads, rpe).double()
    layer.log_slope.data.normal_()
    inputs = torch.randn(3, 2, heads, T, head_dim, dtype=torch.float64, requires_grad=True)
    q, k, v = inputs
    fast, slow = layer.attend(q, k, v), naive(q, k, v, layer.log_slope.exp(), rpe)
    torch.testing.assert_close(fast, slow)
    weight = torch.randn_like(fast)
    wanted = (inputs, layer.log_slope)
    gradients = [torch.autograd.grad((read * weight).sum(), wanted) for read in (fast, slow)]
    torch.testing.assert_close(*gradients)


def test_slopes_start_apart_and_are_trained() -> None:
    torch.testing.assert_close(slopes(4, "lin"), torch.tensor([1 / 4, 1 / 16, 1 / 64, 1 / 256]))
    torch.testing.assert_close(slopes(4, "log"), torch.tensor([4, 1, 1 / 4, 1 / 16]))
    model = LinRpe(16, layers=2).build(5, 10, 10, torch.Generator().manual_seed(0))
    model(torch.randint(5, (2, 10))).logsumexp(-1).sum().backward()
    for block in model.blocks:
        assert isinstance(block.attention, RelativeAttention)
        log_slope = block.attention.log_slope
        torch.testing.assert_close(log_slope.detach().exp(), slopes(4, "lin"))
        assert log_slope.grad is not None
        assert log_slope.grad.all()
