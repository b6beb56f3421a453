"""Thousands of named locks on one local file, all of which die with the process that holds them.

A lock is one byte of the file, at an offset hashed from its name, under a POSIX record lock
(fcntl). Such locks belong to a process: a forked child does not inherit them, threads share them,
and closing *any* descriptor of the file drops them all. So this module opens the file once a
process and never closes it, and nothing else in the process may open it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from sweepd.errors import EnvironmentFailure


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


class Locks:
    """Locks by name in one file, which is made when first needed.

    Between processes of all the machines that share the file system, as far as that supports
    record locks (NFS does; EnvironmentFailure where it does not). Two threads, or two `Locks` of
    one process on the same file, exclude each other as two processes do.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def acquire(self, name: str) -> bool:
        """Take the lock if it is free, without waiting: whether it was."""
        with _guard:
            file = self._open()
            if name in file.held:
                return False
            try:
                fcntl.lockf(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(name))
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    return False
                raise self._failure(error) from error
            file.held.add(name)
            return True

    def release(self, name: str) -> None:
        """Free the lock if this process holds it."""
        with _guard:
            file = self._open()
            if name in file.held:
                fcntl.lockf(file.descriptor, fcntl.LOCK_UN, 1, _offset(name))
                file.held.remove(name)

    def held_elsewhere(self, name: str) -> bool:
        """Whether another process holds the lock; takes nothing, and a read-only folder will do."""
        with _guard:
            if not self.path.exists():
                return False
            query = _flock(fcntl.F_WRLCK, _offset(name))
            try:
                answer = fcntl.fcntl(self._open().descriptor, fcntl.F_GETLK, query)
            except OSError as error:
                raise self._failure(error) from error
            return _flock_type(answer) != fcntl.F_UNLCK

    def _open(self) -> _LockFile:
        try:
            # Looked up before it is opened: closing a second descriptor would drop every lock.
            file = _files.get(_identity(self.path.stat()))
        except FileNotFoundError:
            file = None
        except OSError as error:
            raise self._failure(error) from error
        if file is None:
            try:
                descriptor = _open_descriptor(self.path)
            except OSError as error:
                raise self._failure(error) from error
            file = _files[_identity(os.fstat(descriptor))] = _LockFile(descriptor)
        return file

    def _failure(self, error: OSError) -> EnvironmentFailure:
        return EnvironmentFailure(f"{self.path}: locking failed: {error.strerror}")


def _open_descriptor(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS) and path.exists():
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # enough to ask who holds a lock
        raise


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
