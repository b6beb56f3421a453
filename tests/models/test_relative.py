"""Attention with a bias by distance (lin_rpe, log_rpe): its equation, the gradient of its parameter
p, the value at which p starts, and its costs."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from gradients import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sweepd.models._relative import RelativeAttention, Rpe, slopes
from sweepd.models.lin_rpe import LinRpe
from sweepd.models.log_rpe import LogRpe
from sweepd.models.standard import Standard


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
    assert_same(fast, slow, (inputs, layer.log_slope))


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


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [(LinRpe, lambda lag, p: torch.exp(-p * lag)), (LogRpe, lambda lag, p: (1 + lag) ** -p)],
)
def test_where_queries_say_nothing_the_distance_decides(
    kind: type[LinRpe] | type[LogRpe], kernel: Callable[[Tensor, Tensor], Tensor]
) -> None:
    layer = kind(8, heads=2).attention(L=50, capacity=50)
    assert isinstance(layer, RelativeAttention)
    nothing, v = torch.zeros(1, 2, 50, 4), torch.eye(50).expand(1, 2, 50, 50)
    weights = layer.attend(nothing, nothing, v)[0, :, -1]
    expected = kernel(torch.arange(49, -1, -1.0), layer.log_slope.exp()[:, None])
    torch.testing.assert_close(weights, expected / expected.sum(-1, keepdim=True))


@pytest.mark.parametrize("kind", [LinRpe, LogRpe])
def test_costs_are_those_of_standard_attention(kind: type[LinRpe] | type[LogRpe]) -> None:
    ours, standard = kind(32), Standard(32)
    assert ours.parts(vocab=21, L=87) == standard.parts(vocab=21, L=87)
    assert ours.state_bytes(vocab=21, L=87) == standard.state_bytes(vocab=21, L=87)
    assert ours.positions == "none"  # the bias is all that it knows of positions
