"""TMX in its plainest reading: its equation, its few weights, and what one head can learn and what
it cannot."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.models._relative import Rpe
from sweepd.models.dot_free import DotFree
from sweepd.models.tmx import Tmx
from sweepd.models.tmx_scale import TmxScale, TmxScaleAttention


def naive(u: torch.Tensor, v: torch.Tensor, p: torch.Tensor, rpe: Rpe) -> torch.Tensor:
    """Word for word: one row, head and position after the other."""
    rows, heads, T, _ = v.shape
    read = torch.zeros_like(v)
    for b in range(rows):
        for h in range(heads):
            for t in range(T):
                far = [math.log(1 + t - s) if rpe == "log" else t - s for s in range(t + 1)]
                scores = -(p[h] + u[b, h, t, 0]) * torch.tensor(far, dtype=v.dtype)
                read[b, h, t] = scores.softmax(0) @ v[b, h, : t + 1]
    return read


@settings(max_examples=20)
@given(
    T=st.integers(1, 12),
    heads=st.integers(1, 3),
    head_dim=st.integers(1, 3),
    rpe=st.sampled_from(["log", "lin"]),
)
def test_attends_by_its_equation(T: int, heads: int, head_dim: int, rpe: Rpe) -> None:
    d = heads * head_dim
    layer = TmxScaleAttention(d, heads, rpe, (heads, 0, d)).double()
    layer.log_slope.data.normal_()
    u, none, v = layer.split(torch.randn(2, T, d, dtype=torch.float64))
    assert u.shape == (2, heads, T, 1)
    fast, slow = layer.attend(u, none, v), naive(u, v, layer.log_slope.exp(), rpe)
    torch.testing.assert_close(fast, slow)


def test_a_token_without_a_say_leaves_dot_free() -> None:
    """With u = 0 the two architectures compute the same."""
    ours = TmxScale(d=8, layers=1, heads=2).build(5, 9, 9, torch.Generator().manual_seed(0))
    theirs = DotFree(d=8, layers=1, heads=2).build(5, 9, 9, torch.Generator().manual_seed(0))
    weights = ours.state_dict()
    (qkv,) = [name for name in weights if name.endswith("qkv.weight")]
    weights[qkv][:2] = 0
    ours.load_state_dict(weights)
    theirs.load_state_dict(
        {name: weight[2:] if ".qkv." in name else weight for name, weight in weights.items()}
    )
    ids = torch.randint(5, (3, 9), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ours(ids), theirs(ids))


@pytest.mark.parametrize("u", [-3.0, 0.0, 3.0])
def test_weights_of_one_head_rise_or_fall_with_the_distance_all_the_way(u: float) -> None:
    layer = TmxScaleAttention(12, 1, "log", (1, 0, 12))
    layer.log_slope.data.fill_(0)
    one_hot = torch.eye(12)[None, None]
    weights = layer.attend(torch.full((1, 1, 12, 1), u), one_hot[..., :0], one_hot)[0, 0, -1]
    steps = weights.diff()
    assert (steps >= 0).all() if 1 + u > 0 else (steps <= 0).all()


def test_costs_what_dot_free_costs_and_one_row_of_weights_a_head() -> None:
    ours, dot_free, tmx = (kind(d=32, heads=4) for kind in (TmxScale, DotFree, Tmx))
    parts = {p.name: p for p in ours.parts(vocab=21, L=87)}
    theirs = {p.name: p for p in dot_free.parts(vocab=21, L=87)}
    assert parts["qkv"].flops - theirs["qkv"].flops == 2 * 87 * ours.layers * 32 * 4
    assert all(parts[name] == theirs[name] for name in parts if name != "qkv")
    assert ours.state_bytes(vocab=21, L=87) == tmx.state_bytes(vocab=21, L=87)
