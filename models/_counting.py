"""What a model costs, counted by running it once on the meta device.

Tensors there have shapes and no numbers, so nothing is allocated and nothing is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.flop_counter import FlopCounterMode, flop_registry


@dataclass(frozen=True)
class Part:
    """FLOPs of one part of one forward pass over one sequence (2 FLOPs a multiply-add)."""

    name: str
    flops: int
    """Every matrix product, attention scores and values included."""
    flops_weights: int
    """Products with weights only: the count that reproduces P1's Table 2."""


@dataclass(frozen=True)
class Count:
    """What one forward pass over one sequence takes."""

    parts: tuple[Part, ...]
    """one for each child module of the model that multiplies, and one for the model's own code"""
    kept_floats: int
    """floats that the backward pass needs of it"""


def count(model: nn.Module, inputs_1T: Tensor) -> Count:
    """Count one forward pass of a model on the meta device.

    FLOPs are those that torch's FlopCounterMode knows: matrix products, convolutions and fused
    attention, masked pairs included. A product counts as one with weights where a factor is a
    parameter or a view of one. A kernel that torch cannot count is left out.
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
    with counter, saved_tensors_hooks(keep, lambda tensor: tensor):
        model(inputs_1T)
    parts = tuple(Part(name, *of_part) for name, of_part in tally.items())
    return Count(parts, sum(kept.values()) // 4)


def _storage(tensor: Tensor) -> StorageWeakRef:
    """Returns what a tensor and its views share."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
