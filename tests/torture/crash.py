"""Kills this process at a chosen step of what it writes, and loses what a power cut would lose.

Every call that changes the file system is a step: making a file, writing, fsync, rename, link,
unlink and mkdir. The name of a step says what it does and to what (`replace metrics`). So a test
can choose every kind of step.
"""

import builtins
import io
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Self

Undo = Callable[[], None]


class Crash:
    """Watches the steps below `root`; at step `at` (counted from 0, or the first of that name) the
    process dies.

    Before the step is taken; a write that dies has written half of its bytes. With `power` (a
    seed), what was not made durable may be lost, each thing by a coin's toss: the bytes of files
    that were not synced, and names made, changed or removed in folders not synced since.
    """

    def __init__(self, root: Path, at: int | str | None, power: float | None) -> None:
        self.root, self.at = root.resolve(), at
        self.rng = None if power is None else random.Random(power)
        self.names: list[str] = []
        self.unsynced: set[Path] = set()
        """files whose bytes may be lost"""
        self.undo: list[tuple[Path, Undo]] = []
        """each change of a name that is not durable yet: the path, and how to take it back"""

    def install(self) -> None:
        """Replace the primitives of this process; there is no way back."""
        self.wrap("replace", self.renamed)
        self.wrap("link", self.renamed)
        self.wrap("unlink", self.changed)
        self.wrap("mkdir", self.made_folder)
        fsync, opened = os.fsync, io.open

        def watched_fsync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            self.step("fsync", path)
            fsync(descriptor)
            self.unsynced.discard(path)
            self.undo = [change for change in self.undo if change[0].parent != path]

        def watched_open(file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if isinstance(file, int) or not set(mode) & set("wax+"):
                return opened(file, mode, *rest, **more)
            path = Path(file).absolute()
            if not self.step("open", path):
                return opened(file, mode, *rest, **more)
            if not path.exists():
                self.later(path, self.changed(path))
            self.unsynced.add(path)
            return _Watched(self, path, opened(file, mode, *rest, **more))

        os.fsync, io.open = watched_fsync, watched_open  # type: ignore[assignment]
        builtins.open = watched_open

    def wrap(self, name: str, undone: Callable[..., Undo]) -> None:
        real = getattr(os, name)

        def watched(*arguments: Any, **more: Any) -> None:
            paths = [Path(path).absolute() for path in arguments if not isinstance(path, int)]
            ours, undo = self.step(name, paths[-1]), undone(*paths)
            real(*arguments, **more)
            if ours:
                self.later(paths[-1], undo)

        setattr(os, name, watched)

    def step(self, what: str, path: Path, half_done: Undo = lambda: None) -> bool:
        """Whether this is a step of ours; the process may die here."""
        if not path.is_relative_to(self.root):
            return False
        is_folder = what == "mkdir" or path.is_dir()
        name = f"{what} {_kind(path.relative_to(self.root), is_folder)}"
        if self.at in (len(self.names), name):
            half_done()
            self.die()
        self.names.append(name)
        return True

    def later(self, path: Path, undo: Undo) -> None:
        if self.rng:
            self.undo.append((path, undo))

    def renamed(self, old: Path, new: Path) -> Undo:
        if old in self.unsynced:
            self.unsynced.add(new)
        return self.changed(new)

    def changed(self, path: Path) -> Undo:
        before = path.read_bytes() if path.is_file() else None
        return lambda: _restore(path, before)

    def made_folder(self, path: Path) -> Undo:
        return lambda: shutil.rmtree(path, ignore_errors=True)

    def die(self) -> NoReturn:
        if self.rng:
            self.at, changes, kept = None, list(reversed(self.undo)), set()
            for path in sorted(self.unsynced):
                if path.exists() and self.rng.random() < 0.5:
                    os.truncate(path, self.rng.randint(0, path.stat().st_size))
            for path, undo in changes:
                if path in kept or self.rng.random() < 0.5:
                    kept.add(path)
                else:
                    undo()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")


class _Watched:
    """A file being written, each of whose writes is a step."""

    def __init__(self, crash: Crash, path: Path, file: Any) -> None:
        self.crash, self.path, self.file = crash, path, file

    def write(self, data: Any) -> int:
        def half() -> None:
            self.file.write(data[: len(data) // 2])
            self.file.flush()

        self.crash.step("write", self.path, half)
        written: int = self.file.write(data)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()


def _kind(path: Path, is_folder: bool) -> str:
    """What a path below the store is: the folder it lies in, and whether it is still aside."""
    folder = path.parts[0] if len(path.parts) > (not is_folder) else "the root"
    if path.name.startswith(".aside"):
        return f"{folder} (aside)"
    return f"{folder} (kept)" if path.name.endswith(".keep.pt") else folder


def _restore(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    elif path.parent.is_dir():
        path.write_bytes(content)
