"""Hybrid: layers of different kinds, one above the other."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import torch

from sweepd.models.base import Architecture, Mixer, Part, Transformer, TransformerArchitecture
from sweepd.models.delta import Delta
from sweepd.models.dot_free import DotFree
from sweepd.models.gla import Gla
from sweepd.models.lin_rpe import LinRpe
from sweepd.models.linear import Linear
from sweepd.models.log_rpe import LogRpe
from sweepd.models.mamba2 import Mamba2
from sweepd.models.sparse import Sparse
from sweepd.models.standard import Standard
from sweepd.models.tmx import Tmx
from sweepd.models.tmx_scale import TmxScale
from sweepd.models.window import Window

VERSION = 1
KINDS: dict[str, type[TransformerArchitecture]] = {
    "delta": Delta,
    "dot_free": DotFree,
    "gla": Gla,
    "lin_rpe": LinRpe,
    "linear": Linear,
    "log_rpe": LogRpe,
    "mamba2": Mamba2,
    "sparse": Sparse,
    "standard": Standard,
    "tmx": Tmx,
    "tmx_scale": TmxScale,
    "window": Window,
}


@dataclass(frozen=True)
class Hybrid(TransformerArchitecture):
    """A transformer whose layers take turns in how positions meet.

    Source: Arora et al. 2024 ("Based", arXiv 2402.18668), which alternates linear attention with a
    sliding window; De et al. 2024 (Griffin, arXiv 2402.19427).

    Family: several kinds

    Examples:
        x (B, T, d) → with mixers = "linear window(width=8)" and 4 layers: linear → window → linear
        → window → (B, T, d)
    """

    mixers: str = "linear window"
    """the models whose layers take turns, from the first layer up, each with fields of its own"""

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.kinds

    @property
    def kinds(self) -> list[TransformerArchitecture]:
        """One architecture of one layer for each of the layers. Raises ValueError if `mixers` names
        none."""
        shared: dict[str, Any] = {"d": self.d, "heads": self.heads, "positions": self.positions}
        several = []
        for word in self.mixers.split():
            try:
                name, fields = named(word)
                several.append(KINDS[name](**shared, layers=1, **fields))
            except (SyntaxError, KeyError):
                hint = f"write names of {', '.join(KINDS)}, such as linear or window(width=8)"
                raise ValueError(f"mixers: {word!r} is no model with layers; {hint}") from None
            except (TypeError, ValueError) as error:
                raise ValueError(f"mixers: {word!r}: {error}") from None
        if not several:
            raise ValueError("mixers: names none; write at least one model, such as linear")
        return [several[layer % len(several)] for layer in range(self.layers)]

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> Transformer:
        mixers = [kind.attention(L, capacity) for kind in self.kinds]
        model = Transformer(vocab, capacity, self.d, self.positions, self.dropout, mixers)
        model.initialise(generator)
        return model

    def layer_parts(self, L: int) -> list[Part]:
        by_name: dict[str, Part] = {}
        for part in (part for kind in self.kinds for part in kind.layer_parts(L)):
            before = by_name.get(part.name, Part(part.name, 0, 0))
            flops, weights = part.flops + before.flops, part.flops_weights + before.flops_weights
            by_name[part.name] = Part(part.name, flops, weights)
        return list(by_name.values())

    def state_bytes(self, vocab: int, L: int) -> int:
        return 4 * sum(kind.memory_floats(L) for kind in self.kinds)

    kept_floats = Architecture.kept_floats

    def attention(self, L: int, capacity: int) -> Mixer:
        raise NotImplementedError("layers differ; `kinds` has them")

    attention_flops = memory_floats = attention  # type: ignore[assignment]


def named(word: str) -> tuple[str, dict[str, Any]]:
    """Returns the name and the fields of `window(width=8)`. Raises SyntaxError for what is no such
    thing."""
    node = ast.parse(word, mode="eval").body
    match node:
        case ast.Name():
            return node.id, {}
        case ast.Call(func=ast.Name(id=name), args=[], keywords=keywords):
            values = {str(k.arg): k.value for k in keywords}
            if all(isinstance(value, ast.Constant) for value in values.values()):
                return name, {key: ast.literal_eval(value) for key, value in values.items()}
    raise SyntaxError
