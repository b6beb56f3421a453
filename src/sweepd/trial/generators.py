"""Global random generators. torch's is what dropout draws from; a run that is not ours may draw
from Python's and NumPy's too.

They belong to the process, in which others draw too: so a run that is not ours swaps its own in
while its code is at work, and their state is saved with it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

State = tuple[Any, Any, torch.Tensor]
"""Of Python's, NumPy's and torch's generator, as each gives it."""


def seed_torch(seed: int, device: torch.device | None = None) -> None:
    """Seed torch's generator of the CPU, and those of GPUs if a device is one.

    For GPUs that nobody has used yet `torch.manual_seed` notes where it was called from, which
    takes longer than to seed.
    """
    if device is None or device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


class Generators:
    """Generators that begin with a seed, 0 or more. On the CPU only."""

    def __init__(self, seed: int) -> None:
        with _kept():
            random.seed(seed)
            np.random.seed(seed % 2**32)
            seed_torch(seed)
            self.state = _state()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Within this block the process draws from these generators."""
        with _kept():
            _set(self.state)
            try:
                yield
            finally:
                self.state = _state()

    def to_json(self) -> list[Any]:
        """Their state as plain data."""
        python, (name, words, *rest), drawn = self.state
        return [python, [name, words.tolist(), *rest], drawn.tolist()]

    def from_json(self, data: list[Any]) -> None:
        """Go on from what `to_json` gave."""
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
def _kept() -> Iterator[None]:
    """After this block the process draws as it did before."""
    before = _state()
    try:
        yield
    finally:
        _set(before)
