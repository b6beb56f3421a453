"""What all architectures share: the values that they refuse, their FLOPs by part, Table 2 of paper
P1, the size of the state, and docstrings that name a source and the flow of shapes."""

import inspect
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from sweepd.grid.registry import find, shipped
from sweepd.models.base import Architecture, Attention, TransformerArchitecture
from sweepd.models.delta import Delta
from sweepd.models.dot_free import DotFree
from sweepd.models.gla import Gla
from sweepd.models.hybrid import Hybrid
from sweepd.models.lin_rpe import LinRpe
from sweepd.models.linear import Linear
from sweepd.models.log_rpe import LogRpe
from sweepd.models.mamba2 import Mamba2
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.models.tmx import Tmx
from sweepd.models.tmx_scale import TmxScale
from sweepd.models.window import Window

ARCHITECTURES: list[type[TransformerArchitecture]] = [
    Standard, Sparse, Linear, LinRpe, LogRpe, DotFree, Tmx, TmxScale,
]  # fmt: skip
RECURRENT: list[type[TransformerArchitecture]] = [Window, Gla, Delta, Mamba2, Hybrid]

LENGTHS = (87, 221, 355, 505)
TABLE_2 = {  # P1: least GFLOPs above 90% on arithmetic, and the widths that they belong to
    Standard: ((64, 128, 128, 128), (0.027, 0.266, 0.426, 0.605)),
    Linear: ((256, 512, 512, 512), (0.422, 4.220, 6.756, 9.584)),
    Sparse: ((128, 256, 256, 256), (0.106, 1.055, 1.690, 2.399)),
}


@pytest.mark.parametrize("kind", TABLE_2)
def test_weight_flops_are_those_of_table_2(kind: type[TransformerArchitecture]) -> None:
    for L, d, published in zip(LENGTHS, *TABLE_2[kind], strict=True):
        ours = sum(part.flops_weights for part in kind(d).parts(vocab=21, L=L))
        assert ours == 24 * 3 * d**2 * L + 2 * d * 21 * L
        assert abs(published * 1e9 / ours - 1) < 0.06


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_weight_flops_are_what_torch_counts(kind: type[TransformerArchitecture]) -> None:
    architecture, vocab, L = kind(32, layers=2), 11, 9
    model = architecture.build(vocab, L, L, torch.Generator())
    tokens = torch.randint(vocab, (1, L))
    of_part = {
        "qkv": ("attention.qkv",),
        "attention output": ("attention.out",),
        "ffn": ("up", "down"),
        "head": ("head",),
    }
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(tokens)
    by_module = {name: sum(f.values()) for name, f in counter.get_flop_counts().items()}
    counted = {
        part: sum(flops for name, flops in by_module.items() if name.endswith(modules))
        for part, modules in of_part.items()
    }
    ours = {part.name: part.flops_weights for part in architecture.parts(vocab, L)}
    assert counted == {name: flops for name, flops in ours.items() if flops}


@pytest.mark.parametrize("vocab", [11, 0])
@pytest.mark.parametrize("kind", ARCHITECTURES + RECURRENT)
def test_all_weights_are_counted(kind: type[TransformerArchitecture], vocab: int) -> None:
    architecture = kind(32, layers=2)
    counted = sum(part.flops_weights for part in Architecture.parts(architecture, vocab, 40))
    stated = {part.name: part.flops_weights for part in architecture.parts(vocab, 40)}
    stated.pop("embedding", 0)  # of numbers: a multiply-add that is no matrix product
    assert counted == sum(stated.values())


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_all_flops_are_the_weights_and_attention(kind: type[TransformerArchitecture]) -> None:
    architecture = kind(32)
    parts = {part.name: part for part in architecture.parts(vocab=21, L=87)}
    attention = dict(architecture.attention_flops(87))
    assert {name for name, part in parts.items() if not part.flops_weights} == set(attention)
    for name, part in parts.items():
        assert part.flops == (3 * attention[name] if name in attention else part.flops_weights)


@pytest.mark.parametrize("kind", ARCHITECTURES + RECURRENT)
def test_state_bytes_are_what_the_memory_holds(kind: type[TransformerArchitecture]) -> None:
    """The length L is a multiple of B, so that the buffers of no architecture have room to
    spare."""
    architecture, vocab, L = kind(32, layers=2), 5, 64
    model = architecture.build(vocab, L, L, torch.Generator())
    state = model.prefill(torch.zeros(1, L, dtype=torch.long), torch.tensor([L]))
    held = sum(tensor.nbytes for memory in state.memories for tensor in memory)
    spare = 2 * 2 * 4 * 32 if kind is Sparse else 0  # the summary that is still in the ring
    assert held == architecture.state_bytes(vocab, L) + spare


@pytest.mark.parametrize(
    ("kind", "vocab"), [*((kind, 7) for kind in ARCHITECTURES + RECURRENT), (Standard, 0)]
)
def test_building_is_a_function_of_the_generator_alone(
    kind: type[TransformerArchitecture], vocab: int
) -> None:
    def weights(seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return kind(16, positions="learned").build(vocab, 20, 30, generator).state_dict()

    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    first = weights(0)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    second, other = weights(0), weights(1)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert all(
        torch.equal(first[name], other[name])
        == any(constant in name for constant in ("norm", "skip", "log_slope", "bias"))
        for name in first
    )


def test_weights_are_xavier_uniform_and_biases_zero() -> None:
    model = Standard(64).build(32, 20, 30, torch.Generator().manual_seed(0))
    attention = model.blocks[0].attention
    assert isinstance(attention, Attention)
    fans = [(part, 64, 64) for part in attention.qkv.weight.chunk(3)]
    fans += [(model.blocks[0].up.weight, 64, 256), (model.head.weight, 64, 32)]
    for weight, fan_in, fan_out in fans:
        bound = math.sqrt(6 / (fan_in + fan_out))
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert not attention.qkv.bias.any()


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (Standard, {"d": 0}, "d = 0: must be from 1 to 1048576"),
        (Standard, {"d": 2**20 + 4}, "d = 1048580: must be from 1 to 1048576"),
        (Standard, {"layers": 0}, "layers = 0: must be from 1 to 1000"),
        (Standard, {"layers": 1001}, "layers = 1001: must be from 1 to 1000"),
        (Standard, {"heads": 16}, "heads = 16: must be from 1 to 8"),
        (Standard, {"d": 10}, "d = 10 is not divisible by heads = 4"),
        (Standard, {"positions": "alibi"}, "must be one of sinusoidal, learned, rotary, none"),
        (Standard, {"d": 12, "positions": "rotary"}, "turns pairs of features, .* 12 / 4 is odd"),
        (Standard, {"dropout": 1.0}, r"dropout = 1.0: must be in \[0, 1\)"),
        (DotFree, {"rpe": "alibi"}, "rpe = 'alibi': must be one of log, lin"),
        (Linear, {"feature_map": "cosine"}, "feature_map = 'cosine': must be one of elu, relu"),
        (Tmx, {"d": 12}, "d / heads = 12 / 4 is odd: a lag is encoded in pairs"),
    ],
)
def test_impossible_values_are_refused(
    kind: type[TransformerArchitecture], wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**{"d": 8} | wrong)


@pytest.mark.parametrize("kind", [Linear, DotFree, Tmx])
def test_rotary_positions_are_refused_where_no_product_can_turn(
    kind: type[TransformerArchitecture],
) -> None:
    with pytest.raises(ValueError, match=r"positions = 'rotary': .*; use .*none"):
        kind(16, positions="rotary")


@pytest.mark.parametrize("name", [model.name for model in shipped("model")])
def test_docstrings_tell_source_and_shapes(name: str) -> None:
    docstring = inspect.getdoc(find("model", name, Path())) or ""
    assert "\nSource: " in docstring
    _, _, flow = docstring.partition("\nExamples:\n")
    flow = " ".join(flow.split())
    assert flow.startswith("x (B, T, d) → ") and flow.endswith("→ (B, T, d)")
