"""Every architecture takes rows of real numbers and gives one for each position."""

from pathlib import Path
from typing import cast

import pytest
import torch

from sweepd.grid.costs import costs
from sweepd.grid.registry import find, shipped
from sweepd.models._backbone import NumberEmbedding, Transformer
from sweepd.models.base import TransformerArchitecture
from sweepd.models.standard import Standard

L = 20
every_architecture = pytest.mark.parametrize(
    "architecture",
    [
        kind(d=16, layers=2, heads=2, positions="none")
        for entry in shipped("model")
        for kind in [cast("type[TransformerArchitecture]", find("model", entry.name, Path()))]
        if issubclass(kind, TransformerArchitecture)
    ],
    ids=lambda architecture: type(architecture).__name__,
)


def built(architecture: TransformerArchitecture) -> Transformer:
    return architecture.build(0, L, L, torch.Generator().manual_seed(0)).double().eval()


def numbers(rows: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, L, generator=generator, dtype=torch.float64)


@every_architecture
def test_no_number_is_seen_before_its_time_and_steps_give_what_the_full_pass_gives(
    architecture: TransformerArchitecture,
) -> None:
    model, rows = built(architecture), numbers(3)
    with torch.no_grad():
        full = model(rows)
        assert full.shape == (3, L, 1)
        for at in (0, 7, L - 1):
            changed = rows.clone()
            changed[:, at] += 1
            after = model(changed)
            torch.testing.assert_close(full[:, :at], after[:, :at])
            assert not torch.allclose(full[:, at], after[:, at])
        state = model.prefill(rows[:, :8], torch.full((3,), 8))
        for t in range(8, L):
            torch.testing.assert_close(model.step(rows[:, t], state), full[:, t])


@every_architecture
def test_its_ends_cost_a_vector_each(architecture: TransformerArchitecture) -> None:
    parts = {part.name: part for part in architecture.parts(0, L)}
    for end in ("embedding", "head"):
        assert parts[end].flops == parts[end].flops_weights == 2 * 16 * L
    for part in architecture.parts(11, L):
        assert part.name == "head" or parts[part.name] == part
    ours = {p.name for p in architecture.parts(0, L)} - {p.name for p in architecture.parts(11, L)}
    assert ours == {"embedding"}
    found = costs(architecture, 0, L, L)
    assert found.params == sum(p.numel() for p in built(architecture).parameters())


def test_embedding_is_a_line_past_the_origin() -> None:
    embedding = built(Standard(16, heads=2)).embedding
    assert isinstance(embedding, NumberEmbedding)
    x = torch.tensor([[-1.0, 0.0, 2.0]], dtype=torch.float64)
    points = embedding(x)
    assert points.shape == (1, 3, 16)
    torch.testing.assert_close(points[0, 2] - points[0, 1], -2 * (points[0, 0] - points[0, 1]))
    assert points[0, 1].norm() > 0.5
