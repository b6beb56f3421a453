"""Two ways to compute the same: their values and their gradients agree."""

from collections.abc import Sequence

import torch
from torch import Tensor


def assert_same(
    fast: Tensor, slow: Tensor, inputs: Sequence[Tensor], *, atol: float | None = None
) -> None:
    """Compares two results, and the gradients of a random sum of each by their common inputs."""
    rtol = None if atol is None else 0.0
    torch.testing.assert_close(fast, slow, atol=atol, rtol=rtol)
    weight = torch.randn_like(fast)
    gradients = [
        torch.autograd.grad((read * weight).sum(), inputs, retain_graph=True)
        for read in (fast, slow)
    ]
    torch.testing.assert_close(*gradients, atol=atol and 10 * atol, rtol=rtol)
