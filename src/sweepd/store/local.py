"""Objects as files of a local folder. A file is written aside, flushed, and renamed or linked
into place."""

import errno
import os
import stat
import time
from collections.abc import Callable, Collection
from pathlib import Path

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store.storage import File, Folder, aside_name, failure, is_aside

RETRY_DELAYS: tuple[float, ...] = (0.1, 0.5, 2.0)
"""The seconds to wait before each further try to write, after an error that may pass, such as a
full disk or a network error."""
_LASTING = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR}
_LASTING |= {errno.ENAMETOOLONG}


class LocalFolder(Folder):
    """The objects of a local folder. All but logs also outlast a machine that stops."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.address = str(root)

    def path(self, name: str) -> Path:
        return self.root / name

    def where(self, name: str) -> str:
        return str(self.path(name))

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
        self.put(probe, b"")
        try:
            return self.path(probe).stat().st_mtime
        finally:
            self.delete([probe])

    def is_empty(self) -> bool:
        try:
            return all(is_aside(path.name) for path in self.root.iterdir())
        except FileNotFoundError:
            return True
        except NotADirectoryError:
            return False
        except OSError as error:
            raise _failure("list", self.root, error) from error

    def read(self, name: str, version: str | None = None) -> bytes:
        return self._read(name, Path.read_bytes)

    def read_part(self, name: str, start: int, length: int) -> bytes:
        def read_part(path: Path) -> bytes:
            with path.open("rb", buffering=0) as file:
                file.seek(start)
                return file.read(length)

        return self._read(name, read_part)

    def put(self, name: str, data: bytes) -> None:
        self._write(name, data, os.replace)

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._write(name, data, os.link)
        except FileExistsError:
            return False
        return True

    def append(self, name: str, text: str) -> None:
        path = self.path(f"{name}.log")
        try:
            _make_folder(path.parent, self.root)
            with path.open("a", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError as error:
            raise _failure("write", path, error) from error

    def flush(self) -> None:
        """Does nothing: the system has the text, and a process that is killed loses none."""

    def delete(self, names: Collection[str]) -> None:
        for name in names:
            try:
                self.path(name).unlink(missing_ok=True)
            except OSError as error:
                raise _failure("delete", self.path(name), error) from error

    def listed(self, below: str = "", after: str = "") -> list[File]:
        root, files = str(self.path(below)), []

        def fail(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise _failure("list", Path(error.filename or root), error) from error

        for folder, _, names in os.walk(root, onerror=fail):
            for path in (f"{folder}/{name}" for name in names):
                if (name := path.removeprefix(f"{root}/")) > after:
                    try:
                        status = Path(path).stat()
                    except OSError as error:  # gone since, or refused
                        fail(error)
                        continue
                    if stat.S_ISREG(status.st_mode):
                        # No version: a file may change within one tick of the clock.
                        files.append(File(name, status.st_size, status.st_mtime, None))
        return sorted(files, key=lambda file: file.name)

    def _read(self, name: str, read: Callable[[Path], bytes]) -> bytes:
        path = self.path(name)
        try:
            return read(path)
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path)) from None
        except OSError as error:
            raise _failure("read", path, error) from error

    def _write(self, name: str, data: bytes, publish: Callable[[Path, Path], None]) -> None:
        path = self.path(name)
        for delay in (*RETRY_DELAYS, None):
            aside = path.with_name(aside_name())
            try:
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
                return
            except FileExistsError:
                raise
            except OSError as error:
                if delay is None or error.errno in _LASTING:
                    raise _failure("write", path, error) from error
                time.sleep(delay)


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


def _failure(what: str, path: Path, error: OSError) -> EnvironmentFailure:
    return failure(what, str(path), error.strerror or str(error))
