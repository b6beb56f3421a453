"""The few primitives that the store asks of a file system, here on a local folder.

The floor above speaks of whole objects by relative name (`trials/x.parquet`). Another kind of
storage is another class with these methods.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sweepd.errors import EnvironmentFailure, UserError

FORMAT = 1
"""Version of the layout of a store; files of a higher one are refused."""
ASIDE = ".aside-"
"""How the names of files that are still being written begin; nothing lists them."""
RETRY_DELAYS = (0.1, 0.5, 2.0)
"""Seconds to wait before writing again after an error that may pass (disk full, network)."""
_LASTING = frozenset(
    [
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ENAMETOOLONG,
    ]
)
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def checked(name: str) -> str:
    """A name from outside that may be part of a path, or UserError."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r}: a name has 1 to 100 letters, digits, '.', '_' and '-', and no '.' in front"
        )
    return name


def to_json(info: Mapping[str, Any]) -> bytes:
    return json.dumps(info, indent=1, ensure_ascii=False).encode(errors="replace") + b"\n"


class LocalFolder:
    """A folder of objects that appear whole or not at all, also when the machine stops.

    `name` is a path below the folder, with slashes. What fails raises EnvironmentFailure with
    path and reason.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, name: str) -> Path:
        return self.root / name

    def check_writable(self) -> None:
        probe = _aside_name()
        self.put(probe, b"")
        self.delete(probe)

    def read(self, name: str) -> bytes:
        """FileNotFoundError if there is no such object."""
        path = self.path(name)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path)) from None
        except OSError as error:
            raise _failure("read", path, error) from error

    def exists(self, name: str) -> bool:
        return self.path(name).exists()

    def names(self, folder: str = "") -> list[str]:
        """What lies directly in a folder, sorted; nothing if there is no such folder."""
        try:
            found = [path.name for path in self.path(folder).iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _failure("list", self.path(folder), error) from error
        return sorted(name for name in found if not name.startswith(ASIDE))

    def age(self, name: str) -> float:
        """Seconds since the object was written, by this machine's clock; 0 if it is gone."""
        return _age(self.path(name))

    def put(self, name: str, data: bytes) -> None:
        """Make `name` hold `data`, in place of what it held."""
        self._write(name, data, os.replace)

    def create(self, name: str, data: bytes) -> bool:
        """Make `name` hold `data` unless it exists: whether it did not."""
        try:
            self._write(name, data, os.link)
        except FileExistsError:
            return False
        return True

    def append(self, name: str, text: str) -> None:
        """Add to the end of a text file. The one write that is neither whole nor durable."""
        try:
            _make_folder(self.path(name).parent, self.root)
            with self.path(name).open("a", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except OSError as error:
            raise _failure("write", self.path(name), error) from error

    def delete(self, name: str) -> None:
        try:
            self.path(name).unlink(missing_ok=True)
        except OSError as error:
            raise _failure("delete", self.path(name), error) from error

    def delete_asides(self, older_than_seconds: float) -> int:
        """Delete what writers that died left behind: how many files."""
        asides = [path for path in self.root.rglob(ASIDE + "*") if _age(path) >= older_than_seconds]
        for path in asides:
            self.delete(path.relative_to(self.root).as_posix())
        return len(asides)

    def _write(self, name: str, data: bytes, publish: Callable[[Path, Path], None]) -> None:
        path = self.path(name)
        for delay in (*RETRY_DELAYS, None):
            try:
                _make_folder(path.parent, self.root)
                _write_aside(path, data, publish)
                return
            except FileExistsError:
                raise
            except OSError as error:
                if delay is None or error.errno in _LASTING:
                    raise _failure("write", path, error) from error
                time.sleep(delay)


def _write_aside(path: Path, data: bytes, publish: Callable[[Path, Path], None]) -> None:
    aside = path.with_name(_aside_name())
    try:
        with aside.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        publish(aside, path)
        _sync_folder(path.parent)
    finally:
        aside.unlink(missing_ok=True)


def _aside_name() -> str:
    return ASIDE + uuid.uuid4().hex


def _make_folder(folder: Path, root: Path) -> None:
    """Durably make what is missing below `root`, which must exist."""
    if folder != root and not folder.is_dir():
        _make_folder(folder.parent, root)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    """Without this a new name may be lost with the power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _failure(what: str, path: Path, error: OSError) -> EnvironmentFailure:
    return EnvironmentFailure(f"cannot {what} {path}: {error.strerror or error}")
