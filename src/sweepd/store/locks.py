"""Named locks. `Locks` says what they promise, and `FileLocks` keeps it with local files.

A lock is one byte of a file, at an offset hashed from its name, under a POSIX record lock
(fcntl). Such locks belong to a process. A forked child does not inherit them. Threads share them.
Closing *any* descriptor of the file drops them all. So this module opens each file once in a
process and never closes it, and nothing else in the process may open it. There are several files
because Linux looks at all locks of a file to take one more (docs/performance.md).
"""

import errno
import fcntl
import hashlib
import os
import struct
import sys
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from sweepd.errors import EnvironmentFailure
from sweepd.store.local import opened
from sweepd.store.storage import Unfit


class Locks(Protocol):
    """Locks by name, of which there may be thousands. They outlive their holder by
    `leases.TERM_SECONDS` at most.

    They hold between all processes that reach the store. Two threads, or two `Locks` of one
    process, exclude each other as two processes do.
    """

    def acquire(self, names: Collection[str]) -> set[str]:
        """Takes those of these locks that are free, without waiting. Returns their names."""

    def acquire_or_wait(self, name: str, note: Callable[[str], None]) -> bool:
        """Takes a lock unless its holder lives. It waits only until that is certain, and `note`
        is told why it waits. Returns whether the lock was taken. By default it does not wait,
        since the locks of a dead process are free."""
        return name in self.acquire([name])

    def release(self, names: Collection[str]) -> None:
        """Frees those of these locks that this process holds."""

    def held_elsewhere(self, names: Collection[str]) -> set[str]:
        """Returns those of these locks that another process holds. It takes no lock and needs no
        write access."""

    def confirm(self) -> None:
        """Raises EnvironmentFailure if what this process took was taken from it. Nobody can
        take a file lock, so by default this does nothing."""
        return

    def when_lost(self, tell: Callable[[str], None]) -> None:
        """Has `tell` called if what this process took is taken from it. It is called from another
        thread and told why. By default it never is."""
        return


FILES = 256


_files: dict[tuple[int, int], tuple[int, set[str]]] = {}
"""The lock files that this process has open, by device and inode: descriptors and held locks."""
_guard = threading.RLock()


def _forget() -> None:
    """Forgets the parent's locks, none of which a forked child holds. The descriptors stay open."""
    global _guard
    _files.clear()
    _guard = threading.RLock()


os.register_at_fork(after_in_child=_forget)


class FileLocks(Locks):
    """Locks on the files of a folder, which are made when first needed. Locks end with their
    process.

    They reach all machines that share the file system, if that supports record locks, as NFS
    does. Where it does not, taking a lock raises EnvironmentFailure.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def acquire(self, names: Collection[str]) -> set[str]:
        with _guard:
            taken = set()
            for name in names:
                descriptor, held = self._open(name)
                if name in held:
                    continue
                try:
                    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(name))
                except OSError as error:
                    if error.errno in (errno.EACCES, errno.EAGAIN):
                        continue  # another process holds it
                    if error.errno == errno.EBADF:  # it could be opened for reading alone
                        raise EnvironmentFailure(f"{self.folder}: cannot be written") from error
                    raise self._failure(error) from error
                held.add(name)
                taken.add(name)
            return taken

    def release(self, names: Collection[str]) -> None:
        with _guard:
            for name in names:
                if not self._path(name).exists():
                    continue  # deleted, and the lock with it; an error here might hide a worse one
                descriptor, held = self._open(name)
                if name in held:
                    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _offset(name))
                    held.remove(name)

    def held_elsewhere(self, names: Collection[str]) -> set[str]:
        with _guard:
            there = [name for name in names if self._path(name).exists()]
            try:
                return {name for name in there if _is_locked(self._open(name)[0], name)}
            except OSError as error:
                raise self._failure(error) from error

    def _path(self, name: str) -> Path:
        return self.folder / f"{_offset(name) % FILES:02x}"

    def _open(self, name: str) -> tuple[int, set[str]]:
        path = self._path(name)
        try:
            # Looked up before it is opened: closing a second descriptor would drop every lock.
            with suppress(FileNotFoundError):
                status = path.lstat()
                if file := _files.get((status.st_dev, status.st_ino)):
                    return file
            self.folder.mkdir(exist_ok=True)
            if self.folder.is_symlink():
                raise Unfit("it is a symbolic link, which is not followed")
            try:
                descriptor = opened(path, os.O_RDWR | os.O_CREAT)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EROFS) or not path.exists():
                    raise
                descriptor = opened(path, os.O_RDONLY)  # to ask who holds a lock
            status = os.fstat(descriptor)
        except (OSError, Unfit) as error:
            raise self._failure(error) from error
        return _files.setdefault((status.st_dev, status.st_ino), (descriptor, set()))

    def _failure(self, error: OSError | Unfit) -> EnvironmentFailure:
        reason = error.strerror if isinstance(error, OSError) else error
        return EnvironmentFailure(f"{self.folder}: locking failed: {reason}")


def _is_locked(descriptor: int, name: str) -> bool:
    """Returns whether another process holds the lock of this name."""
    kind, place = fcntl.F_WRLCK, (_offset(name), 1)
    # struct flock. Linux: type, whence, start, len, pid. macOS: start, len, pid, type, whence.
    if sys.platform == "darwin":
        query = struct.pack("qqihh", *place, 0, kind, os.SEEK_SET)
        kind = struct.unpack("qqihh", fcntl.fcntl(descriptor, fcntl.F_GETLK, query))[3]
    else:
        query = struct.pack("hhqqi0q", kind, os.SEEK_SET, *place, 0)
        kind = struct.unpack("hhqqi0q", fcntl.fcntl(descriptor, fcntl.F_GETLK, query))[0]
    return bool(kind != fcntl.F_UNLCK)


def _offset(name: str) -> int:
    """Returns the place of a lock in its file. It has 62 bits, so that offset + 1 is a file
    offset too. Two names have the same one with odds of 2^-62."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> 2
