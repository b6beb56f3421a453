"""What training on a GPU needs beside the training: its share of the card, algorithms that repeat,
and steps that are recorded once.

None of it changes what a step computes. `docs/gpu.md` has what was measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils import deterministic

WARM_UP = 3
"""Steps that run before one is recorded, as torch asks: by then the optimizer and the libraries
have made what they keep."""

NOT_RECORDED = (
    "with train.compile no step may read a number back (.item(), .cpu(), a mask as an index): "
    "leave compile out, or compute without that"
)
Step = Callable[[Tensor, Tensor], Tensor]
"""A training step: from inputs and targets to the loss."""


def take_share(gpus: float) -> None:
    """Prepare this process for trials that hold `gpus` of a card.

    It gets at most that share of the card's memory, so that no trial takes that of its neighbours:
    one that needs more fails, with torch's OutOfMemoryError. cuBLAS reads its setting when it
    starts, so this comes before any work.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.cuda.set_per_process_memory_fraction(min(1.0, gpus))


def repeat(*, strictly: bool) -> None:
    """Take algorithms that repeat bit for bit from now on.

    strictly: an operation that has none raises RuntimeError. Otherwise torch warns of it, and some
    that have one do not take it (the attention of `scaled_dot_product_attention` in float32).
    """
    torch.use_deterministic_algorithms(True, warn_only=not strictly)
    # Otherwise it would first write all memory that is asked for.
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


class Recorded:
    """A step that is recorded as a CUDA graph and replayed: one launch in place of hundreds.

    The same kernels run on the same numbers, so the results are those of the step itself. A batch
    of another shape gets a recording of its own. Whatever the step does in Python happens only
    while it is recorded: a model whose `forward` depends on more than its input can't be.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.warm = 0
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.pool = torch.cuda.graph_pool_handle()
        self.recordings: dict[tuple[torch.Size, torch.Size], _Recording] = {}

    def __call__(self, inputs: Tensor, targets: Tensor) -> Tensor:
        if self.warm < WARM_UP:
            self.warm += 1
            return self._beside(inputs, targets)
        shape = inputs.shape, targets.shape
        if shape not in self.recordings:
            self.recordings[shape] = _Recording(self.step, inputs, targets, self.pool)
        return self.recordings[shape].replay(inputs, targets)

    def _beside(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """The step on a stream of its own, as a recording will be."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.step(inputs, targets)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss


class _Recording:
    def __init__(self, step: Step, inputs: Tensor, targets: Tensor, pool: Any) -> None:
        self.inputs, self.targets = inputs.clone(), targets.clone()
        self.graph = torch.cuda.CUDAGraph()
        # thread_local: what the thread that draws batches asks of CUDA is no part of it.
        try:
            with torch.cuda.graph(self.graph, pool, capture_error_mode="thread_local"):
                self.loss = step(self.inputs, self.targets)
        except RuntimeError as error:  # the trial's log shows the note
            error.add_note(NOT_RECORDED)
            raise

    def replay(self, inputs: Tensor, targets: Tensor) -> Tensor:
        self.inputs.copy_(inputs)
        self.targets.copy_(targets)
        self.graph.replay()
        return self.loss
