"""Costs of a model. The meta device counts what a model has that is really built. Training costs
three passes, and its memory is what torch keeps. `sweepd flops` shows these costs."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from inprocess import sweepd
from torch import _refs
from torch.autograd.graph import saved_tensors_hooks

from sweepd.grid.costs import costs, sparing_the_compiler
from sweepd.models.base import Architecture, TransformerArchitecture
from sweepd.models.dot_free import DotFree
from sweepd.models.lin_rpe import LinRpe
from sweepd.models.linear import Linear
from sweepd.models.log_rpe import LogRpe
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.models.tmx import Tmx
from sweepd.tasks.lis import LIS
from sweepd.trial.evaluation import loss_of


@pytest.mark.parametrize(
    "architecture",
    [
        Standard(d=8, layers=2, heads=2), Standard(d=8, layers=1, heads=4, positions="learned"),
        Linear(d=12, layers=2, heads=3), Sparse(d=8, layers=1, heads=2),
        Standard(d=8, layers=2, heads=2, positions="rotary"), LogRpe(d=8, layers=2, heads=2),
        DotFree(d=8, layers=2, heads=2), Tmx(d=8, layers=2, heads=2),
    ],
)  # fmt: skip
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


def test_torch_is_left_as_it_was() -> None:
    wrapped = [
        kernel.__wrapped__ for kernel in vars(_refs).values() if hasattr(kernel, "__wrapped__")
    ]

    def marks() -> list[dict[str, Any]]:
        return [dict(vars(kernel)) for kernel in wrapped]

    before = marks()
    with sparing_the_compiler():
        assert marks() != before
    assert marks() == before


# Memory


def kept_by_torch(architecture: Architecture, vocab: int, L: int, batch: int) -> int:
    """Bytes that a forward pass leaves for the backward one, besides weights and buffers."""
    model = architecture.build(vocab, L, L, torch.Generator())
    ours = {tensor.untyped_storage().data_ptr() for tensor in model.state_dict().values()}
    ours |= {buffer.untyped_storage().data_ptr() for buffer in model.buffers()}
    kept = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in ours:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    inputs = torch.randint(vocab, (batch, L)) if vocab else torch.randn(batch, L)
    targets = torch.randint(vocab, (batch, L)) if vocab else torch.randn(batch, L)
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_of(model(inputs), targets)
    assert loss.requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("L", [20, 96, 221])
@pytest.mark.parametrize(
    "make",
    [
        lambda d, heads: Standard(d, 2, heads),
        lambda d, heads: Standard(d, 1, heads, positions="rotary", dropout=0.1),
        lambda d, heads: Standard(d, 1, heads, positions="learned"),
        lambda d, heads: Linear(d, 2, heads),
        lambda d, heads: Linear(d, 1, heads, feature_map="relu"),
        lambda d, heads: Sparse(d, 2, heads),
        lambda d, heads: Sparse(d, 1, heads, block=4, k=3, c=2, positions="rotary"),
        lambda d, heads: LinRpe(d, 2, heads),
        lambda d, heads: LogRpe(d, 1, heads, positions="rotary"),
        lambda d, heads: DotFree(d, 2, heads),
        lambda d, heads: Tmx(d, 2, heads),
    ],
)
def test_what_the_backward_pass_needs_is_what_torch_keeps(
    make: Callable[[int, int], Architecture], L: int
) -> None:
    for d, heads, vocab, batch in ((32, 4, 11, 3), (96, 2, 50, 2), (32, 1, 0, 2)):
        architecture = make(d, heads)
        row, shared = architecture.kept_floats(vocab, L)
        measured = kept_by_torch(architecture, vocab, L, batch)
        assert 4 * (batch * row + shared) == pytest.approx(measured, rel=0.1)


def test_an_attention_of_one_s_own_is_taken_to_keep_all_weights() -> None:
    class Own(Standard):
        attention_kept = TransformerArchitecture.attention_kept

    own, standard = Own(8, 1, 2), Standard(8, 1, 2)
    assert own.kept_floats(5, 10)[0] - standard.kept_floats(5, 10)[0] == 2 * 10 * 10 - 2 * 10


def test_the_memory_of_training() -> None:
    architecture = Standard(d=8, layers=2, heads=2)
    found = costs(architecture, vocab_size=11, L=20, capacity=23)
    row, shared = architecture.kept_floats(11, 20)
    assert shared == 0
    outputs = 2 * 20 * 11
    assert found.train_bytes(64) == 4 * (4 * found.params + 64 * (row + outputs))
    free = costs(DotFree(d=8, layers=2, heads=2), vocab_size=11, L=20, capacity=23)
    assert 0 < free.batch_floats == free.train_bytes(1) / 4 - 4 * free.params - free.row_floats


# The command


def flops(*arguments: str) -> dict[str, Any]:
    [row] = sweepd("flops", *arguments, "--json", exits=0).rows
    return row


def test_the_command_tells_all_costs_by_part() -> None:
    row = flops("sparse", "--task", "lis", "--set", "n=8", "--set", "d=16", "--set", "batch_size=3")
    found = costs(Sparse(16), len(LIS(8).vocab), L=19, capacity=20)
    assert (row["L"], row["size"], row["d"], row["batch_size"]) == (19, 8, 16, 3)
    for name in ("flops", "flops_weights", "params", "state_bytes"):
        assert row[name] == getattr(found, name)
    assert row["train_bytes"] == found.train_bytes(3)
    for part in found.parts:
        assert row[f"flops.{part.name}"] == part.flops
        assert row[f"flops_weights.{part.name}"] == part.flops_weights
    for count in ("flops", "flops_weights"):
        assert sum(row[name] for name in row if name.startswith(f"{count}.")) == row[count]
    longer = flops("sparse", "--task", "lis", "--set", "n=8", "--set", "d=16", "--set", "L=505")
    assert (longer["L"], longer["batch_size"]) == (505, 64)
    assert longer["flops_weights"] * 19 == row["flops_weights"] * 505


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("standard", "--set", "d=9"), "d = 9 is not divisible by heads = 4"),
        (("standard", "--set", "d=8", "--set", "wings=2"), "--set wings: no such parameter of"),
        (("standard",), "standard needs d: add --set d="),
        (("standard", "--set", "d=8", "--set", "L=0"), "--set L: 0 is no whole number"),
        (("standard", "--set", "d=8", "--set", "batch_size=x"), "--set batch_size: x is no whole"),
        (("standard", "--set", "d=8", "--set", "L=true"), "--set L: True is no whole number"),
        (("sparse", "--set", "d=8", "--set", "block=99"), "block = 99 is larger than L = 19"),
    ],
)
def test_what_cannot_be_counted_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in sweepd("flops", *arguments, "--task", "lis", "--set", "n=8", exits=2).err
