"""Hyper-parameters of the transformer on which all shipped architectures build, and its exact
costs.

Shape suffixes: B batch, T positions, D = d, H heads, E = D // H (head dim), V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, get_args

import torch

from sweepd.models._architecture import Architecture
from sweepd.models._backbone import Mixer, Positions, Transformer
from sweepd.models._counting import Part

MAX_LAYERS = 1000
"""Far above what anyone trains, and low enough that a plan of it is quickly counted."""


@dataclass(frozen=True)
class TransformerArchitecture(Architecture):
    """Hyper-parameters of a decoder-only transformer.

    A subclass adds its own fields. It defines its attention (`attention`), the FLOPs of that
    attention (`attention_flops`) and the memory that decoding needs (`memory_floats`). If its
    attention keeps something else for the backward pass than `attention_kept` says, it overrides
    that too.
    """

    no_rotary: ClassVar[str | None] = None
    """Why this architecture cannot have rotary positions; None where it can."""

    layers: int = 3
    heads: int = 4
    positions: Positions = "sinusoidal"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, most in (("layers", MAX_LAYERS), ("heads", self.d)):
            if not 1 <= getattr(self, name) <= most:
                raise ValueError(f"{name} = {getattr(self, name)}: must be from 1 to {most}")
        if self.d % self.heads:
            raise ValueError(f"d = {self.d} is not divisible by heads = {self.heads}")
        if self.positions not in get_args(Positions):
            known = ", ".join(get_args(Positions))
            raise ValueError(f"positions = {self.positions!r}: must be one of {known}")
        if self.positions == "rotary":
            if self.no_rotary:
                raise ValueError(
                    f"positions = 'rotary': {type(self).__name__} has none: {self.no_rotary}"
                )
            if self.d // self.heads % 2:
                raise ValueError(
                    "positions = 'rotary' turns pairs of features, but d / heads = "
                    f"{self.d} / {self.heads} is odd"
                )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout = {self.dropout}: must be in [0, 1)")

    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> Transformer:
        """Returns a freshly initialised model, on the CPU. Every random draw comes from
        `generator`.

        L decides what depends on the task's length (sparse's B). `capacity` bounds the length of
        any row. With vocab = 0 rows are real numbers, and each position gives one. Raises
        ValueError for what only L can show to be impossible (a block larger than L).
        """
        attentions = [self.attention(L, capacity) for _ in range(self.layers)]
        model = Transformer(vocab, capacity, self.d, self.positions, self.dropout, attentions)
        model.initialise(generator)
        return model

    @property
    def qkv_widths(self) -> tuple[int, int, int]:
        """The widths of one layer's queries, keys and values, all heads together."""
        return self.d, self.d, self.d

    def parts(self, vocab: int, L: int) -> list[Part]:
        """Returns the parts of one forward pass over one sequence of L tokens, with both FLOPs
        counts of each.

        Only matrix products are counted. LayerNorm, GELU, softmax, biases, feature maps and
        embedding look-ups are not. (The embedding of real numbers is a product, not a look-up, so
        it is counted.) Attention counts what its algorithm needs when it uses causality.
        """

        def end(name: str, weights: int) -> Part:
            return Part(name, 2 * weights * L, 2 * weights * L)

        first = [] if vocab else [end("embedding", self.d)]
        return [*first, *self.layer_parts(L), end("head", self.d * (vocab or 1))]

    def layer_parts(self, L: int) -> list[Part]:
        """Returns the parts of all layers in one forward pass over one sequence of L tokens."""
        weights = self.mixer_weights() | {"ffn": 8 * self.d**2}
        parts = [(name, 2 * number * L, 2 * number * L) for name, number in weights.items()]
        parts += [(name, flops, 0) for name, flops in self.attention_flops(L)]
        return [
            Part(name, self.layers * n, self.layers * of_weights) for name, n, of_weights in parts
        ]

    def mixer_weights(self) -> dict[str, int]:
        """Returns how many weights of one layer multiply each position before and after its
        attention, by the name of the part."""
        return {"qkv": self.d * sum(self.qkv_widths), "attention output": self.d**2}

    def state_bytes(self, vocab: int, L: int) -> int:
        """Returns the bytes (float32) of the decoding state after L tokens of one sequence."""
        return 4 * self.layers * self.memory_floats(L)

    def kept_floats(self, vocab: int, L: int) -> tuple[int, int]:
        """Returns how many floats the forward pass keeps for the backward pass: first for each
        sequence of L tokens, then once for the whole batch.

        A product keeps its inputs. A LayerNorm keeps its input and two numbers for each position.
        GELU keeps its input, and dropout its mask. Cross entropy keeps the log-probabilities. Ids
        take 8 bytes each.
        """
        drops = self.d if self.dropout else 0
        block = 13 * self.d + 4 + 2 * drops
        ends = 3 * self.d + 4 + drops + (vocab or 1) + 4
        row, shared = self.attention_kept(L)
        return (self.layers * block + ends) * L + self.layers * row, self.layers * shared

    def fused_kept(self, L: int) -> int:
        """Returns how many floats torch's fused attention keeps of one sequence: queries, keys and
        values, and in place of weights one number for each query and head. With rotary positions it
        keeps queries and keys both before and after they are rotated."""
        turned = 2 * self.d if self.positions == "rotary" else 0
        return (3 * self.d + turned + self.heads) * L

    def attention_kept(self, L: int) -> tuple[int, int]:
        """Returns how many floats one layer keeps between the projections before and after its
        attention: first for each sequence, then once for the whole batch. Here it keeps queries,
        keys and values, and one weight for each head and each of the L² pairs."""
        return sum(self.qkv_widths) * L + self.heads * L**2, 0

    @abstractmethod
    def attention(self, L: int, capacity: int) -> Mixer:
        """Returns the attention of one layer, not yet initialised."""

    @abstractmethod
    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        """Returns one layer's products between activations, for one sequence of L tokens, each as
        its name and its FLOPs."""

    @abstractmethod
    def memory_floats(self, L: int) -> int:
        """Returns how many floats one layer must keep of a sequence of L tokens to continue it."""
