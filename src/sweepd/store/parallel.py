"""Several files read at once. On an object store each read waits for a round trip."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

READERS = 16
"""The number of files that are read at once."""
Item = TypeVar("Item")
Result = TypeVar("Result")


def each(function: Callable[[Item], Result], items: Collection[Item], at_once: int) -> list[Result]:
    """Returns what a function makes of each of these, in their order. Threads work on at most
    `at_once` of them at a time. Raises the first error."""
    if len(items) < 2:  # to start a thread takes longer than to read a small file
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # which takes a while

    with ThreadPoolExecutor(min(at_once, len(items))) as pool:
        return list(pool.map(function, items))
