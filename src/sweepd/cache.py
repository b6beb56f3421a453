"""A cache of what can be found out again, in the user's cache folder for the next process.

The folder is `$XDG_CACHE_HOME/sweepd`, or `~/.cache/sweepd`. It may be deleted at any time. What
cannot be kept, or was changed since, is found out again.
"""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

_ASIDE = "."
"""The beginning of the names of files that are still being written."""
_DIGEST_BYTES = 16
_UNUSABLE = (OSError, RuntimeError)
"""The errors that mean that the cache cannot be used. A folder that cannot be made, read or written
raises OSError. A user without a home folder raises RuntimeError."""


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
        aside = path.with_name(f"{_ASIDE}{uuid.uuid4().hex}")
        try:
            aside.write_bytes(_digest(data) + data)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)


def keep_file(folder: str, write: Callable[[Path], object], most_bytes: int) -> str | None:
    """Keeps the file that `write` makes at a path. Returns the name under which `recall_file` finds
    it, which is empty if it has more than so many bytes. Returns None if it could not be kept."""
    try:
        below = _root() / folder
        below.mkdir(mode=0o700, parents=True, exist_ok=True)
    except _UNUSABLE:
        return None
    aside = below / f"{_ASIDE}{uuid.uuid4().hex}"
    try:
        write(aside)
        if aside.stat().st_size > most_bytes:
            return ""
        name = f"{folder}/{_file_digest(aside)}"
        aside.replace(_root() / name)
        return name
    except OSError:
        return None
    finally:
        with suppress(OSError):
            for path in below.glob(f"{aside.name}*"):  # what belongs to it, too
                path.unlink()


def recall_file(name: str) -> Path | None:
    """Returns where a file lies that `keep_file` kept. Returns None if it is gone or was
    changed."""
    with suppress(*_UNUSABLE):
        path = _root() / name
        return path if _file_digest(path) == path.name else None
    return None


def note_use(*names: str) -> None:
    """Notes that these are used now, so that `bound` deletes them later than others."""
    with suppress(*_UNUSABLE):
        for name in names:
            os.utime(_root() / name)


def bound(folder: str, most_bytes: int) -> None:
    """Deletes files of a folder, the longest unused first, until the others take at most so many
    bytes. What a process is still writing stays."""
    with suppress(*_UNUSABLE):
        found = [(path, path.stat()) for path in (_root() / folder).iterdir() if path.is_file()]
        for path, stat in sorted(found, key=lambda one: one[1].st_mtime, reverse=True):
            most_bytes -= stat.st_size
            is_written = path.name.startswith(_ASIDE) and time.time() - stat.st_mtime < 3600
            if most_bytes < 0 and not is_written:
                path.unlink(missing_ok=True)


def forget(name: str) -> None:
    """Deletes what was kept under a name, if there is anything."""
    with suppress(*_UNUSABLE):
        (_root() / name).unlink(missing_ok=True)


def forget_others(folder: str, names: Collection[str]) -> None:
    """Deletes all that is kept in a folder, except what has one of these names."""
    with suppress(*_UNUSABLE):
        for path in (_root() / folder).iterdir():
            if path.name not in names:
                path.unlink(missing_ok=True)


def _root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "sweepd"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, _new_digest).hexdigest()


def _new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)
