"""The global random generators of Python, NumPy and torch.

Dropout draws from torch's. A training loop of the user's own may draw from the others too. The
generators belong to the process, in which other code draws as well. So such a loop swaps in its own
states while its code is at work, and these states are saved with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

State = tuple[Any, Any, torch.Tensor]
"""The states of the generators of Python, NumPy and torch, as each of them gives its own."""


def seed_torch(seed: int, device: torch.device | None = None) -> None:
    """Seeds torch's generator of the CPU, and those of the GPUs if `device` is one.

    `torch.manual_seed` is not called for the CPU. For GPUs that nobody has used yet it notes where
    it was called from, which takes longer than seeding.
    """
    if device is None or device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


class Generators:
    """The states of the global generators after a seed, which is 0 or more. On the CPU only."""

    def __init__(self, seed: int) -> None:
        with preserved():
            random.seed(seed)
            np.random.seed(seed % 2**32)
            seed_torch(seed)
            self.state = _state()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Makes the process draw from these generators for the block."""
        with preserved():
            _set(self.state)
            try:
                yield
            finally:
                self.state = _state()

    def to_json(self) -> list[Any]:
        python, (name, words, *rest), drawn = self.state
        return [python, [name, words.tolist(), *rest], drawn.tolist()]

    def from_json(self, data: list[Any]) -> None:
        """Continues from what `to_json` returned."""
        (version, words, gauss), (name, keys, *rest), drawn = data
        numpy = (name, np.array(keys, dtype=np.uint32), *rest)
        self.state = (version, tuple(words), gauss), numpy, torch.tensor(drawn, dtype=torch.uint8)


def _state() -> State:
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def _set(state: State) -> None:
    random.setstate(state[0])
    np.random.set_state(state[1])
    torch.set_rng_state(state[2])


@contextmanager
def preserved() -> Iterator[None]:
    """Restores the global generators after the block to their states before it."""
    before = _state()
    try:
        yield
    finally:
        _set(before)
