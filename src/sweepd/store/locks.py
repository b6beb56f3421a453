"""Named locks: what they promise (`Locks`), and how local files keep it (`FileLocks`).

A lock is one byte of a file, at an offset hashed from its name, under a POSIX record lock (fcntl).
Such locks belong to a process: a forked child does not inherit them, threads share them, and
closing *any* descriptor of the file drops them all. So this module opens each file once a process
and never closes it, and nothing else in the process may open it. There are several files because
Linux looks at all locks of a file to take one more (docs/scale.md).
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import sys
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sweepd.errors import EnvironmentFailure


class Locks(Protocol):
    """Locks by name, by the thousand, that outlive their holder by `leases.TERM_SECONDS` at most.

    Between all processes that reach the store. Two threads, or two `Locks` of one process,
    exclude each other as two processes do.
    """

    def acquire(self, names: Collection[str]) -> set[str]:
        """Take those that are free, without waiting. Returns those that were."""

    def acquire_or_wait(self, name: str, note: Callable[[str], None]) -> bool:
        """Take a lock unless its holder lives, waiting only until that is certain. Returns whether
        it was taken. `note` is told why it waits."""

    def release(self, names: Collection[str]) -> None:
        """Free those of these locks that this process holds."""

    def held_elsewhere(self, names: Collection[str]) -> set[str]:
        """Those that another process holds; takes nothing, and needs no write access."""

    def confirm(self) -> None:
        """EnvironmentFailure if what this process took was taken from it."""

    def when_lost(self, tell: Callable[[str], None]) -> None:
        """`tell` is told why, from another thread, once what this process took is taken from it."""


FILES = 256


@dataclass
class _LockFile:
    descriptor: int
    held: set[str] = field(default_factory=set)


_files: dict[tuple[int, int], _LockFile] = {}
"""The lock files that this process has open, by device and inode."""
_guard = threading.RLock()


def _forget() -> None:
    """A forked child holds none of its parent's locks (the descriptors it got stay open)."""
    global _guard
    _files.clear()
    _guard = threading.RLock()


os.register_at_fork(after_in_child=_forget)


class FileLocks:
    """Locks on the files of a folder, made when first needed; they die with their process.

    They reach all machines that share the file system, as far as that supports record locks (NFS
    does; EnvironmentFailure where it does not).
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def acquire(self, names: Collection[str]) -> set[str]:
        with _guard:
            taken = set()
            for name in names:
                file = self._open(name)
                if name not in file.held and self._lock(file, name):
                    file.held.add(name)
                    taken.add(name)
            return taken

    def acquire_or_wait(self, name: str, note: Callable[[str], None]) -> bool:
        return name in self.acquire([name])

    def release(self, names: Collection[str]) -> None:
        with _guard:
            for name in names:
                if not self._path(name).exists():
                    continue  # deleted, and the lock with it: there may be worse news to tell
                file = self._open(name)
                if name in file.held:
                    fcntl.lockf(file.descriptor, fcntl.LOCK_UN, 1, _offset(name))
                    file.held.remove(name)

    def held_elsewhere(self, names: Collection[str]) -> set[str]:
        with _guard:
            there = [name for name in names if self._path(name).exists()]
            try:
                return {name for name in there if _is_locked(self._open(name).descriptor, name)}
            except OSError as error:
                raise self._failure(error) from error

    def confirm(self) -> None:
        """Always so."""

    def when_lost(self, tell: Callable[[str], None]) -> None:
        """Never so."""

    def _lock(self, file: _LockFile, name: str) -> bool:
        try:
            fcntl.lockf(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(name))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise self._failure(error) from error
        return True

    def _path(self, name: str) -> Path:
        return self.folder / f"{_offset(name) % FILES:02x}"

    def _open(self, name: str) -> _LockFile:
        path = self._path(name)
        try:
            # Looked up before it is opened: closing a second descriptor would drop every lock.
            file = _files.get(_identity(path.stat()))
        except FileNotFoundError:
            file = None
        except OSError as error:
            raise self._failure(error) from error
        if file is None:
            try:
                self.folder.mkdir(exist_ok=True)
                descriptor = _open_descriptor(path)
            except OSError as error:
                raise self._failure(error) from error
            file = _files[_identity(os.fstat(descriptor))] = _LockFile(descriptor)
        return file

    def _failure(self, error: OSError) -> EnvironmentFailure:
        return EnvironmentFailure(f"{self.folder}: locking failed: {error.strerror}")


def _open_descriptor(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS) and path.exists():
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # enough to ask who holds a lock
        raise


def _is_locked(descriptor: int, name: str) -> bool:
    """By another process."""
    query = _flock(fcntl.F_WRLCK, _offset(name))
    return _flock_type(fcntl.fcntl(descriptor, fcntl.F_GETLK, query)) != fcntl.F_UNLCK


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _offset(name: str) -> int:
    """62 bits, so that offset + 1 is a file offset; two names meet with odds of 2^-62."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> 2


# struct flock. Linux: type, whence, start, len, pid. macOS: start, len, pid, type, whence.
_FLOCK, _TYPE = ("qqihh", 3) if sys.platform == "darwin" else ("hhqqi0q", 0)


def _flock(kind: int, offset: int) -> bytes:
    fields = (offset, 1, 0, kind, os.SEEK_SET)
    if sys.platform != "darwin":
        fields = (kind, os.SEEK_SET, offset, 1, 0)
    return struct.pack(_FLOCK, *fields)


def _flock_type(flock: bytes) -> int:
    kind: int = struct.unpack(_FLOCK, flock)[_TYPE]
    return kind
