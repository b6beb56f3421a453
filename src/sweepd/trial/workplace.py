"""Where a program runs: a folder of its trial that looks like the grid's.

A launch makes one copy of the grid's repository on each machine: of one version, with folders made
anew, small files copied and large ones linked (`LaunchCopy`). What a trial writes by a relative
path lands in a layer of its own over that copy, which the kernel mounts (overlayfs). Where the
kernel does not let us, the trial gets a copy of the copy (`Workplace`). Paths are texts where tens
of thousands of files are looked at, since to make a Path takes longer than to look.
"""

# ruff: noqa: PTH103, PTH115, PTH116, PTH208, PTH211
from __future__ import annotations

import contextlib
import fcntl
import fnmatch
import hashlib
import json
import math
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sweepd.errors import EnvironmentFailure
from sweepd.trial import guard

COPIED_BYTES = 2**20
"""The largest file that is copied, in bytes. A larger one is linked."""
FOLDER_FILES, FOLDER_BYTES = 20_000, 2**28
"""The most files, and bytes to copy, of a folder that is copied. A larger one is linked whole."""
MOST_BESIDE = 2_000
"""The most entries of a folder above the repository that are linked."""
LEFT_OUT = {
    *(".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints", ".tox", ".nox", "node_modules"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"),
}
"""The names of what is no part of a copy."""
STORE, CACHE = "sweepd-store.json", "CACHEDIR.TAG"
"""The files that say that a folder is a store of results, or a cache. Neither is part of a copy."""
ENVIRONMENT = {"pyvenv.cfg", "conda-meta"}
"""What says that a folder is a Python environment. It is linked as a whole."""
WAIT_SECONDS = 60.0
"""The most seconds to wait until the end of what an earlier attempt has left running."""
LOOK_SHARE = 0.05
"""The most of its trials' time that it takes to look for what has changed in the original."""
Facts = tuple[int, int]
"""The time of the last change of a file, in nanoseconds, and its size."""


def facts(path: str | Path) -> Facts | None:
    """Returns what tells whether a file was changed, or None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def held(folder: Path, shared: bool = False) -> int:
    """Makes a folder and locks it for this process and those that inherit the descriptor, which is
    returned. Raises EnvironmentFailure where another holds it for too long."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # somebody has just deleted it
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(
                    descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
                )
                if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                    return descriptor
            except BlockingIOError:
                time.sleep(0.01)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
    raise EnvironmentFailure(f"{folder}: what an earlier attempt started does not end")


def shared_folder() -> Path:
    """Returns the folder on this machine below which programs run. It is this user's alone."""
    folder = Path(tempfile.gettempdir(), f"sweepd-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid():
        raise EnvironmentFailure(f"{folder} belongs to another user: set TMPDIR to another folder")
    return folder


def name_of(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:12]


def sweep_up() -> None:
    """Deletes what processes have left here that were killed."""
    for folder in shared_folder().iterdir():
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                guard.delete(str(folder))
            finally:
                os.close(descriptor)


def root_of(base: Path) -> Path:
    """Returns the root of the repository that a folder lies in, or the folder itself."""
    return next((one for one in (base, *base.parents) if (one / ".git").exists()), base)


@dataclass
class LaunchCopy:
    """A copy of the grid's repository, at the same path below `tree` as it has below `/`.

    linked: what is a link to the original, by its path: the `facts` of a file, None of a folder.
    overlays: whether the kernel mounts overlays here. printed_to: the numbers of the files to which
    the launch prints.
    """

    base: Path
    folder: Path
    lock: int
    linked: Mapping[str, Facts | None]
    overlays: bool
    printed_to: Sequence[int]
    looked: float = -math.inf
    look_seconds: float = 0.0
    """When the original was looked at last, and how long that took."""

    @property
    def tree(self) -> Path:
        return self.folder / "tree"

    @classmethod
    def of(
        cls, base: Path, key: str, pinned: Callable[[], Mapping[str, bytes]] = dict
    ) -> LaunchCopy:
        """Returns the copy with a key, which the first process on this machine makes. pinned: gives
        the content of files that are to be as the launch had them, by their paths from `base`."""
        base = Path(os.path.realpath(base))
        folder = shared_folder() / f"launch-{key}"
        about = folder / "copy.json"
        while True:
            lock = held(folder, shared=True)
            if about.exists():
                return cls(base, folder, lock, **json.loads(about.read_text()))
            os.close(lock)
            lock = held(folder)
            try:
                if not about.exists():
                    cls._make(base, folder, pinned())
            finally:
                os.close(lock)

    @staticmethod
    def _make(base: Path, folder: Path, pinned: Mapping[str, bytes]) -> None:
        sweep_up()
        tree, root = folder / "tree", root_of(base)
        guard.delete(str(tree))
        copying = Copying(avoid=str(shared_folder()))
        here = Path(f"{tree}{base}")
        for parent in reversed(root.parents):
            copying.link_beside(parent, Path(f"{tree}{parent}"), root)
        if root.is_dir():  # on another machine it need not be
            copying.copy(root, Path(f"{tree}{root}"), base)
        here.mkdir(parents=True, exist_ok=True)
        for name, data in pinned.items():
            target = Path(os.path.normpath(here / name))
            if not target.is_relative_to(tree):
                raise EnvironmentFailure(f"{name} lies outside of all folders")
            place(target, data, tree)
        about = {
            "linked": {
                path.removeprefix(str(tree)): facts for path, facts in copying.linked.items()
            },
            "overlays": overlays_work(folder),
            "printed_to": [os.fstat(output).st_ino for output in (1, 2)],
        }
        (folder / "copy.json").write_text(json.dumps(about))

    def changed(self, since: int) -> list[str]:
        """Returns the files of the original that have changed since a time (in nanoseconds), by
        their paths from the grid's folder, without hidden ones. To look takes some of the time that
        trials run, and is left out where it would take more than LOOK_SHARE."""
        began = time.monotonic()
        if began - self.looked < self.look_seconds / LOOK_SHARE:
            return []
        changed = []
        for folder, below, files in os.walk(root_of(self.base)):
            if {STORE, CACHE, *ENVIRONMENT} & {*files, *below}:
                below.clear()
                continue
            below[:] = (n for n in below if not (n in LEFT_OUT or f"{folder}/{n}" in self.linked))
            for name in files:
                with contextlib.suppress(OSError):
                    status = os.stat(f"{folder}/{name}")
                    late = status.st_mtime_ns > since and name[0] != "."
                    if late and status.st_ino not in self.printed_to:
                        changed.append(os.path.relpath(f"{folder}/{name}", self.base))
        self.looked = time.monotonic()
        self.look_seconds = self.looked - began
        return sorted(changed)

    def close(self) -> None:
        """Gives the copy up. Who does so last deletes it."""
        with contextlib.suppress(OSError):
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            guard.delete(str(self.folder))
        os.close(self.lock)


def place(target: Path, data: bytes, tree: Path) -> None:
    """Writes a file, and no original: neither through a link nor through one to a folder above."""
    for parent in reversed(target.parents):
        if parent.is_relative_to(tree) and parent != tree and parent.is_symlink():
            original = parent.resolve()
            parent.unlink()
            parent.mkdir()
            for entry in original.iterdir() if original.is_dir() else ():
                (parent / entry.name).symlink_to(entry)
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o755
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(target.stat().st_mode)
        target.unlink()
    target.write_bytes(data)
    target.chmod(mode | 0o700)  # a program may be run


class Copying:
    """Copies folders: made anew, with small files copied and large ones linked. linked: what is a
    link to the original, as in `LaunchCopy`. copied: the `facts` of each copy."""

    def __init__(self, avoid: str = "") -> None:
        self.avoid = avoid
        self.linked: dict[str, Facts | None] = {}
        self.copied: dict[str, Facts] = {}

    def link_beside(self, source: Path, target: Path, root: Path) -> None:
        """Makes a folder above the root, with links to what lies there besides."""
        target.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError), os.scandir(source) as found:
            entries = list(found)
            for entry in entries if len(entries) <= MOST_BESIDE else ():
                way = entry.path == str(root) or str(root).startswith(f"{entry.path}/")
                if not (way or entry.path == self.avoid or entry.name in LEFT_OUT):
                    os.symlink(entry.path, target / entry.name)

    def copy(self, source: Path, target: Path, base: Path) -> None:
        """Copies a folder of the repository. base: the grid's folder, which is copied in any case,
        as are those above it."""
        listed = self._listed(str(source), str(base))
        assert listed is not None
        self._fill(listed[0], str(target), os.stat(source).st_mode)

    def _listed(self, source: str, base: str) -> tuple[list[Entry], int, int] | None:
        """Returns what a folder holds with the numbers of its files and of bytes to copy, or None
        where that is too much."""
        entries: list[Entry] = []
        files = size = 0
        needed = base == source or base.startswith(f"{source}/")
        with os.scandir(source) as found:
            for entry in sorted(found, key=lambda entry: entry.name):
                path = entry.path
                if entry.name in LEFT_OUT or path == self.avoid:
                    continue
                try:
                    if entry.is_symlink():
                        entries.append(Entry(entry.name, path, None, to=os.readlink(path)))
                    elif entry.is_dir():
                        names = set(os.listdir(path))
                        inside = base == path or base.startswith(f"{path}/")
                        if names & ENVIRONMENT and not inside:
                            entries.append(Entry(entry.name, path, None, to=path))
                        elif inside or not names & {STORE, CACHE}:
                            below = self._listed(path, base)
                            if below is None:
                                entries.append(Entry(entry.name, path))
                            else:
                                status = entry.stat()
                                entries.append(Entry(entry.name, path, status, below[0]))
                                files, size = files + below[1], size + below[2]
                    elif entry.is_file():
                        status = entry.stat()
                        entries.append(Entry(entry.name, path, status))
                        files += 1
                        size += status.st_size if status.st_size <= COPIED_BYTES else 0
                except OSError:  # it has just gone, or may not be read
                    continue
                if not needed and (files > FOLDER_FILES or size > FOLDER_BYTES):
                    return None
        return entries, files, size

    def _fill(self, entries: Sequence[Entry], target: str, mode: int) -> None:
        os.makedirs(target, mode=stat.S_IMODE(mode) | 0o700, exist_ok=True)
        for entry in entries:
            path, status = f"{target}/{entry.name}", entry.status
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if entry.to is not None:
                    os.symlink(entry.to, path)
                elif status is None:
                    os.symlink(entry.path, path)
                    self.linked[path] = None
                elif entry.below is not None:
                    self._fill(entry.below, path, status.st_mode)
                elif status.st_size > COPIED_BYTES:
                    try:
                        os.link(entry.path, path)
                    except OSError:  # such as to another disk
                        os.symlink(entry.path, path)
                    self.linked[path] = status.st_mtime_ns, status.st_size
                else:
                    copy_file(entry.path, path, status)
                    self.copied[path] = status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True)
class Entry:
    """What a folder holds: a file; a folder with what is `below`; a symbolic link or the link in
    place of an environment, and where it leads `to`; or, without a status, what is too large."""

    name: str
    path: str
    status: os.stat_result | None = None
    below: Sequence[Entry] | None = None
    to: str | None = None


def copy_file(source: str, target: str, status: os.stat_result) -> None:
    """Copies a small file with its mode and the time of its last change."""
    reading = os.open(source, os.O_RDONLY)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, status.st_mode)
        try:
            os.write(writing, os.read(reading, COPIED_BYTES))
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def overlays_work(folder: Path) -> bool:
    """Tries whether the kernel mounts overlays in a folder for this user."""
    there = folder / "tried"
    names = "lower", "upper", "work", "at"
    layer = {name: str(there / name) for name in names}
    for name in names:
        (there / name).mkdir(parents=True)
    (there / "lower" / "old" / "below").mkdir(parents=True)
    (there / "lower" / "file").write_text("a")
    act = "echo b > file && rm -r old && mkdir old && echo c > old/new"
    try:
        with subprocess.Popen(
            guarded(0, "", layer["at"], (), [layer], ["/bin/sh", "-ec", act]),
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process:
            done = process.wait() == 0
        changed = (there / "upper" / "old" / "new").exists()
        return done and changed and (there / "lower" / "file").read_text() == "a"
    finally:
        guard.delete(str(there))


def guarded(
    seconds: float,
    folder: str | Path,
    cwd: str | Path,
    locks: Sequence[int],
    overlays: Sequence[Mapping[str, str]],
    command: Sequence[str],
) -> list[str]:
    """Returns the command by which `guard` runs a command."""
    where = [str(seconds), str(folder), str(cwd), " ".join(map(str, locks))]
    layers = [layer[name] for layer in overlays for name in ("lower", "upper", "work", "at")]
    return [sys.executable, "-I", "-S", guard.__file__, *where, *layers, "--", *command]


class Workplace:
    """Where one attempt of a program runs. folder: its folder for this attempt, with `dir`, which
    is `{dir}`. cwd: the program's current folder. Another attempt of the trial on this machine has
    the same paths, and waits until this one is over."""

    def __init__(self, name: str, base: Path, copy: LaunchCopy | None) -> None:
        """copy: None where the program runs in the grid's folder itself."""
        self.base, self.copy = Path(os.path.realpath(base)), copy
        self.folder = shared_folder() / name
        self.lock = held(self.folder)
        for left in self.folder.iterdir():  # of an attempt that was killed
            guard.delete(str(left))
        self.dir = self.folder / "dir"
        self.dir.mkdir()
        self.overlays: list[dict[str, str]] = []
        self.tree, self.known = self.folder / "tree", Copying()
        if copy and copy.overlays:
            for number, at in enumerate(("", *(p for p, fact in copy.linked.items() if not fact))):
                upper, work = (self.folder / f"{kind}{number}" for kind in ("upper", "work"))
                upper.mkdir()
                work.mkdir()
                if at:  # a folder in place of the link
                    Path(f"{self.folder}/upper0{at}").mkdir(parents=True)
                layer = {"lower": at or str(copy.tree), "upper": str(upper), "work": str(work)}
                self.overlays.append({**layer, "at": f"{self.tree}{at}"})
            self.tree.mkdir()
        elif copy:
            self.known.copy(copy.tree, self.tree, self.base)
        self.cwd = Path(f"{self.tree}{self.base}") if copy else self.base

    @property
    def seen(self) -> Path:
        """The program's current folder as this process sees it: with overlays, what was written."""
        return Path(f"{self.folder}/upper0{self.base}") if self.overlays else self.cwd

    def place(self, name: str, data: bytes) -> None:
        """Puts a file into the program's folder before it starts."""
        place(self.seen / name, data, Path(f"{self.folder}/upper0") if self.overlays else self.tree)

    def written(self) -> Iterator[tuple[str, Path]]:
        """Yields the files that the program has written by relative paths: the path of each from
        its current folder, and where it lies."""
        if not self.copy:
            return
        layers = [(layer["upper"], layer["at"]) for layer in self.overlays]
        for upper, at in layers or [(str(self.tree), str(self.tree))]:
            for folder, below, files in os.walk(upper):
                below[:] = sorted(set(below) - LEFT_OUT)
                for name in sorted(files):
                    path = Path(folder, name)
                    status = path.lstat()  # of an overlay's file that was deleted, it is a device
                    known = self.known.copied.get(str(path)) or self.known.linked.get(str(path))
                    if stat.S_ISREG(status.st_mode) and facts(path) != known:
                        yield os.path.relpath(f"{at}{str(path)[len(upper) :]}", self.cwd), path

    def close(self) -> None:
        """Deletes the folder."""
        guard.delete(str(self.folder))
        os.close(self.lock)


def matches(name: str, pattern: str) -> bool:
    """Returns whether a pattern of `keep` names a file: by its path, its name or its folder."""
    pattern = os.path.normpath(pattern)
    parts = Path(name).parts
    above = ("/".join(parts[:count]) for count in range(1, len(parts) + 1))
    return any(fnmatch.fnmatchcase(one, pattern) for one in (*above, parts[-1]))
