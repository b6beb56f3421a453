"""Hyper-parameters of the transformer that all shipped architectures are, and its exact costs.

Shape suffixes: B batch, T positions, D = d, H heads, E = D // H (head dim), V vocabulary.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, get_args

import torch

from sweepd.models._architecture import Architecture
from sweepd.models._backbone import Attention, Positions, Transformer
from sweepd.models._counting import Part

MAX_LAYERS = 1000
"""Far above what anyone trains, and low enough that a plan of it is quickly counted."""


@dataclass(frozen=True)
class TransformerArchitecture(Architecture):
    """Hyper-parameters of a decoder-only transformer.

    A subclass adds its own fields and says what its attention is (`attention`), what it computes
    (`attention_flops`), what it remembers (`memory_floats`) and, unless that is what
    `attention_kept` has, what it keeps for the backward pass.
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
        """A freshly initialised model, on the CPU; every random draw comes from `generator`.

        L decides what depends on the task's length (sparse's B); capacity bounds the length of
        any row; with vocab = 0 rows are real numbers, and each position gives one. ValueError for
        what only L can show to be impossible (a block larger than L).
        """
        attentions = [self.attention(L, capacity) for _ in range(self.layers)]
        model = Transformer(vocab, capacity, self.d, self.positions, self.dropout, attentions)
        model.initialise(generator)
        return model

    @property
    def qkv_widths(self) -> tuple[int, int, int]:
        """Widths of one layer's queries, keys and values, all heads together."""
        return self.d, self.d, self.d

    def parts(self, vocab: int, L: int) -> list[Part]:
        """Both FLOPs counts of one forward pass over one sequence of L tokens, by part.

        Counted are matrix products; LayerNorm, GELU, softmax, biases, feature maps and embedding
        look-ups are not (real numbers are multiplied, not looked up). Attention counts what its
        algorithm needs, causality used.
        """

        def weights(name: str, parameters: int) -> Part:
            return Part(name, 2 * parameters * L, 2 * parameters * L)

        square = self.layers * self.d**2
        return [
            *([] if vocab else [weights("embedding", self.d)]),
            weights("qkv", self.layers * self.d * sum(self.qkv_widths)),
            *(Part(name, self.layers * flops, 0) for name, flops in self.attention_flops(L)),
            weights("attention output", square),
            weights("ffn", 8 * square),
            weights("head", self.d * (vocab or 1)),
        ]

    def state_bytes(self, vocab: int, L: int) -> int:
        """Bytes (float32) of the decoding state after L tokens of one sequence."""
        return 4 * self.layers * self.memory_floats(L)

    def kept_floats(self, vocab: int, L: int) -> tuple[int, int]:
        """Floats that the backward pass needs of a forward one: for each sequence of L tokens, and
        once for all of a batch.

        A product keeps its inputs, a LayerNorm its input and two numbers a position, GELU its
        input, dropout its mask, cross entropy the log-probabilities; ids are of 8 bytes.
        """
        drops = self.d if self.dropout else 0
        block = 13 * self.d + 4 + 2 * drops
        ends = 3 * self.d + 4 + drops + (vocab or 1) + 4
        row, shared = self.attention_kept(L)
        return (self.layers * block + ends) * L + self.layers * row, self.layers * shared

    def fused_kept(self, L: int) -> int:
        """What torch's fused attention keeps in place of weights: one number a query and head.
        What is turned by its position is kept beside what it was."""
        turned = 2 * self.d if self.positions == "rotary" else 0
        return (3 * self.d + turned + self.heads) * L

    def attention_kept(self, L: int) -> tuple[int, int]:
        """Floats that one layer keeps between the projections before and after its attention: for
        each sequence, and once for all. Here queries, keys and values, and a weight a pair and
        head, of all L² pairs."""
        return sum(self.qkv_widths) * L + self.heads * L**2, 0

    @abstractmethod
    def attention(self, L: int, capacity: int) -> Attention:
        """The attention of one layer, not yet initialised."""

    @abstractmethod
    def attention_flops(self, L: int) -> list[tuple[str, int]]:
        """One layer's products between activations, for one sequence of L tokens: name, FLOPs."""

    @abstractmethod
    def memory_floats(self, L: int) -> int:
        """Floats that one layer must keep of a sequence of L tokens to continue it."""
