"""The costs of a model, counted by running it once on the meta device.

Tensors there have shapes and no numbers, so nothing is allocated and nothing is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry

UNCOUNTED = re.compile(r"fft|linalg|cholesky|triangular|cdist|einsum|rnn|lstm|gru")
"""torch's operators that multiply and that it does not count, by parts of their names."""


@dataclass(frozen=True)
class Part:
    """FLOPs of one part of one forward pass over one sequence (2 FLOPs a multiply-add)."""

    name: str
    flops: int
    """Every matrix product, attention scores and values included."""
    flops_weights: int
    """Products with weights only: the count that reproduces P1's Table 2."""
    counted: bool = False
    """whether torch counted it, and no formula of the architecture's own"""


@dataclass(frozen=True)
class Count:
    """The costs of one forward pass over one sequence."""

    parts: tuple[Part, ...]
    """one for each child module of the model that multiplies, and one for the model's own code"""
    kept_floats: int
    """floats that the backward pass needs of it"""
    unknown: tuple[str, ...]
    """operators that torch cannot count, and that may multiply: their FLOPs are left out"""


def count(model: nn.Module, inputs_1T: Tensor) -> Count:
    """Returns the costs of one forward pass of a model, counted on the meta device.

    FLOPs are those that torch's FlopCounterMode knows: matrix products, convolutions and fused
    attention. Pairs that are masked count too. A product counts as one with weights where a factor
    is a parameter or a view of one. A kernel that torch cannot count is left out, and is named in
    the result.
    """
    weights = {_storage(parameter) for parameter in model.parameters()}
    held = weights | {_storage(buffer) for buffer in model.buffers()}
    tally: dict[str, list[int]] = {}
    kept: dict[StorageWeakRef, int] = {}

    def noted(formula: Callable[..., int]) -> Callable[..., int]:
        def flops_of(*factors: Any, **rest: Any) -> int:
            flops = formula(*factors, **rest)
            tensors = (factor for factor in factors if isinstance(factor, Tensor))
            with_weights = any(_storage(tensor) in weights for tensor in tensors)
            names = (name.split(".") for name in counter.mod_tracker.parents)
            part = next((path[1] for path in names if len(path) > 1), "other")
            of_part = tally.setdefault(part, [0, 0])
            of_part[0] += flops
            of_part[1] += flops * with_weights
            return flops

        flops_of._get_raw = True  # type: ignore[attr-defined]  # asks for tensors, not shapes
        return flops_of

    def keep(tensor: Tensor) -> Tensor:
        if (storage := _storage(tensor)) not in held:
            kept[storage] = tensor.untyped_storage().nbytes()
        return tensor

    mapping = {operator: noted(formula) for operator, formula in flop_registry.items()}
    counter = FlopCounterMode(display=False, custom_mapping=mapping)
    seen = _Seen()
    with torch.enable_grad(), counter, seen, saved_tensors_hooks(keep, lambda tensor: tensor):
        model(inputs_1T)
    parts = tuple(
        Part(name, flops, with_weights, counted=True)
        for name, (flops, with_weights) in tally.items()
    )
    return Count(parts, sum(kept.values()) // 4, tuple(sorted(seen.unknown)))


class _Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operators that FlopCounterMode passes over although they may multiply. These are
    the operators of other libraries, and those of torch that UNCOUNTED names."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.unknown: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        operator = func._overloadpacket
        foreign = func.namespace not in ("aten", "prim", "prims")
        if operator not in flop_registry and (foreign or UNCOUNTED.search(str(operator))):
            self.unknown.add(str(operator))
        return func(*args, **(kwargs or {}))


def _storage(tensor: Tensor) -> StorageWeakRef:
    """Returns the storage of a tensor, which its views share."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
