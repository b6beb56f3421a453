"""TMX: its equation, the queries and keys with half of the weights, and lags that a token
chooses."""

import math

import pytest
import torch
from gradients import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from sweepd.models._relative import Rpe
from sweepd.models.base import Architecture
from sweepd.models.dot_free import DotFree
from sweepd.models.standard import Standard
from sweepd.models.tmx import Tmx, TmxAttention


def features(lag: int, head_dim: int) -> torch.Tensor:
    """φ(lag), word for word."""
    values: list[float] = []
    for i in range(0, head_dim, 2):
        angle = lag * 10000 ** (-i / head_dim)
        values += [math.cos(angle), -math.sin(angle)]
    return torch.tensor(values, dtype=torch.float64)


def naive(u: torch.Tensor, v: torch.Tensor, p: torch.Tensor, rpe: Rpe) -> torch.Tensor:
    """All rows and heads at once, one position after the other."""
    T, head_dim = u.shape[2:]
    reads = []
    for t in range(T):
        lags = [t - s for s in range(t + 1)]
        phi = torch.stack([features(lag, head_dim) for lag in lags])
        distance = torch.tensor([math.log(1 + lag) if rpe == "log" else lag for lag in lags])
        scores = u[:, :, t] @ phi.mT / head_dim**0.5 - p[:, None] * distance
        reads.append(scores.softmax(-1)[:, :, None] @ v[:, :, : t + 1])
    return torch.cat(reads, dim=2)


@settings(max_examples=30)
@given(
    T=st.integers(1, 20),
    heads=st.integers(1, 3),
    head_dim=st.sampled_from([2, 4, 6]),
    rpe=st.sampled_from(["log", "lin"]),
)
def test_attends_by_its_equation(T: int, heads: int, head_dim: int, rpe: Rpe) -> None:
    d = heads * head_dim
    layer = TmxAttention(d, heads, rpe, (d, 0, d), capacity=T + 3).double()
    layer.log_slope.data.normal_()
    u, none, v = layer.split(torch.randn(2, T, d, dtype=torch.float64))
    fast, slow = layer.attend(u, none, v), naive(u, v, layer.log_slope.exp(), rpe)
    wanted = (layer.qkv.weight, layer.log_slope)
    assert_same(fast, slow, wanted, atol=1e-5)  # the waves are float32


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

    def batch(rows: int) -> tuple[torch.Tensor, torch.Tensor]:
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


def test_costs_half_of_the_weights_and_of_the_cache() -> None:
    tmx, standard = Tmx(d=32), Standard(d=32)
    ours, theirs = ({p.name: p for p in a.parts(vocab=21, L=87)} for a in (tmx, standard))
    assert ours.keys() == theirs.keys()
    assert 3 * ours["qkv"].flops == 2 * theirs["qkv"].flops
    assert all(ours[name] == theirs[name] for name in ours if name != "qkv")
    assert 2 * tmx.state_bytes(vocab=21, L=87) == standard.state_bytes(vocab=21, L=87)
