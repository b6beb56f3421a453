"""Looks at what lies in files. They are read whole, or, if they are large, examined once and then
remembered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

from sweepd.errors import EnvironmentFailure
from sweepd.store.parallel import READERS, each
from sweepd.store.parquet import Examined, examine, load
from sweepd.store.remembered import Remembered
from sweepd.store.runs import KEY
from sweepd.store.schema import Layout
from sweepd.store.storage import Damaged, File, Folder

EXAMINERS = 4
"""The number of large files that are examined at once. Each takes some ten megabytes of memory."""
SMALL_BYTES, ROOM_BYTES = 2**20, 2**26
"""The largest size of a file that is read whole even where it could be scanned, and the most bytes
that all such files may have together. To open a file costs more than to read a small one."""
REMEMBERED_BYTES = 2**28
Looked: TypeAlias = "pa.Table | Examined | Damaged"
Whole = Callable[[Collection[File]], Collection[File]]
"""A function that chooses which of some files are read whole."""


class Loader:
    """Reads Parquet files of one layout, several at once.

    A file is not read again if the place says that it is unchanged since it was last read
    (`File.version`). This holds for up to `REMEMBERED_BYTES` in all.
    """

    def __init__(self, folder: Folder, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        self._remembered: dict[tuple[str, str], pa.Table] = {}
        self._room = REMEMBERED_BYTES

    def load(self, below: str, files: Collection[File]) -> dict[str, pa.Table | Damaged]:
        """Returns what the files hold, by their names. Raises FileNotFoundError if one is gone."""
        return dict(each(lambda file: (file.name, self._load(below, file)), files, READERS))

    def forget_others(self, below: str, files: Iterable[File]) -> None:
        """Drops what is remembered of files of a folder that are no longer among these."""
        listed = {(f"{below}/{file.name}", file.version) for file in files}
        for key in self._remembered.keys() - listed:
            if key[0].startswith(f"{below}/"):
                self._room += self._remembered.pop(key).nbytes

    def _load(self, below: str, file: File) -> pa.Table | Damaged:
        path = f"{below}/{file.name}"
        key = (path, file.version) if file.version else None
        if key in self._remembered:
            return self._remembered[key]
        loaded = load(self.folder, path, self.layout)
        if key and isinstance(loaded, pa.Table) and loaded.nbytes <= self._room:
            self._room -= loaded.nbytes
            self._remembered[key] = loaded
        return loaded


class Looker:
    """Looks at the files of one layout in one folder. Raises FileNotFoundError if one is gone."""

    def __init__(self, folder: Folder, layout: Layout) -> None:
        self.folder, self.layout = folder, layout
        self.remembered = Remembered(folder.address, layout.name)
        self._loader = Loader(folder, layout)

    def load(self, files: Collection[File]) -> dict[str, pa.Table | Damaged]:
        """Returns what is in files, by their names. The files are read whole."""
        return self._loader.load(self.layout.name, files)

    def look(self, files: Sequence[File], whole: Whole) -> dict[str, Looked]:
        """Returns what is in each of a few files, by name. Those that `whole` chooses are read
        whole."""
        read = whole(files)
        loaded = self.load(read)
        return {**loaded, **self.examined(others(files, read))}

    def forget_others(self, files: Collection[File]) -> None:
        """Drops what this process has read of files that are no longer among these."""
        self._loader.forget_others(self.layout.name, files)

    def examined(self, files: Collection[File]) -> dict[str, Looked]:
        """Returns what is known of files that are not read whole, by their names."""
        return dict(each(lambda file: (file.name, self._recalled(file)), files, EXAMINERS))

    def _recalled(self, file: File) -> Looked:
        """Returns what is remembered of a file. If nothing is, the file is examined and the
        result is remembered."""
        if known := self.remembered.recall(file):
            return known
        found = self.examine(file)
        if isinstance(found, Examined):
            self.remembered.keep(found)
        return found

    def runs(self, examined: Examined) -> pa.Table:
        """Returns the runs of a file. Raises EnvironmentFailure if it is no longer what it was."""
        if examined.runs is not None:
            return examined.runs
        if (known := self.remembered.recall_runs(examined.file)) is not None:
            return known
        again = self.examine(examined.file)
        if isinstance(again, Examined):
            self.remembered.keep(again)
            return again.runs
        reason = again.reason if isinstance(again, Damaged) else "changed"
        raise EnvironmentFailure(f"{examined.file.name}: {reason}; ask again")

    def examine(self, file: File) -> Looked:
        """Returns what there is to know of a file, whatever is remembered of it."""
        return examine(self.folder, self.layout.name, file, self.layout)

    def small(self, files: Collection[File]) -> list[File]:
        """Returns those of these files that are read whole even where they need not be. They are
        the small ones, or all of a layout whose rows make no runs."""
        if self.layout.key != KEY:
            return list(files)
        room, small = ROOM_BYTES, []
        for file in sorted(files, key=lambda file: file.size):
            room -= file.size
            if file.size > SMALL_BYTES or room < 0:
                break
            small.append(file)
        return small


def others(files: Iterable[File], than: Iterable[File]) -> list[File]:
    """Returns the files that are not among the others."""
    names = {file.name for file in than}
    return [file for file in files if file.name not in names]
