"""A disk that cannot be read for a while, or for good: what the system says then, for each file and
folder."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch


@contextmanager
def failing_reads(
    fails: str | Callable[[str], bool], number: int = errno.EIO, times: float = float("inf")
) -> Iterator[list[str]]:
    """Within this block the system refuses to open a file for reading, or to list a folder, whose
    path ends so, or of which `fails` says so: the first `times` times. Yields the paths that are
    read, which grows. Nobody waits between two tries."""
    read: list[str] = []
    failed = 0

    def watched(name: str, is_read: Callable[..., bool]) -> Any:
        real = getattr(os, name)

        def call(path: Any = ".", *arguments: Any, **more: Any) -> Any:
            nonlocal failed
            if not isinstance(path, int) and is_read(*arguments):
                text = os.fspath(path)
                read.append(text)
                fit = text.endswith(fails) if isinstance(fails, str) else fails(text)
                if fit and failed < times:
                    failed += 1
                    raise OSError(number, os.strerror(number), text)
            return real(path, *arguments, **more)

        return patch.object(os, name, call)

    def for_reading(flags: int, *_: int) -> bool:
        return flags & (os.O_WRONLY | os.O_RDWR) == 0

    with (
        watched("open", for_reading),
        watched("scandir", lambda: True),
        patch("sweepd.store.local.RETRY_DELAYS", (0.0, 0.0, 0.0)),
    ):
        yield read
