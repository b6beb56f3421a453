"""Small functions that several tasks use: compiled loops, number words, checks of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Returns a loop that fills rows, compiled to machine code (numba, cached on disk).

    The cache notices only changes of the function's own file. So a compiled function may call
    `below` and other functions of its own module, but never those of another module.
    """
    return cast(F, numba.njit(cache=True)(function))


@compiled
def below(rng: np.random.Generator, stop: int) -> int:
    """Returns a random integer from 0 to stop - 1.

    In numba this is 20 times faster than `rng.integers`. The probabilities of two values differ by
    less than stop / 2**53.
    """
    return int(rng.random() * stop)


def number_words(count: int) -> tuple[str, ...]:
    """Returns the vocabulary entries for the integers 0 to count - 1."""
    return tuple(str(number) for number in range(count))


def as_count(number: int) -> float:
    """Returns an exact count as a float, or infinity where a float cannot hold it."""
    try:
        return float(number)
    except OverflowError:
        return math.inf


def require_range(task: object, name: str, least: int, most: int) -> None:
    """Raises ValueError unless the task's parameter is from `least` to `most`.

    Choose `most` far above what anyone trains, and below what would exhaust time or memory.
    """
    value = getattr(task, name)
    if not least <= value <= most:
        raise ValueError(f"{name} = {value}: must be from {least} to {most}")


def require_prime(task: object, name: str) -> None:
    """Raises ValueError unless the task's parameter is a prime number below 10,000."""
    value = getattr(task, name)
    if not (1 < value < 10_000 and all(value % k for k in range(2, math.isqrt(value) + 1))):
        raise ValueError(f"{name} = {value}: must be a prime number below 10000")


def inverses(p: int) -> npt.NDArray[np.int64]:
    """Returns (p,) the inverse of each number modulo a prime p, and 0 for 0, which has none."""
    return np.array([0] + [pow(number, -1, p) for number in range(1, p)])
