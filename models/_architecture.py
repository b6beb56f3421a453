"""The base of every model: hyper-parameters that build a torch module, and the costs of that
module."""

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

    A subclass has fields and defines `build`. Nothing else is required. `__post_init__` raises
    ValueError for impossible values. A cost below that a subclass does not define is counted, and
    `state_bytes` is measured if the module can decode. A module that has `prefill` and `step`
    (`Decoder`) decodes by them. Any other module is run on the whole prefix for every token. A
    model whose width is its embedding dimension `d` derives from `Architecture`.
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

        The module maps token ids (B, T) to logits (B, T, vocab) for the target of each position. An
        output may depend only on the inputs up to its position. With vocab = 0 the module maps real
        numbers (B, T) to real numbers (B, T, 1). L is the length of the task, for what depends on
        it. `capacity` bounds the length T of any row. The first weights are drawn from `generator`.
        torch's own layers draw from torch's global generator instead. That one is seeded from
        `generator` while `build` runs, so `generator` decides these weights too.
        """

    def parts(self, vocab: int, L: int) -> list[Part]:
        """Returns the parts of one forward pass over one sequence of L tokens, with both FLOPs
        counts of each. Here torch counts them, by child module."""
        return list(_counted(self, vocab, L).parts)

    def uncounted(self, vocab: int, L: int) -> tuple[str, ...]:
        """Returns the operators whose FLOPs `parts` leaves out because torch cannot count them.
        Returns none where a subclass states its own parts."""
        states = type(self).parts is not Architecture.parts
        return () if states else _counted(self, vocab, L).unknown

    def state_bytes(self, vocab: int, L: int) -> int | None:
        """Returns the bytes (float32) of the decoding state after L tokens of one sequence, or
        None where it is to be measured."""
        return None

    def kept_floats(self, vocab: int, L: int) -> tuple[int, int]:
        """Returns how many floats the forward pass keeps for the backward pass: first for each
        sequence of L tokens, then once for the whole batch. Here they are counted, and all of them
        are put down to the sequence."""
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
    """Returns `build` wrapped so that torch's global generator is seeded while it runs, and is
    restored afterwards."""

    @wraps(build)
    def seeded(
        self: Model, vocab: int, L: int, capacity: int, generator: torch.Generator
    ) -> nn.Module:
        with torch.random.fork_rng(devices=()):
            # With a seed of its own, so that the two streams differ; on the CPU alone, since the
            # module is built there.
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
