"""The global random generators of a run that is not ours: Python's, NumPy's and torch's.

A plain script draws from them. They belong to the process, in which others draw too: so a run
swaps its own in while its code is at work, and their state is saved with it.
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


class Generators:
    """Generators that begin with a seed, 0 or more. On the CPU only."""

    def __init__(self, seed: int) -> None:
        with _kept():
            random.seed(seed)
            np.random.seed(seed % 2**32)
            torch.manual_seed(seed)
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
