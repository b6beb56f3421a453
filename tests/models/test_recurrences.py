"""Models of the field beside their definitions, position by position.

tests/models/test_backbone.py holds that decoding gives what the full pass gives.
"""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sweepd.models.base import gated_sums
from sweepd.models.delta import Delta, DeltaRule
from sweepd.models.gla import GatedAttention, Gla
from sweepd.models.hybrid import Hybrid
from sweepd.models.lstm import Lstm
from sweepd.models.window import WindowAttention


def one_by_one(q: Tensor, k: Tensor, v: Tensor, log_decay: Tensor) -> tuple[Tensor, Tensor]:
    """S_t = exp(log_decay_t) S_(t-1) + k_tᵀ v_t, read by q_t."""
    state, reads = torch.zeros(*k.shape[:2], k.size(-1), v.size(-1), dtype=v.dtype), []
    for t in range(q.size(2)):
        state = log_decay[:, :, t, :, None].exp() * state
        state = state + k[:, :, t, :, None] * v[:, :, t, None, :]
        reads.append((q[:, :, t, None] @ state)[:, :, 0])
    return torch.stack(reads, dim=2), state


@settings(max_examples=40)
@given(T=st.integers(1, 150), width=st.sampled_from([1, 3, 8]), shared=st.booleans())
def test_chunks_equal_the_recurrence(T: int, width: int, shared: bool) -> None:
    q, k = torch.randn(2, 2, 3, T, width, dtype=torch.float64, requires_grad=True)
    v = torch.randn(2, 3, T, 5, dtype=torch.float64, requires_grad=True)
    decay = -torch.rand(2, 3, T, 1 if shared else width, dtype=torch.float64) * 2.5
    decay = (decay * 40 if shared else decay).requires_grad_()
    fast, slow = gated_sums(q, k, v, decay), one_by_one(q, k, v, decay)
    torch.testing.assert_close(fast, slow)
    weight = torch.randn_like(fast[0])
    gradients = [
        torch.autograd.grad((read * weight).sum() + state.sum(), (q, k, v, decay))
        for read, state in (fast, slow)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_gates_that_are_shut_or_open_stay_finite_in_float32(logit: float) -> None:
    model = Gla(16, layers=1).build(5, 300, 300, torch.Generator().manual_seed(0))
    layer = model.blocks[0].attention
    assert isinstance(layer, GatedAttention)
    with torch.no_grad():
        layer.wide.bias.fill_(logit)
    model(torch.randint(5, (2, 300))).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in model.parameters())  # type: ignore[union-attr]


@settings(max_examples=20)
@given(T=st.integers(1, 100), most=st.sampled_from([1.0, 2.0]))
def test_the_wy_form_equals_the_delta_rule(T: int, most: float) -> None:
    layer = DeltaRule(6, 2, most)
    layer.initialise(torch.Generator().manual_seed(T))
    layer = layer.double()
    x = torch.randn(2, T, 6, dtype=torch.float64)
    q, k, v, beta = layer.parts(x)
    state, reads = torch.zeros(2, 2, 3, 3, dtype=torch.float64), []
    for t in range(T):
        key = k[:, t, :, :, None]
        state = state - beta[:, t, :, :, None] * key @ (key.mT @ state)
        state = state + beta[:, t, :, :, None] * key @ v[:, t, :, None, :]
        reads.append((q[:, t, :, None] @ state)[:, :, 0])
    read, (last,) = layer.run(x, None)
    torch.testing.assert_close(last, state)
    torch.testing.assert_close(read, layer.leave(torch.stack(reads, dim=1)))


def test_a_negative_eigenvalue_turns_what_is_held_around() -> None:
    """With β = 2, no value and one key, the state under that key changes its sign at each step:
    that is how parity is tracked."""
    layer = DeltaRule(2, 1, 2.0)
    key = torch.tensor([[[1.0, 0.0]]])
    layer.parts = lambda x: (key, key, 0 * key, torch.full((1, 1, 1), 2.0))  # type: ignore
    memory: tuple[Tensor, ...] = (torch.tensor([[[[1.0, 0.5], [0.0, 1.0]]]]),)
    for sign in (-1, 1, -1):
        _, memory = layer.step(torch.zeros(1, 2), memory, torch.zeros(1))
        assert memory[0][0, 0].tolist() == [[sign * 1.0, sign * 0.5], [0.0, 1.0]]


@settings(max_examples=40)
@given(T=st.integers(1, 100), width=st.integers(1, 40))
def test_a_window_is_the_masked_softmax(T: int, width: int) -> None:
    q, k, v = torch.randn(3, 2, 2, T, 4, dtype=torch.float64)
    age = torch.arange(T)[:, None] - torch.arange(T)
    hidden = (age < 0) | (age >= width)
    slow = (q @ k.mT / 2).masked_fill(hidden, -torch.inf).softmax(-1) @ v
    torch.testing.assert_close(WindowAttention(8, 2, width).attend(q, k, v), slow)


def test_layers_of_a_hybrid_take_turns() -> None:
    model = Hybrid(16, layers=3, mixers="delta(negative_eigenvalues=True) window(width=7)")
    first, second, third = model.kinds
    assert first == third == Delta(16, layers=1, negative_eigenvalues=True)
    assert model.state_bytes(5, 40) == 4 * (2 * 16 * 4 + 2 * 16 * 7)
    assert {part.name for part in model.parts(5, 40)} > {"qkv", "beta", "attention scores", "head"}
    assert second.attention(40, 40).width == 7


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"mixers": " "}, "names none"),
        ({"mixers": "linear mamba"}, "mixers: 'mamba' is no model with layers; write names of"),
        ({"mixers": "window(8)"}, "'window.8.' is no model with layers"),
        ({"mixers": "window(w=8)"}, "'window.w=8.': .*unexpected keyword argument 'w'"),
        ({"mixers": "window(width=0)"}, "width = 0: must be from 1"),
        ({"positions": "rotary"}, "'linear': positions = 'rotary': Linear has none"),
    ],
)
def test_a_hybrid_of_nothing_known_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Hybrid(16, **fields)


@pytest.mark.parametrize("vocab", [0, 7])
def test_an_lstm_decodes_as_it_runs(vocab: int) -> None:
    architecture = Lstm(8, layers=2)
    model = architecture.build(vocab, 30, 30, torch.Generator().manual_seed(0))
    tokens = torch.randint(7, (3, 30)) if vocab else torch.randn(3, 30)
    with torch.no_grad():
        full, lengths = model(tokens), torch.tensor([9, 0, 20])
        state = model.prefill(tokens[:, :20], lengths)
        assert sum(part[0].nbytes for part in state.memories[0]) == architecture.state_bytes(
            vocab, 9
        )
        for _ in range(10):
            at, rows = state.position.clone(), torch.arange(3)
            torch.testing.assert_close(model.step(tokens[rows, at], state), full[rows, at])
        alone, full = state.select(torch.tensor([1])), model(tokens[1:2, :11])
        torch.testing.assert_close(model.step(tokens[1:2, 10], alone), full[:, 10])
