"""Models on torch's meta device, which knows shapes and holds no numbers. The shapes are those of a
real model. A tensor that a model keeps on another device is really filled."""

import pytest
import torch
from torch import nn

from sweepd.models._meta import on_meta
from sweepd.models.base import Model
from sweepd.models.dot_free import DotFree
from sweepd.models.linear import Linear
from sweepd.models.log_rpe import LogRpe
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard


class Mixed(Model):
    """Keeps a table of numbers on the CPU, wherever it is built."""

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        model = nn.Linear(vocab, vocab)
        model.register_buffer("table", torch.zeros(3, device="cpu").fill_(2.0))
        return model


@pytest.mark.parametrize(
    "model",
    [kind(d=8, layers=2, heads=2) for kind in (Standard, Sparse, Linear, LogRpe, DotFree)]
    + [Mixed()],
)
def test_shapes_and_types_are_those_of_a_real_build(model: Model) -> None:
    def shapes() -> dict[str, tuple[torch.Size, torch.dtype]]:
        built = model.build(11, 20, 23, torch.Generator())
        return {name: (at.shape, at.dtype) for name, at in built.state_dict().items()}

    with on_meta():
        built = model.build(11, 20, 23, torch.Generator())
        assert all(weight.is_meta for weight in built.parameters())
        found = shapes()
    assert found == shapes()


def test_tensors_elsewhere_are_filled() -> None:
    with on_meta():
        model = Mixed().build(11, 20, 23, torch.Generator())
        drawn = torch.empty(1000, device="cpu").uniform_()
    assert model.get_buffer("table").tolist() == [2.0, 2.0, 2.0]
    assert 0.4 < drawn.mean() < 0.6
