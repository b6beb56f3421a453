"""What a model costs: parameters, both FLOPs counts of one forward pass, and memory."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor, nn

    from sweepd.models.base import Model, Part

BACKWARD = 2
"""The FLOPs of a backward pass over those of its forward pass: each product has two gradients."""
FLOAT_BYTES = 4
MOST_BUILT = 10**8
"""The most parameters of a model that is built in earnest to measure its state."""


@dataclass(frozen=True)
class Costs:
    """Costs of one model on one task setting. FLOPs are of one forward pass over L tokens."""

    params: int
    """The number of trained parameters."""
    flops: int
    """The FLOPs of everything that is computed, attention scores and values included."""
    flops_weights: int
    """The FLOPs of products with weights only. This is the paper's count."""
    state_bytes: int | None
    """The bytes of the decoding state (float32) after L tokens of one sequence. They are measured
    where the model does not say; None if it has no `prefill` and `step` either."""
    row_floats: int
    """The floats that training holds for each sequence of L tokens, besides `batch_floats`."""
    batch_floats: int
    """The number of floats that training holds once for all sequences of a batch."""
    parts: tuple[Part, ...]
    uncounted: tuple[str, ...]
    """The names of the operators that the FLOPs leave out."""
    reruns: bool
    """Whether the model has no `step`, so that decoding runs it on the prefix for every token."""

    def train_bytes(self, batch_size: int) -> float:
        """Returns the bytes of memory of one training step on rows of L tokens, in float32. They
        hold parameters, gradients and AdamW's two moments, all that the backward pass needs, and
        outputs with their gradients.

        The sum may exceed the peak, since activations go while gradients come. It does not count
        what a kernel holds while it works, nor copies that the optimizer makes. It is a float,
        since it may pass 2^63.
        """
        floats = 4 * self.params + batch_size * self.row_floats + self.batch_floats
        return float(FLOAT_BYTES) * floats


def costs(architecture: Model, vocab_size: int, L: int, capacity: int) -> Costs:
    """Returns what a model costs. Nothing is allocated, since the model is built on torch's meta
    device. The costs of a model that comes with sweepd are kept, since its code stays as it is.
    Raises ValueError (or whatever a user's model raises) where it cannot be built for this L."""
    shipped = type(architecture).__module__.startswith("sweepd.models.")
    return (_kept if shipped else _count)(architecture, vocab_size, L, capacity)


def _count(architecture: Model, vocab_size: int, L: int, capacity: int) -> Costs:
    import torch

    from sweepd.models._meta import on_meta
    from sweepd.models.base import can_decode

    with sparing_the_compiler():
        with on_meta():  # weights have shapes and no memory
            model = architecture.build(vocab_size, L, capacity, torch.Generator("cpu"))
        parts = tuple(architecture.parts(vocab_size, L))
        kept, shared = architecture.kept_floats(vocab_size, L)
        uncounted = architecture.uncounted(vocab_size, L)
    params = sum(parameter.numel() for parameter in model.parameters())
    state_bytes, decodes = architecture.state_bytes(vocab_size, L), can_decode(model)
    # A state that the architecture does not state is measured: that of the model on the meta
    # device, or of a real one where decoding needs numbers.
    if state_bytes is None and decodes:
        rows = torch.zeros(1, L, dtype=torch.long if vocab_size else torch.float32)
        try:
            with on_meta():
                state_bytes = occupied(held_after(model, rows.to("meta"), L))
        except Exception:  # a user's code may raise anything
            # Such as NotImplementedError, for a task that decodes nothing.
            with suppress(Exception):
                if params <= MOST_BUILT:
                    real = architecture.build(vocab_size, L, capacity, torch.Generator())
                    state_bytes = occupied(held_after(real, rows, L))
    return Costs(
        params=params,
        flops=sum(part.flops for part in parts),
        flops_weights=sum(part.flops_weights for part in parts),
        state_bytes=state_bytes,
        row_floats=kept + 2 * L * (vocab_size or 1),
        batch_floats=shared,
        parts=parts,
        uncounted=uncounted,
        reruns=not decodes,
    )


_kept = functools.lru_cache(maxsize=10_000)(_count)


def held_after(model: nn.Module, tokens_1T: Tensor, prefix: int) -> list[Tensor]:
    """Returns the tensors that a decoder's state holds of one row: after its first `prefix` tokens,
    with the others fed one by one. Weights, and where the row stands, are no part of them."""
    import numpy as np
    import torch
    from torch import Tensor, nn

    from sweepd.models.base import decoder

    decoding = decoder(model.eval())
    with torch.inference_mode():
        state = decoding.prefill(tokens_1T[:, :prefix], torch.tensor([prefix]))
        for token in range(prefix, tokens_1T.size(1)):
            decoding.step(tokens_1T[:, token], state)
    found: list[Tensor] = []
    seen: dict[int, object] = {}
    waiting: list[object] = [state]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        match part:
            case nn.Module() | nn.Parameter() | type():
                pass
            case Tensor():
                is_position = part.numel() <= 1 and not part.is_floating_point()
                found += [] if is_position else [part.detach()]
            case np.ndarray():
                waiting.append(torch.from_numpy(part))
            case dict():
                waiting += part.values()
            case list() | tuple() | set():
                waiting += part
            case _:
                waiting += getattr(part, "__dict__", {}).values()
    return found


def occupied(tensors: list[Tensor]) -> int:
    """Returns the bytes of a state, with FLOAT_BYTES for each float."""
    return sum(
        tensor.numel() * (FLOAT_BYTES if tensor.is_floating_point() else tensor.element_size())
        for tensor in tensors
    )


@contextmanager
def sparing_the_compiler() -> Iterator[None]:
    """Lets torch compute on the meta device without loading its compiler for the block. Loading it
    takes 1.4 seconds of processor time. Torch loads it to wrap each of its Python kernels when that
    is first called, so that the kernel is never compiled. Nothing in this block is compiled anyway.

    Torch marks a function that is wrapped, and this block sets that mark. There is no public way to
    turn the wrapping off. If torch drops the mark, the compiler is loaded.
    """
    mark = "__dynamo_disable"
    functions = [function for function in _wrapped_by_torch() if not hasattr(function, mark)]
    for function in functions:
        setattr(function, mark, function)
    try:
        yield
    finally:
        for function in functions:
            delattr(function, mark)


@functools.cache
def _wrapped_by_torch() -> tuple[FunctionType, ...]:
    """Returns torch's Python kernels, the functions that count calls, and all that these wrap."""
    from torch import _decomp, _refs
    from torch._refs.nn import functional
    from torch.utils._python_dispatch import TorchDispatchMode

    found: dict[FunctionType, None] = {}
    rooms = (_refs, functional, _decomp.decompositions)
    waiting: list[object] = [part for room in rooms for part in vars(room).values()]
    waiting += [mode.__torch_dispatch__ for mode in TorchDispatchMode.__subclasses__()]
    while waiting:
        function = waiting.pop()
        if isinstance(function, FunctionType) and function not in found:
            found[function] = None
            waiting += [cell.cell_contents for cell in function.__closure__ or ()]
    return tuple(found)


def train_flops(flops_per_sequence: int, sequences: int) -> float:
    """Returns the FLOPs of training on `sequences` rows of L tokens, forward and backward, without
    the optimizer, checks and the test. It is a float, since it passes 2^63."""
    return float(flops_per_sequence) * (1 + BACKWARD) * sequences
