"""What training on a GPU needs besides the training itself: a share of the card, deterministic
algorithms, and steps that are recorded once as CUDA graphs.

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
"""The number of steps that run before one is recorded, as torch asks. By then the optimizer and the
libraries have made what they keep."""

NOT_RECORDED = (
    "with train.compile no step may read a number back (.item(), .cpu(), a mask as an index): "
    "leave compile out, or compute without that"
)
Step = Callable[[Tensor, Tensor], Tensor]
"""A training step. It takes inputs and targets, and returns the loss."""


def take_share(gpus: float) -> None:
    """Prepares this process for trials that hold `gpus` of a card.

    The process gets at most that share of the card's memory, so that no trial takes the memory of
    its neighbours. A trial that needs more fails with torch's OutOfMemoryError. cuBLAS reads its
    setting when it starts, so this function must be called before any work.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.cuda.set_per_process_memory_fraction(min(1.0, gpus))


def repeat(*, strictly: bool) -> None:
    """Makes torch use deterministic algorithms from now on, which repeat bit for bit.

    strictly: an operation that has none raises RuntimeError. Otherwise torch only warns of it, and
    some operations that have one do not use it (the attention of `scaled_dot_product_attention` in
    float32).
    """
    torch.use_deterministic_algorithms(True, warn_only=not strictly)
    # Otherwise torch would first fill all memory that it allocates.
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


class Recorded:
    """A step that is recorded as a CUDA graph and replayed, with one launch in place of hundreds.

    The same kernels run on the same numbers, so the results are those of the step itself. A batch
    of another shape gets a recording of its own. Whatever the step does in Python happens only
    while it is recorded. So a model whose `forward` depends on more than its input can't be
    recorded.
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
        """Runs the step on a CUDA stream of its own, as a recording will. Returns the loss."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.step(inputs, targets)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss


class _Recording:
    def __init__(self, step: Step, inputs: Tensor, targets: Tensor, pool: Any) -> None:
        self.inputs, self.targets = inputs.clone(), targets.clone()
        self.graph = torch.cuda.CUDAGraph()
        # thread_local: CUDA calls of the thread that draws batches are no part of the recording.
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
