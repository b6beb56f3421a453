"""What every model is: hyper-parameters that build a torch module, and what that costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from sweepd.models._counting import Count, Part, count
from sweepd.models._meta import on_meta

MAX_D = 2**20
"""Far above what anyone trains, and low enough that a plan of it is quickly counted."""


class Model(ABC):
    """Hyper-parameters of a causal sequence model: a frozen dataclass, one a file.

    A subclass has fields and gives `build`; nothing else is required. ValueError from
    `__post_init__` for impossible values. The costs below are counted where a subclass does not
    say them. A module that has `prefill` and `step` (`Decoder`) decodes by them; any other is run
    on the whole prefix for every token. A model whose width is its embedding dimension `d` derives
    from `Architecture`.
    """

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "build" in vars(cls):
            cls.build = _seeded(cls.build)  # type: ignore[method-assign]

    @abstractmethod
    def build(self, vocab: int, L: int, capacity: int, generator: torch.Generator) -> nn.Module:
        """Returns a freshly initialised module, on the CPU.

        It maps token ids (B, T) to logits (B, T, vocab) of what each position is to predict, and
        an output may depend on the inputs up to its position only. With vocab = 0 it maps real
        numbers (B, T) to real numbers (B, T, 1). L is the length of the task, for what depends on
        it; capacity bounds the length T of any row. First weights are drawn from `generator`. What
        is drawn from torch's global generator instead, as torch's own layers do, is decided by
        `generator` too: while `build` runs, it has a seed from there.
        """

    def parts(self, vocab: int, L: int) -> list[Part]:
        """Returns both FLOPs counts of one forward pass over one sequence of L tokens, by part:
        here as torch counts them, by child module."""
        return list(_counted(self, vocab, L).parts)

    def uncounted(self, vocab: int, L: int) -> tuple[str, ...]:
        """Returns the operators that `parts` leaves out since torch cannot count them: none where a
        subclass states its own parts."""
        states = type(self).parts is not Architecture.parts
        return () if states else _counted(self, vocab, L).unknown

    def state_bytes(self, vocab: int, L: int) -> int | None:
        """Returns the bytes (float32) of the decoding state after L tokens of one sequence, or
        None where it is not known."""
        return None

    def kept_floats(self, vocab: int, L: int) -> tuple[int, int]:
        """Returns the floats that the backward pass needs of a forward one: for each sequence of L
        tokens, and once for all of a batch. Here counted, all of them as of a sequence."""
        of_loss = (vocab or 1) + 4  # log-probabilities, an id of 8 bytes, the loss and its weight
        return _counted(self, vocab, L).kept_floats + of_loss * L, 0


@dataclass(frozen=True)
class Architecture(Model):
    """A model with an embedding dimension."""

    d: int
    """embedding dimension"""

    def __post_init__(self) -> None:
        if not 1 <= self.d <= MAX_D:
            raise ValueError(f"d = {self.d}: must be from 1 to {MAX_D}")


Build = Callable[..., nn.Module]


def _seeded(build: Build) -> Build:
    """Returns `build` with torch's global generator seeded while it runs, and untouched after."""

    @wraps(build)
    def seeded(
        self: Model, vocab: int, L: int, capacity: int, generator: torch.Generator
    ) -> nn.Module:
        with torch.random.fork_rng(devices=()):
            # Another stream than its own, on the CPU alone, where the module is built.
            torch.default_generator.manual_seed((generator.initial_seed() + 1) % 2**63)
            return build(self, vocab, L, capacity, generator)

    return seeded


@lru_cache(maxsize=8)
def _counted(architecture: Model, vocab: int, L: int) -> Count:
    with on_meta():
        model = architecture.build(vocab, L, L + 1, torch.Generator("cpu"))
        inputs_1T = torch.zeros(1, L, dtype=torch.long if vocab else torch.float32)
        try:
            return count(model, inputs_1T)
        except RuntimeError as error:  # what torch raises where an operator needs numbers
            raise ValueError(
                f"{type(architecture).__name__} cannot be counted on torch's meta device "
                f"({error}); give it parts and kept_floats of its own"
            ) from error
