"""Objects as files of a local folder. A file is written aside, flushed, and renamed or linked
into place.

No link below the folder is followed, and nothing but regular files is read, since a folder may
come from others. `LocalFolder._no_link` and `opened` see to that.
"""

import errno
import io
import os
import stat
import time
from collections.abc import Callable, Collection
from pathlib import Path

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store.storage import (
    MOST_BYTES,
    File,
    Folder,
    Result,
    Unfit,
    aside_name,
    failure,
    is_aside,
)

RETRY_DELAYS: tuple[float, ...] = (0.1, 0.5, 2.0)
"""The seconds to wait before each further try, after an error that may pass, such as a full disk,
a stale handle or too many open files."""
_LASTING = {errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}
"""Errors that do not pass."""
_REFUSED = _LASTING | {errno.EACCES, errno.EPERM, errno.EROFS}
"""Errors of writing that do not pass. That reading is refused may, where another machine's
permission is only not known yet."""
DEPTH = 4
"""How many folders deep an object lies at most. What lies deeper is not a store's."""
KINDS = {
    stat.S_IFLNK: "a symbolic link, which is not followed",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
"""What may lie in the place of a regular file; devices go without saying."""


class LocalFolder(Folder):
    """The objects of a local folder. All but logs also outlast a machine that stops."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = str(root)

    def where(self, name: str) -> str:
        return str(self.root / name)

    def make(self) -> None:
        """Makes the folder. Raises UserError if there is a file in its place or on the way."""
        try:
            _make_folder(self.root, Path(self.root.anchor))
        except FileExistsError as error:
            raise UserError(f"{error.filename} is a file: results need a folder") from None
        except OSError as error:
            raise _failure("make", self.root, error) from error

    def now(self) -> float:
        probe = aside_name()
        try:
            self.put(probe, b"")
            return self._trying("read", probe, lambda path: path.stat().st_mtime)
        finally:
            self.delete([probe])

    def is_empty(self) -> bool:
        def is_empty(root: Path) -> bool:
            try:
                return all(is_aside(path.name) for path in root.iterdir())
            except FileNotFoundError:
                return True
            except NotADirectoryError:
                return False

        return self._trying("list", "", is_empty)

    def read(self, name: str, version: str | None = None, most: int = MOST_BYTES) -> bytes:
        def read(file: io.FileIO) -> bytes:
            if os.fstat(file.fileno()).st_size > most:
                raise Unfit(f"larger than {most:,} bytes")
            return file.readall()

        return self._read(name, read)

    def read_part(self, name: str, start: int, length: int) -> bytes:
        return self._read(name, lambda file: os.pread(file.fileno(), length, start))

    def put(self, name: str, data: bytes) -> None:
        self._write(name, data, os.replace)

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._write(name, data, os.link)
        except FileExistsError:
            return False
        return True

    def append(self, name: str, text: str) -> None:
        path = self.root / f"{name}.log"
        try:
            self._no_link(f"{name}.log")
            _make_folder(path.parent, self.root)
            with open(path, "a", encoding="utf-8", errors="replace", opener=opened) as file:
                file.write(text)
        except (OSError, Unfit) as error:
            raise _failure("write", path, error) from error

    def flush(self) -> None:
        """Does nothing: the system has the text, and a process that is killed loses none."""

    def delete(self, names: Collection[str]) -> None:
        for name in names:
            try:
                self._no_link(name)
                (self.root / name).unlink(missing_ok=True)
            except (OSError, Unfit) as error:
                raise _failure("delete", self.root / name, error) from error

    def listed(self, below: str = "", after: str = "") -> list[File]:
        def walk(root: Path) -> list[File]:
            self._no_link(f"{below}/" if below else "")
            files, folders = [], [("", str(root))]
            for start, folder in folders:  # which grows meanwhile
                try:
                    entries = [*os.scandir(folder)]
                except FileNotFoundError:
                    continue  # there is none, or it is gone since
                for entry in entries:
                    name = start + entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if name.count("/") < DEPTH:
                            folders.append((f"{name}/", entry.path))
                    elif name > after:
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        # No version: a file may change within one tick of the clock.
                        fit = stat.S_ISREG(status.st_mode)
                        files.append(File(name, status.st_size, status.st_mtime, None, fit))
            return sorted(files, key=lambda file: file.name)

        try:
            return self._trying("list", below, walk)
        except Unfit as error:
            raise failure("list", self.where(below), str(error)) from error

    def _read(self, name: str, read: Callable[[io.FileIO], bytes]) -> bytes:
        """Returns what `read` reads of a regular file. All reads of files come by here."""

        def act(path: Path) -> bytes:
            self._no_link(name)
            try:
                with open(path, "rb", buffering=0, opener=opened) as file:
                    return read(file)
            except (FileNotFoundError, NotADirectoryError):
                raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path)) from None

        return self._trying("read", name, act)

    def _write(self, name: str, data: bytes, publish: Callable[[Path, Path], None]) -> None:
        def act(path: Path) -> None:
            aside = path.with_name(aside_name())
            self._no_link(name)
            _make_folder(path.parent, self.root)
            try:
                with aside.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                publish(aside, path)
                _sync_folder(path.parent)
            finally:
                aside.unlink(missing_ok=True)

        try:
            self._trying("write", name, act, _REFUSED)
        except Unfit as error:
            raise _failure("write", self.root / name, error) from error

    def _no_link(self, name: str) -> None:
        """Raises Unfit if a folder on the way to an object is a link."""
        for end, letter in enumerate(name):
            if letter == "/" and (self.root / name[:end]).is_symlink():
                raise Unfit(f"{self.root / name[:end]} is {KINDS[stat.S_IFLNK]}")

    def _trying(
        self,
        what: str,
        name: str,
        act: Callable[[Path], Result],
        lasting: Collection[int] = _LASTING,
    ) -> Result:
        """Returns what `act` returns of a path. Tries again after errors that may pass, and raises
        EnvironmentFailure with the last one."""
        path = self.root / name
        for delay in (*RETRY_DELAYS, None):
            try:
                return act(path)
            except FileExistsError:
                raise
            except OSError as error:
                if what == "read" and isinstance(error, FileNotFoundError):
                    raise
                if delay is None or error.errno in lasting:
                    if what == "list" and error.filename:  # a folder below
                        path = Path(error.filename)
                    raise _failure(what, path, error) from error
                time.sleep(delay)
        raise AssertionError


def opened(path: str | os.PathLike[str], flags: int) -> int:
    """Opens a regular file, as the `opener` of `open`. Raises Unfit if it is anything else. It
    never waits, as for somebody who writes to a pipe."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o666)
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind == stat.S_IFREG:
            return descriptor
        os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    raise Unfit(f"no regular file but {KINDS.get(kind, 'a device')}")


def _make_folder(folder: Path, root: Path) -> None:
    """Makes what is missing below `root`, durably. `root` must exist."""
    if folder != root and not folder.is_dir():
        _make_folder(folder.parent, root)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable, which a power cut could take otherwise."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failure(what: str, path: Path, error: OSError | Unfit) -> EnvironmentFailure:
    reason = error.strerror if isinstance(error, OSError) else None
    return failure(what, str(path), reason or str(error))
