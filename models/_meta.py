"""torch's meta device, where tensors have shapes and no numbers, and so cost no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode

_FILLING: frozenset[Callable[..., Any]] = frozenset(
    {
        Tensor.bernoulli_,
        Tensor.exponential_,
        Tensor.fill_,
        Tensor.normal_,
        Tensor.uniform_,
        Tensor.zero_,
        init.constant_,
        init.kaiming_uniform_,
        init.normal_,
        init.uniform_,
    }
)
"""What gives a tensor other numbers, and leaves all else as it was. Those of `init` call the
tensor's own unseen."""


@contextmanager
def on_meta() -> Iterator[None]:
    """Within this block new tensors lie on the meta device, and none of these is filled. To fill
    them, torch would look for numbers in kernels written in Python. That would be most of the time
    that it takes to build a model there."""
    with torch.device("meta"), _Unfilled():
        yield


class _Unfilled(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in _FILLING and (filled := args[0] if args else named["tensor"]).is_meta:
            return filled
        return func(*args, **named)
