"""Decoding, one token at a time: by a model's own `step`, or by running it on the whole prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Decoder(Protocol):
    """What greedy decoding needs of a model. A state has `select(index)`, which returns a copy with
    only these rows."""

    def prefill(self, tokens_BT: Tensor, lengths_B: Tensor) -> Any:
        """Returns the state of each row after its first lengths_b tokens (0 to T)."""

    def step(self, tokens_B: Tensor, state: Any) -> Tensor:
        """Feeds one token to each row and advances `state` in place. Returns logits (B, V)."""


def decoder(model: nn.Module) -> Decoder:
    """Returns the model itself if it can decode, else a decoder that reruns it for every token."""
    return cast(Decoder, model) if can_decode(model) else Rerun(model)


def can_decode(model: nn.Module) -> bool:
    """Returns whether a model has `prefill` and `step`."""
    return hasattr(model, "prefill") and hasattr(model, "step")


@dataclass
class Prefix:
    """The tokens of B rows so far, each at its own position."""

    tokens: Tensor
    """(B, T), 0 after a row's end"""
    position: Tensor
    """(B,) tokens of each row"""

    def select(self, index: Tensor) -> Prefix:
        """Returns a copy with only these rows, in this order. The index is ids (long) or a mask
        (bool, (B,))."""
        return Prefix(self.tokens[index], self.position[index])


class Rerun:
    """Decodes with a model that has no `step`, by running it on the whole prefix for every token.

    That takes as many forward passes as there are tokens to decode. The model must be causal: an
    output may not depend on later tokens.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def prefill(self, tokens_BT: Tensor, lengths_B: Tensor) -> Prefix:
        after_BT = torch.arange(tokens_BT.size(1), device=lengths_B.device) >= lengths_B[:, None]
        return Prefix(tokens_BT.masked_fill(after_BT, 0), lengths_B.clone())

    def step(self, tokens_B: Tensor, state: Prefix) -> Tensor:
        rows = torch.arange(len(tokens_B), device=tokens_B.device)
        width = int(state.position.max()) + 1
        room = max(0, width - state.tokens.size(1))
        state.tokens = F.pad(state.tokens, (0, room))
        state.tokens[rows, state.position] = tokens_B
        outputs_BTV: Tensor = self.model(state.tokens[:, :width])
        logits_BV = outputs_BTV[rows, state.position]
        state.position += 1
        return logits_BV
