"""Rows of chain tasks as words, and the slow twin of the hash that splits inputs."""

from collections.abc import Iterable

import numpy as np

from sweepd.tasks.base import ChainTask


def rows_of(task: ChainTask, seed: int, count: int) -> list[list[str]]:
    """Rows as strings, <eos> last, straight from `fill` (small settings leave splits empty)."""
    tokens = np.zeros((count, task.capacity), dtype=np.int64)
    task.fill(np.random.default_rng(seed), tokens)
    rows = [task.words(row) for row in tokens]
    return [row[: row.index("<eos>") + 1] for row in rows]


def texts_of(task: ChainTask, seed: int, count: int) -> list[str]:
    """Rows as text without <eos>."""
    return [" ".join(row[:-1]) for row in rows_of(task, seed, count)]


def hash_by_hand(prompt: Iterable[int]) -> int:
    """The twin of `hash_prompts` for one prompt, in integers of any size."""
    tokens = list(prompt)
    state = len(tokens)
    for token in tokens:
        state = ((state ^ token) + 0x9E3779B97F4A7C15) % 2**64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % 2**64
        state ^= state >> 31
    return state
