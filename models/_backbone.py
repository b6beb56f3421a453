"""The decoder-only transformer that every architecture shares; only its attention differs.

Shape suffixes: B rows, T positions, D = d, H heads, E = D // H (head dim), V vocabulary,
C columns of a memory. This file depends on torch alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Positions = Literal["sinusoidal", "learned", "rotary", "none"]
Memory = tuple[Tensor, ...]
"""What one attention keeps of each row's past: tensors whose first dimension is the row."""


@dataclass
class State:
    """Decoding state of B rows, each at its own position."""

    position: Tensor
    """(B,) tokens fed so far, which is also the 0-based position of the next one."""
    memories: list[Memory]
    """One a layer."""

    def select(self, index: Tensor) -> State:
        """Returns a copy with only these rows, in this order. The index is ids (long) or a mask
        (bool, (B,))."""
        memories = [tuple(tensor[index] for tensor in memory) for memory in self.memories]
        return State(self.position[index], memories)


class Mixer(nn.Module, ABC):
    """The part of a block in which positions meet: (B, T, D) to (B, T, D), causal.

    It computes the same twice: for all positions at once (`forward`), and for one position from a
    memory of those before it (`prefill`, `step`).
    """

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draws the first weights from `generator`."""

    @abstractmethod
    def forward(self, x_BTD: Tensor) -> Tensor:
        """Returns (B, T, D): what each position makes of itself and those before it."""

    @abstractmethod
    def prefill(self, x_BTD: Tensor, lengths_B: Tensor) -> tuple[Tensor, Memory]:
        """Returns what `forward` does, and the memory of each row after its first lengths_b
        positions. Later positions leave no trace in it."""

    @abstractmethod
    def step(self, x_BD: Tensor, memory: Memory, position_B: Tensor) -> tuple[Tensor, Memory]:
        """Returns (B, D), what comes of one more position of each row, and the memory with it. The
        memory may be changed in place."""


class Attention(Mixer):
    """Causal self-attention of H heads between one fused projection and an output projection.

    A subclass implements the same computation twice: for all positions at once (`attend`), and for
    one position from a memory of those before it (`remember`, `recall`). A bias that depends on the
    positions of a query and a key belongs in these three methods, since positions are known there.
    Parameters of the subclass are drawn in `initialise`. Rotary positions have been applied to
    queries and keys before these methods see them.
    """

    rotation: Tensor | None

    def __init__(self, d: int, heads: int, widths: tuple[int, int, int] | None = None) -> None:
        """widths: those of the queries, keys and values, all heads together. Each is d if not
        given."""
        super().__init__()
        self.heads = heads
        self.widths = widths or (d, d, d)
        self.qkv = nn.Linear(d, sum(self.widths))
        self.out = nn.Linear(d, d)
        self.register_buffer("rotation", None, persistent=False)

    def rotate(self, capacity: int) -> None:
        """Makes the layer rotate queries and keys by their positions, 0 to capacity - 1, from now
        on."""
        self.rotation = sinusoids(capacity, self.widths[0] // self.heads)

    def initialise(self, generator: torch.Generator) -> None:
        xavier(self.qkv, generator, self.widths)
        xavier(self.out, generator)

    @abstractmethod
    def attend(self, q_BHTE: Tensor, k_BHTE: Tensor, v_BHTE: Tensor) -> Tensor:
        """Returns (B, H, T, E): what each position reads of itself and those before it."""

    @abstractmethod
    def remember(self, k_BHTE: Tensor, v_BHTE: Tensor, lengths_B: Tensor) -> Memory:
        """Returns the memory of each row after its first lengths_b positions. Later positions are
        ignored."""

    @abstractmethod
    def recall(
        self, q_BHE: Tensor, k_BHE: Tensor, v_BHE: Tensor, memory: Memory, position_B: Tensor
    ) -> tuple[Tensor, Memory]:
        """Returns what is read at `position_B`, (B, H, E), and the memory with that position's key
        and value in it. The memory may be changed in place."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.merge(self.attend(*self.split(x_BTD)))

    def prefill(self, x_BTD: Tensor, lengths_B: Tensor) -> tuple[Tensor, Memory]:
        q_BHTE, k_BHTE, v_BHTE = self.split(x_BTD)
        read_BTD = self.merge(self.attend(q_BHTE, k_BHTE, v_BHTE))
        return read_BTD, self.remember(k_BHTE, v_BHTE, lengths_B)

    def step(self, x_BD: Tensor, memory: Memory, position_B: Tensor) -> tuple[Tensor, Memory]:
        q_BHE, k_BHE, v_BHE = self.project(x_BD, position_B)
        read_BHE, memory = self.recall(q_BHE, k_BHE, v_BHE, memory, position_B)
        return self.out(read_BHE.flatten(1)), memory

    def split(self, x_BTD: Tensor) -> tuple[Tensor, ...]:
        """Returns queries, keys and values, each (B, H, T, E)."""
        qkv_BTHE = self.project(x_BTD, slice(x_BTD.size(1)))
        return tuple(part_BTHE.transpose(1, 2) for part_BTHE in qkv_BTHE)

    def project(self, x: Tensor, position: Tensor | slice) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values of x (…, D) at `position`, each (…, H, its width over
        H)."""
        q, k, v = (
            part.unflatten(-1, (self.heads, part.size(-1) // self.heads))
            for part in self.qkv(x).split(self.widths, dim=-1)
        )
        if self.rotation is not None:
            waves = self.rotation[position].unsqueeze(-2)  # the same for all heads
            q, k = rotated(q, waves), rotated(k, waves)
        return q, k, v

    def merge(self, read_BHTE: Tensor) -> Tensor:
        """Returns the heads' results, joined and passed through the output projection: (B, T,
        D)."""
        merged_BTD: Tensor = self.out(read_BHTE.transpose(1, 2).flatten(2))
        return merged_BTD


class Block(nn.Module):
    """Pre-LayerNorm: h = x + Attn(LN(x)), then h + FFN(LN(h)) with hidden width 4d and GELU."""

    def __init__(self, d: int, attention: Mixer, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(d)
        self.attention = attention
        self.ffn_norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, 4 * d)
        self.down = nn.Linear(4 * d, d)
        self.dropout = dropout_layer(dropout)

    def initialise(self, generator: torch.Generator) -> None:
        self.attention.initialise(generator)
        xavier(self.up, generator)
        xavier(self.down, generator)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.ffn(x_BTD + self.dropout(self.attention(self.attention_norm(x_BTD))))

    def prefill(self, x_BTD: Tensor, lengths_B: Tensor) -> tuple[Tensor, Memory]:
        read_BTD, memory = self.attention.prefill(self.attention_norm(x_BTD), lengths_B)
        return self.ffn(x_BTD + self.dropout(read_BTD)), memory

    def step(self, x_BD: Tensor, memory: Memory, position_B: Tensor) -> tuple[Tensor, Memory]:
        read_BD, memory = self.attention.step(self.attention_norm(x_BD), memory, position_B)
        return self.ffn(x_BD + self.dropout(read_BD)), memory

    def ffn(self, h: Tensor) -> Tensor:
        hidden: Tensor = h + self.dropout(self.down(F.gelu(self.up(self.ffn_norm(h)))))
        return hidden


class Transformer(nn.Module):
    """Embedding + positions, LayerNorm (as in Feng et al.), blocks, LayerNorm, untied head.

    Dropout acts on the embedding and on the residual branches. It never acts inside attention,
    where it would rule out the fast kernels. It draws from torch's global generator.
    """

    position: Tensor | None
    blocks: Sequence[Block]

    def __init__(
        self,
        vocab: int,
        capacity: int,
        d: int,
        positions: Positions,
        dropout: float,
        attentions: Sequence[Mixer],
    ) -> None:
        """There is one block for each of `attentions`. `capacity` bounds the length of any row.

        Without a vocabulary (vocab = 0) rows are real numbers, and the model gives one real number
        for each position: V = 1.
        """
        super().__init__()
        self.capacity = capacity
        self.embedding = nn.Embedding(vocab, d) if vocab else NumberEmbedding(d)
        match positions:
            case "learned":
                self.position = nn.Parameter(torch.empty(capacity, d))
            case "sinusoidal":
                self.register_buffer("position", sinusoids(capacity, d), persistent=False)
            case "rotary":
                self.position = None
                for attention in attentions:
                    assert isinstance(attention, Attention)
                    attention.rotate(capacity)
            case "none":
                self.position = None
        self.embedding_norm = nn.LayerNorm(d)
        self.dropout = dropout_layer(dropout)
        self.blocks = nn.ModuleList(  # type: ignore[assignment]
            Block(d, attention, dropout) for attention in attentions
        )
        self.final_norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocab or 1)

    def initialise(self, generator: torch.Generator) -> None:
        """Draws Xavier-uniform weights and sets biases to zero. Every draw comes from
        `generator`."""
        for parameter in self.embedding.parameters():
            nn.init.xavier_uniform_(parameter, generator=generator)
        if isinstance(self.position, nn.Parameter):
            nn.init.xavier_uniform_(self.position, generator=generator)
        for block in self.blocks:
            block.initialise(generator)
        xavier(self.head, generator)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Returns logits (B, T, V) for the target of each position, or (B, T, 1), that real number,
        where there is no vocabulary. T is at most `capacity`."""
        x_BTD = self.embed_rows(tokens_BT)
        for block in self.blocks:
            x_BTD = block(x_BTD)
        return self.logits(x_BTD)

    def prefill(self, tokens_BT: Tensor, lengths_B: Tensor) -> State:
        """Returns the state of each row as if its first lengths_b tokens (0 to T) had been fed one
        by one. Tokens after them are ignored."""
        x_BTD = self.embed_rows(tokens_BT)
        memories = []
        for block in self.blocks:
            x_BTD, memory = block.prefill(x_BTD, lengths_B)
            memories.append(memory)
        return State(lengths_B.clone(), memories)

    def step(self, tokens_B: Tensor, state: State) -> Tensor:
        """Feeds one token to each row and advances `state` in place. Returns logits (B, V) of the
        next token."""
        x_BD = self.embed(tokens_B, state.position)
        for layer, block in enumerate(self.blocks):
            x_BD, state.memories[layer] = block.step(x_BD, state.memories[layer], state.position)
        state.position += 1
        return self.logits(x_BD)

    def embed_rows(self, tokens_BT: Tensor) -> Tensor:
        length = tokens_BT.size(1)
        assert length <= self.capacity, f"{length} tokens in a row, room for {self.capacity}"
        return self.embed(tokens_BT, slice(length))

    def embed(self, tokens: Tensor, position: Tensor | slice) -> Tensor:
        x: Tensor = self.embedding(tokens)
        if self.position is not None:
            x = x + self.position[position]
        embedded: Tensor = self.dropout(self.embedding_norm(x))
        return embedded

    def logits(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.final_norm(x))
        return logits


class NumberEmbedding(nn.Module):
    """Real numbers x (…) as points x·slope + offset (…, D) on a line.

    The line misses the origin. On a line through the origin, all x of one sign would be the same to
    a LayerNorm.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.empty(1, d))
        self.offset = nn.Parameter(torch.empty(1, d))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.offset, x.unsqueeze(-1), self.slope)


def xavier(
    layer: nn.Linear, generator: torch.Generator, widths: Sequence[int] | None = None
) -> None:
    """Draws the weights of a layer. widths: those of the projections that are fused in it. They are
    drawn one at a time, since each has its own fan-out."""
    for weight in torch.split(layer.weight, list(widths or [layer.out_features])):
        nn.init.xavier_uniform_(weight, generator=generator)
    nn.init.zeros_(layer.bias)


def dropout_layer(p: float) -> nn.Module:
    return nn.Dropout(p) if p else nn.Identity()


def sinusoids(capacity: int, d: int) -> Tensor:
    """Returns (capacity, d): sin and cos of the position, interleaved, at wavelengths from 2π to
    20000π."""
    frequency = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
    angle = torch.arange(capacity)[:, None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, :d]


def rotated(x: Tensor, waves: Tensor) -> Tensor:
    """Returns x (…, E) with each pair (2i, 2i+1) of features rotated by an angle (Su et al. 2021).

    `waves` (…, E) holds the angle's sine and cosine in the same places, as `sinusoids` does. The
    dot product of two vectors rotated by their positions depends only on the difference of these.
    """
    sin, cos = torch.unflatten(waves, -1, (-1, 2)).unbind(-1)
    a, b = torch.unflatten(x, -1, (-1, 2)).unbind(-1)
    turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return turned.flatten(-2).to(x.dtype)


def read(q_BHE: Tensor, k_BHCE: Tensor, v_BHCE: Tensor, visible_BC: Tensor) -> Tensor:
    """Returns (B, H, E): softmax attention of one query a row over the visible columns of a
    memory."""
    read_BH1E = F.scaled_dot_product_attention(
        q_BHE.unsqueeze(2), k_BHCE, v_BHCE, attn_mask=visible_BC[:, None, None]
    )
    return read_BH1E.squeeze(2)
