"""Costs of a model that does not state them. They are counted, and compared with exact counts and
with sums by hand."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from sweepd.grid.costs import costs
from sweepd.models.base import Architecture
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard


@dataclass(frozen=True)
class Plain(Architecture):
    """Two layers and a product between activations, without a word about costs."""

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        return Net(vocab, self.d)


class Net(nn.Module):
    def __init__(self, vocab: int, d: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab, d) if vocab else nn.Linear(1, d)
        self.layers = nn.ModuleList([nn.Linear(d, d), nn.Linear(d, 3 * d)])
        self.mix = nn.Parameter(torch.zeros(3 * d, d))
        self.head = nn.Linear(d, vocab or 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.embedding(x if x.dtype == torch.long else x[..., None])
        for layer in self.layers:
            h = torch.relu(layer(h))
        h = h @ self.mix
        scores = (h @ h.mT).tril()
        outputs: Tensor = self.head(scores @ h)
        return outputs


def test_products_are_counted_by_child_and_told_from_those_with_weights() -> None:
    d, vocab, L = 8, 11, 20
    parts = {part.name: part for part in Plain(d).parts(vocab, L)}
    assert {name: part.flops for name, part in parts.items()} == {
        "layers": 2 * L * (d * d + d * 3 * d),
        "other": 2 * L * 3 * d * d + 2 * 2 * L * L * d,
        "head": 2 * L * d * vocab,
    }
    between = {name: part.flops - part.flops_weights for name, part in parts.items()}
    assert between == {"layers": 0, "other": 2 * 2 * L * L * d, "head": 0}
    assert "embedding" in {part.name for part in Plain(d).parts(0, L)}


@pytest.mark.parametrize("kind", [Standard, Sparse])
def test_what_training_keeps_is_near_the_exact_count(kind: type[Architecture]) -> None:
    """On the meta device attention is not fused, so that all its weights are kept."""
    for L in (20, 200):
        exact = sum(kind(32).kept_floats(11, L))
        counted, shared = Architecture.kept_floats(kind(32), 11, L)
        assert shared == 0
        assert 0.9 < counted / exact < 3


def test_costs_of_a_model_that_tells_none() -> None:
    found = costs(Plain(8), vocab_size=11, L=20, capacity=21)
    assert found.params == 11 * 8 + 8 * 9 + 24 * 9 + 24 * 8 + 11 * 9
    assert found.flops > found.flops_weights > 0
    assert found.state_bytes is None
    assert found.train_bytes(4) > 4 * 4 * found.params


def test_a_model_that_cannot_run_there_is_asked_for_its_own_counts() -> None:
    class Peeks(Plain):
        def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
            return Looks(vocab, self.d)

    class Looks(Net):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * float(x.sum().item())

    message = (
        r"Peeks cannot be counted on torch's meta device \(.*\); give it parts and kept_floats"
    )
    with pytest.raises(ValueError, match=message):
        costs(Peeks(8), vocab_size=11, L=20, capacity=21)


@dataclass(frozen=True)
class Fourier(Architecture):
    """Mixes positions by an FFT, which torch does not count."""

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        return Transformed(vocab, self.d)


class Transformed(nn.Module):
    def __init__(self, vocab: int, d: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocab, d), nn.Linear(d, vocab)

    def forward(self, tokens: Tensor) -> Tensor:
        mixed = torch.fft.irfft(
            torch.fft.rfft(self.embedding(tokens), dim=1), tokens.size(1), dim=1
        )
        outputs: Tensor = self.head(mixed)
        return outputs


def test_an_operator_that_torch_cannot_count_is_named() -> None:
    assert Fourier(8).uncounted(11, 20) == ("aten._fft_c2r", "aten._fft_r2c")
    assert [part.name for part in Fourier(8).parts(11, 20)] == ["head"]
    assert all(part.counted for part in Fourier(8).parts(11, 20))
    found = costs(Fourier(8), vocab_size=11, L=20, capacity=21)
    assert found.uncounted == ("aten._fft_c2r", "aten._fft_r2c") and found.reruns


def test_what_is_stated_is_not_marked_as_counted() -> None:
    found = costs(Standard(32), vocab_size=11, L=20, capacity=21)
    assert not any(part.counted for part in found.parts)
    assert not found.uncounted and not found.reruns
    assert Plain(8).uncounted(11, 20) == ()
