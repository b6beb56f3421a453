"""A cache of what can be found out again, in the user's cache folder for the next process.

The folder is `$XDG_CACHE_HOME/sweepd`, or `~/.cache/sweepd`. It may be deleted at any time. What
cannot be kept, or was changed since, is found out again.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from sweepd.errors import EnvironmentFailure
from sweepd.replacing import write

_DIGEST_BYTES = 16
_UNUSABLE = (OSError, RuntimeError, EnvironmentFailure)
"""The errors that mean that the cache cannot be used. A folder that cannot be made or read raises
OSError, one that cannot be written EnvironmentFailure, and a user without a home folder
RuntimeError."""


def recall(name: str) -> bytes | None:
    """Returns what was kept under a name, which may have slashes. Returns None if there is nothing,
    or if it was changed."""
    try:
        stored = (_root() / name).read_bytes()
    except _UNUSABLE:
        return None
    told, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return data if _digest(data) == told else None


def keep(name: str, data: bytes) -> None:
    """Keeps data under a name, if that is possible. It need not outlast a power cut."""
    with suppress(*_UNUSABLE):
        path = _root() / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write(path, _digest(data) + data)


def _root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "sweepd"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
