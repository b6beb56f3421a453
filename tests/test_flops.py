"""Costs of a model: the meta device counts what a real build has, and training is three passes."""

from __future__ import annotations

import pytest
import torch

from sweepd.flops import costs, train_flops
from sweepd.models.dot_free import DotFree
from sweepd.models.linear import Linear
from sweepd.models.log_rpe import LogRpe
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.models.tmx import Tmx


@pytest.mark.parametrize(
    "architecture",
    [
        Standard(d=8, layers=2, heads=2),
        Standard(d=8, layers=1, heads=4, positions="learned"),
        Linear(d=12, layers=2, heads=3),
        Sparse(d=8, layers=1, heads=2),
        Standard(d=8, layers=2, heads=2, positions="rotary"),
        LogRpe(d=8, layers=2, heads=2),
        DotFree(d=8, layers=2, heads=2),
        Tmx(d=8, layers=2, heads=2),
    ],
)
def test_counted_without_allocating_as_of_a_real_model(architecture: Standard) -> None:
    found = costs(architecture, vocab_size=11, L=20, capacity=23)
    model = architecture.build(11, 20, 23, torch.Generator())
    assert found.params == sum(p.numel() for p in model.parameters())
    assert found.parts == tuple(architecture.parts(11, 20))
    assert found.flops == sum(part.flops for part in found.parts) > found.flops_weights > 0
    assert found.flops_weights == sum(part.flops_weights for part in found.parts)
    assert found.state_bytes == architecture.state_bytes(11, 20)


def test_nothing_is_allocated_and_no_random_state_is_touched() -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    found = costs(Standard(d=2**14, layers=2, heads=4), vocab_size=1000, L=10, capacity=11)
    assert found.params > 6e9
    assert torch.equal(before, torch.random.get_rng_state())


def test_training_is_forward_and_twice_that_backward() -> None:
    assert train_flops(10, 7) == 210.0
    assert train_flops(10**12, 10**9) == 3e21
