"""What can be found out again, kept in the user's cache folder for the next process.

The folder is `$XDG_CACHE_HOME/sweepd`, or `~/.cache/sweepd`. It may be deleted at any time. What
cannot be kept, or comes back otherwise than it was kept, is found out again.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_DIGEST_BYTES = 16
_UNUSABLE = (OSError, RuntimeError)
"""Of a folder that cannot be made, read or written, and of a user who has no home."""


def recall(name: str) -> bytes | None:
    """What was kept under a name, with slashes; None if there is nothing, or if it was changed."""
    try:
        stored = (_root() / name).read_bytes()
    except _UNUSABLE:
        return None
    told, data = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return data if _digest(data) == told else None


def keep(name: str, data: bytes) -> None:
    """Keep data under a name, if that is possible. It need not outlast a power cut."""
    with suppress(*_UNUSABLE):
        path = _root() / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = path.with_name(f".{uuid.uuid4().hex}")
        try:
            aside.write_bytes(_digest(data) + data)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)


def forget_others(folder: str, names: Collection[str]) -> None:
    """Drop all that is kept in a folder but what has these names in it."""
    with suppress(*_UNUSABLE):
        for path in (_root() / folder).iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)


def _root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "sweepd"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
