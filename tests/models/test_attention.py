"""Attention by a softmax over all that came before: standard, with a bias by distance (lin_rpe,
log_rpe), without dot products, and TMX in two readings. Each has its equation, its costs, and what
it can learn."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gradients import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sweepd.models._relative import RelativeAttention, Rpe, slopes
from sweepd.models.base import Architecture, TransformerArchitecture
from sweepd.models.dot_free import DotFree, DotFreeAttention
from sweepd.models.lin_rpe import LinRpe
from sweepd.models.log_rpe import LogRpe
from sweepd.models.standard import CausalAttention, Standard
from sweepd.models.tmx import Tmx, TmxAttention
from sweepd.models.tmx_scale import TmxScale, TmxScaleAttention


def features(lag: int, head_dim: int) -> Tensor:
    """φ(lag) of TMX, word for word."""
    values: list[float] = []
    for i in range(0, head_dim, 2):
        angle = lag * 10000 ** (-i / head_dim)
        values += [math.cos(angle), -math.sin(angle)]
    return torch.tensor(values, dtype=torch.float64)


def products(q: Tensor, k: Tensor) -> Tensor:
    scores: Tensor = q @ k.mT / q.size(-1) ** 0.5
    return scores


def lags_read(u: Tensor) -> Tensor:
    """What a token of TMX says of each place before it, [t, s]."""
    T, head_dim = u.shape[2:]
    phi = torch.stack([features(lag, head_dim) for lag in range(T)])
    lag = (torch.arange(T)[:, None] - torch.arange(T)).clamp(min=0)
    scores: Tensor = torch.einsum("bhtd,tsd->bhts", u, phi[lag]) / head_dim**0.5
    return scores


EQUATIONS: dict[str, tuple[Callable[..., Any], int, Callable[..., Tensor]]] = {
    "standard": (
        lambda d, heads, rpe, T: CausalAttention(d, heads),
        1,
        lambda q, k, p, far: products(q, k),
    ),
    "relative": (
        lambda d, heads, rpe, T: RelativeAttention(d, heads, rpe),
        1,
        lambda q, k, p, far: products(q, k) - p * far,
    ),
    "dot_free": (
        lambda d, heads, rpe, T: DotFreeAttention(d, heads, rpe, (0, 0, d)),
        0,
        lambda q, k, p, far: -p * far,
    ),
    "tmx": (
        lambda d, heads, rpe, T: TmxAttention(d, heads, rpe, (d, 0, d), capacity=T + 3),
        1,
        lambda u, none, p, far: lags_read(u) - p * far,
    ),
    "tmx_scale": (
        lambda d, heads, rpe, T: TmxScaleAttention(d, heads, rpe, (heads, 0, d)),
        1,
        lambda u, none, p, far: -(p + u) * far,
    ),
}
"""By name: the layer, whether its queries have any width, and its scores [t, s] before the mask."""


@pytest.mark.parametrize("name", EQUATIONS)
@settings(max_examples=20)
@given(
    T=st.integers(1, 20),
    heads=st.integers(1, 3),
    half=st.integers(1, 3),
    rpe=st.sampled_from(["log", "lin"]),
)
def test_attends_by_its_equation(name: str, T: int, heads: int, half: int, rpe: Rpe) -> None:
    make, has_queries, scores = EQUATIONS[name]
    head_dim = 2 * half if name == "tmx" else half
    layer = make(heads * head_dim, heads, rpe, T).double()
    given = torch.randn(3, 2, heads, T, head_dim, dtype=torch.float64, requires_grad=True)
    q, k, v = given
    q = q[..., : 1 if name == "tmx_scale" else head_dim * has_queries]
    k = k if name in ("standard", "relative") else k[..., :0]
    p, inputs = torch.zeros(heads, 1, 1), [given]
    if name != "standard":
        layer.log_slope.data.normal_()
        p, inputs = layer.log_slope.exp()[:, None, None], [given, layer.log_slope]
    lag = (torch.arange(T)[:, None] - torch.arange(T)).clamp(min=0).double()
    far = torch.log(1 + lag) if rpe == "log" else lag
    later = torch.ones(T, T, dtype=torch.bool).triu(1)
    slow = scores(q, k, p, far).masked_fill(later, -torch.inf).softmax(-1) @ v
    atol = 1e-5 if name == "tmx" else None  # its waves are float32
    assert_same(layer.attend(q, k, v), slow, inputs, atol=atol)


@pytest.mark.parametrize("kind", [Standard, DotFree])
def test_flops_are_the_causal_part_of_what_torch_counts(kind: type[Standard | DotFree]) -> None:
    architecture, L = kind(d=32, layers=1), 48
    q, k, v = torch.randn(3, 1, 4, L, 8)
    with FlopCounterMode(display=False) as counter:
        if isinstance(architecture, DotFree):
            architecture.attention(L, L).attend(v[..., :0], v[..., :0], v)
        else:
            products(q, k).softmax(-1) @ v
    counted = sum(flops for _, flops in architecture.attention_flops(L))
    assert counted * 2 * L == counter.get_total_flops() * (L + 1)  # L(L+1)/2 pairs of L²


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


@pytest.mark.parametrize(
    ("kind", "kin", "qkv"),
    [
        (LinRpe, Standard, 1),
        (LogRpe, Standard, 1),
        (Tmx, Standard, 2 / 3),
        (TmxScale, DotFree, None),
    ],
)
def test_beside_queries_and_keys_it_costs_what_its_kin_does(
    kind: type[TransformerArchitecture], kin: type[TransformerArchitecture], qkv: float | None
) -> None:
    """tests/models/test_architecture.py counts what queries and keys cost."""
    ours, theirs = ({p.name: p for p in k(d=32).parts(vocab=21, L=87)} for k in (kind, kin))
    assert ours.keys() == theirs.keys() and kind(32).positions == "none"
    assert all(ours[name] == theirs[name] for name in ours if name != "qkv")
    assert qkv is None or ours["qkv"].flops == pytest.approx(qkv * theirs["qkv"].flops)


@pytest.mark.parametrize("lag", [0, 1, 7, 40])
def test_a_token_that_encodes_a_lag_reads_there(lag: int) -> None:
    layer = TmxAttention(16, 2, "log", (16, 0, 16), capacity=60)
    layer.log_slope.data.fill_(-20)  # no bias to speak of
    u = 100 * features(lag, 8).float().expand(1, 2, 60, 8)
    places = torch.arange(60.0)[:, None].expand(1, 2, 60, 8)
    read = layer.attend(u, u[..., :0], places)
    torch.testing.assert_close(read[:, :, lag:], places[:, :, lag:] - lag, atol=0.1, rtol=0)


def accuracy_on_chosen_lags(architecture: Architecture) -> float:
    """After 200 steps on y_t = x_{t - 2 (x_t + 1)} over 6 tokens, where that position exists."""
    vocab, T, longest = 6, 30, 12
    generator = torch.Generator().manual_seed(0)
    model = architecture.build(vocab, T, T, generator)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def batch(rows: int) -> tuple[Tensor, Tensor]:
        x = torch.randint(vocab, (rows, T), generator=generator)
        source = torch.arange(T) - 2 * (x + 1)
        return x, x.gather(1, source.clamp(min=0))[:, longest:]

    for _ in range(200):
        x, y = batch(32)
        loss = F.cross_entropy(model(x)[:, longest:].flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    x, y = batch(200)
    return float((model(x)[:, longest:].argmax(-1) == y).float().mean())


def test_learns_lags_that_the_token_chooses_which_dot_free_cannot() -> None:
    """P2's claim on adaptive memories, at its smallest."""
    assert accuracy_on_chosen_lags(Tmx(16, layers=1, heads=2)) > 0.95
    assert accuracy_on_chosen_lags(DotFree(16, layers=1, heads=2)) < 0.5
    assert accuracy_on_chosen_lags(DotFree(16, layers=1, heads=2, rpe="lin")) < 0.5


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
def test_weights_of_one_head_of_tmx_scale_rise_or_fall_all_the_way(
    u: float,
) -> None:
    layer = TmxScaleAttention(12, 1, "log", (1, 0, 12))
    layer.log_slope.data.fill_(0)
    one_hot = torch.eye(12)[None, None]
    weights = layer.attend(torch.full((1, 1, 12, 1), u), one_hot[..., :0], one_hot)[0, 0, -1]
    steps = weights.diff()
    assert (steps >= 0).all() if 1 + u > 0 else (steps <= 0).all()
