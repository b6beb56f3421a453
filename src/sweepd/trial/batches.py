"""The batches of a trial's steps, on the device of its model. For a GPU they are drawn ahead."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from sweepd.tasks.base import Batch

AHEAD = 4
"""The number of steps whose batches are drawn ahead while a GPU computes."""


@dataclass(frozen=True)
class Fed:
    """A batch as tensors. scored: the number of its targets."""

    inputs: Tensor
    targets: Tensor
    scored: int


class Batches:
    """Draws the batch of each step. What it holds is not part of a trial's state, since a step's
    batch depends on nothing but the step.

    For a GPU a thread draws the batches while the GPU computes, and puts each into pinned memory.
    From there it is copied without waiting for the GPU's present work.
    """

    def __init__(self, draw: Callable[[int], Batch], device: torch.device) -> None:
        self.draw, self.device = draw, device
        self.ahead = ThreadPoolExecutor(1, "batches") if device.type == "cuda" else None
        self.coming: dict[int, Future[Fed]] = {}

    def take(self, step: int) -> Fed:
        """Returns the batch of a step. Raises whatever `draw` raises."""
        if not self.ahead:
            return self._fed(step)
        for later in range(step, step + AHEAD):
            if later not in self.coming:
                self.coming[later] = self.ahead.submit(self._fed, later)
        fed = self.coming.pop(step).result()
        inputs, targets = (
            tensor.to(self.device, non_blocking=True) for tensor in (fed.inputs, fed.targets)
        )
        return Fed(inputs, targets, fed.scored)

    def _fed(self, step: int) -> Fed:
        batch = self.draw(step)
        inputs, targets = torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)
        if self.ahead:
            inputs, targets = inputs.pin_memory(), targets.pin_memory()
        return Fed(inputs, targets, int(batch.scored.sum()))
