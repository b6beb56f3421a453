"""The results folder: the only place where sweepd's results are written and read."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any

import pyarrow as pa

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.listing import Row
from sweepd.store.local import LocalFolder
from sweepd.store.locks import FileLocks, Locks
from sweepd.store.schema import METRICS, TRIALS
from sweepd.store.storage import (
    FORMAT,
    MOST_TEXT,
    Damaged,
    Folder,
    Unfit,
    Whole,
    check_digest,
    checked,
    digest,
    failure,
    from_json,
    to_json,
    unsealed,
)
from sweepd.store.sweeps import GRID, INFO, PLANNED, SweepFolder, SweepInfo
from sweepd.store.tables import Read, TableFolder

__all__ = ["Store", "SweepInfo"]

_TEXT = (str, NoneType)
LAUNCH = {
    **dict.fromkeys(("sweep", "host", "started"), str),
    **dict.fromkeys(("commit", "diff", "platform", "python"), _TEXT),
    "pid": int,
    "command": [str],
    "versions": {str: _TEXT},
    "origin": dict,
}
"""The types of the fields that are read of the record of a launch."""
MOST_STATE = 2**40
"""The most bytes of a checkpoint. That of a large model may fill most of the memory."""
MARK = "sweepd-store.json"
"""The name of the file that says that a folder is a store, and in which format."""
LOOK_SECONDS = 5.0
"""The seconds for which a place that does not answer is asked again whether it holds a store at
all."""


class Store(SweepFolder):
    """A results folder, local or on an object store, that any number of processes use at once.

    docs/store.md says what lies in it and what is promised. In short: every object but a log
    appears whole, is durable when the call that wrote it returns, and does not change. Writing is
    tried again, and what could not be written raises EnvironmentFailure with path and reason. A
    file that is truncated, changed or not ours is skipped and named in `Read.damaged`. Rows come in
    no order, once per key. Reading needs no write access. Compacting changes nothing for readers.
    Locks do not outlive their process, or on an object store by `leases.TERM_SECONDS` at most.
    """

    def __init__(self, folder: Folder, locks: Locks) -> None:
        """Callers use `create` or `open` instead, which check what the folder is."""
        super().__init__(folder)
        self.locks = locks
        self.trials, self.metrics = TableFolder(folder, TRIALS), TableFolder(folder, METRICS)

    @classmethod
    def create(cls, address: str) -> Store:
        """Returns the store at this address, which it makes if there is nothing.

        Raises UserError if the folder holds something else or a newer format. Raises
        EnvironmentFailure if it cannot be written.
        """
        folder, locks = _place(address)
        folder.make()
        if folder.is_empty():
            folder.create(MARK, to_json({"format": FORMAT}))
        store = cls._opened(folder, locks, "it holds other files; name a new or an empty folder")
        store.check_writable()
        return store

    @classmethod
    def open(cls, address: str) -> Store:
        """Returns the store at this address, which need not be writable. Raises UserError if
        there is none, or if its format is newer or damaged."""
        return cls._opened(*_place(address), "name the folder that a launch wrote to")

    @classmethod
    def _opened(cls, folder: Folder, locks: Locks, advice: str) -> Store:
        try:
            mark = from_json(folder.read(MARK, most=MOST_TEXT), Whole(format=int))["format"]
            if mark < 1:
                raise ValueError(f"there is no format {mark}")
        except FileNotFoundError:
            raise UserError(f"{folder.address} is not a sweepd results folder: {advice}") from None
        except ValueError as error:
            raise UserError(f"{folder.where(MARK)} is damaged: {error}") from error
        if mark > FORMAT:
            raise UserError(
                f"{folder.address} was written by a newer sweepd (format {mark}, this one knows "
                f"{FORMAT}): upgrade sweepd"
            )
        return cls(folder, locks)

    @classmethod
    def find(cls, address: str) -> Store | None:
        """Returns the store at this address, or None if there is nothing at all. Soon gives up on
        a place that does not answer."""
        folder, _ = _place(address, LOOK_SECONDS)
        return None if folder.is_empty() else cls.open(address)

    @classmethod
    def prospect(cls, address: str) -> Store:
        """Returns the store at this address, which reads as empty where there is nothing."""
        return cls.find(address) or cls(*_place(address))

    def inspected(self) -> tuple[list[Damaged], int]:
        """Returns all that is damaged but files of metrics, and how many files of sweeps and
        launches hold no digest, since an earlier version wrote them."""
        sweeps, unreadable = self.readable_sweeps()
        plans = self.read_plans(list(sweeps))
        damaged = [*self.read_trials().damaged, *unreadable, *plans.damaged]
        names = [record_of(number) for number in self.launch_numbers()]
        damaged += damaged_launches(self)
        for sweep in sweeps:
            path = f"sweeps/{sweep}"
            try:
                self.read_grid(sweep)
            except (FileNotFoundError, ValueError) as error:
                damaged.append(Damaged(self.folder.where(f"{path}/{GRID}"), str(error)))
            names += [f"{path}/{file}" for file in (GRID, PLANNED, INFO)]
        old = 0
        for name in names:
            with suppress(FileNotFoundError, ValueError):  # which is told above
                old += not check_digest(self.folder.read(name))
        return damaged, old

    def check_writable(self) -> None:
        """Raises EnvironmentFailure if this process can't write here."""
        self.folder.now()

    @property
    def address(self) -> str:
        """The store's absolute address, which means the same in every process of the machine."""
        return self.folder.address

    # When it can't be written

    @property
    def spill_folder(self) -> Path:
        """The folder on this machine where results wait while they can't be written here. It need
        not exist. It lies below $SWEEPD_RESCUE, or in a folder for temporary files that no other
        user can write to. A store has one, whichever symbolic links lead to it."""
        root, user = os.environ.get("SWEEPD_RESCUE"), os.getuid()
        folder = Path(root or Path(tempfile.gettempdir()) / f"sweepd-rescue-{user}").absolute()
        real = self.address if "://" in self.address else os.path.realpath(self.address)
        return folder / hashlib.blake2b(real.encode(), digest_size=8).hexdigest()

    def spilled(self) -> Path | None:
        """Returns `spill_folder` if results wait there."""
        folder = self.spill_folder
        return folder if folder.exists() else None

    def spill_store(self) -> Store:
        """Returns a store on this machine for what this one can't take now. `take_in_spill`
        brings back what is written there. Raises EnvironmentFailure if there can be none."""
        folder = self.spill_folder
        try:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise failure("make", str(folder), error.strerror or str(error)) from error
        return Store.create(str(_own(folder)))

    def take_in_spill(self) -> int:
        """Moves here what is in this machine's spill. Returns how many objects besides logs.

        Each object is whole and has a name that tells its content. So several processes may move
        it at once, and it may be there already.
        """
        if not (folder := self.spilled()):
            return 0
        spill, moved = LocalFolder(_own(folder)), 0
        for log in spill.files("logs"):
            with suppress(FileNotFoundError):  # another process has moved it
                text = spill.read(f"logs/{log.name}").decode(errors="replace")
                self.folder.append(f"logs/{log.name.removesuffix('.log')}", text)
                self.folder.flush()
                spill.delete([f"logs/{log.name}"])
        for kind in (
            "files",
            "metrics",
            "checkpoints",
            "trials",
        ):  # first rows, then the states after them
            for file in spill.files(kind):
                name = f"{kind}/{file.name}"
                with suppress(FileNotFoundError):
                    self.folder.create(name, spill.read(name))
                    spill.delete([name])
                    moved += 1
        return moved

    # Trials and metrics

    def write_trials(self, rows: Collection[Row]) -> None:
        """Adds one row per ended attempt, as one new file."""
        self.flush_logs()
        self.trials.write(rows)

    def write_metrics(self, rows: Collection[Row]) -> None:
        """Adds one row per step, as one new file."""
        self.metrics.write(rows)

    def read_trials(self, configs: Collection[str] | None = None) -> Read:
        """Returns the endings of all trials, or those with these `config`s from fewer files."""
        return self.trials.read(configs)

    def read_metrics(self, ids: Collection[str] | None = None) -> Read:
        """Returns the metrics of all trials, or of those named, which opens fewer files. All are
        in memory, at 100 bytes a row."""
        return self.metrics.read(ids)

    def live_metrics(self, ids: Collection[str] | None = None) -> Read:
        """Returns the metrics of all trials, or of files that may hold some of those named, where
        they lie. Scans of them need no more memory than they give out."""
        return self.metrics.live(ids)

    def find_trial(self, start: str) -> str:
        """Returns the id of the one trial whose id begins so. Raises UserError if there are none or
        several."""
        if not start:
            raise UserError("no trial is named: give the beginning of its id (see `sweepd status`)")
        known = set(self.read_plans().table.column("id").to_pylist())
        known |= set(self.read_trials().table.column("id").to_pylist())
        matching = sorted(id_ for id_ in known if id_.startswith(start))
        if len(matching) == 1:
            return str(matching[0])
        of = f"of {self.address}"
        raise UserError(
            f"{start}: {len(matching)} trials {of} have ids that begin so; give more of the id"
            if matching
            else f"{start}: no trial {of} has such an id (see `sweepd status`)"
        )

    def compact(self, at_least: int = 2, newer: bool = False) -> int:
        """Merges new files of endings, and those of metrics, where there are at least `at_least`.
        Returns how many were merged. newer: list only what came since the last time, as
        `TableFolder.compact` does.

        Only the driver of a sweep calls this. Raises EnvironmentFailure if it no longer is the
        driver. The files that are replaced stay until `gc`.
        """
        self.locks.confirm()
        merged = sum(it.compact(at_least, newer) for it in (self.trials, self.metrics))
        if merged:  # else the memory that Arrow holds grows with each time
            pa.default_memory_pool().release_unused()
        return merged

    # Launches

    def new_launch(self, info: Mapping[str, Any]) -> int:
        """Records a driver's run, and returns its number: the microseconds since 1970, or one more
        than the latest. No two processes of a store get the same one.

        So a later launch of a store has a higher number, and no two stores give the same one, but
        for the odds that they launch in the same microsecond, which a merge notices.
        """
        number = max([time.time_ns() // 1_000, *(number + 1 for number in self.launch_numbers())])
        while not self.folder.create(record_of(number), to_json(info)):
            number += 1
        return number

    def launches(self) -> list[dict[str, Any]]:
        """Returns what `new_launch` was given for each launch, with its `number`, in the order of
        the numbers. For a record that cannot be read, it has `number`, and the reason as
        `damaged`."""
        return [self.launch(number) for number in self.launch_numbers()]

    def launch_numbers(self) -> list[int]:
        """Returns the numbers of all launches, in their order."""
        names = (file.name for file in self.folder.files("launches"))
        return sorted(int(n[:-5]) for n in names if re.fullmatch(r"[1-9]\d*\.json", n))

    def launch(self, number: int) -> dict[str, Any]:
        """Returns one of `launches`. Raises FileNotFoundError if there is none."""
        try:
            info = from_json(self.folder.read(record_of(number), most=MOST_TEXT), LAUNCH)
        except ValueError as error:
            info = {"damaged": str(error)}
        return {**info, "number": number}

    def request_cancel(self, launch: int) -> None:
        """Asks the driver of a launch to stop, wherever it runs."""
        self.folder.put(f"launches/{launch}.cancel", b"")

    def cancel_requested(self, launch: int) -> bool:
        return self._exists(f"launches/{launch}.cancel")

    # The user's code

    def keep_source(self, data: bytes) -> str:
        """Keeps the content of a file, once. Returns the name by which `read_source` finds it."""
        name = hashlib.sha256(data).hexdigest()
        self.folder.create(f"code/{name}.py", data)
        return name

    def read_source(self, name: str) -> bytes:
        """Returns what `keep_source` kept under this name. Raises EnvironmentFailure if it is
        gone or damaged."""
        path = f"code/{checked(name)}.py"
        try:
            data = self.folder.read(path)
        except FileNotFoundError:
            raise EnvironmentFailure(f"{self.folder.where(path)} is missing") from None
        except Unfit as error:
            raise EnvironmentFailure(f"{self.folder.where(path)} is damaged: {error}") from error
        if hashlib.sha256(data).hexdigest() != name:
            raise EnvironmentFailure(f"{self.folder.where(path)} is damaged: delete it")
        return data

    def note_inspected(self, digest: str, info: Mapping[str, Any]) -> None:
        """Records that this code was inspected and nothing was wrong with it."""
        self.folder.create(f"checked/{checked(digest)}.json", to_json(info))

    def was_inspected(self, digest: str) -> bool:
        return self._exists(f"checked/{checked(digest)}.json")

    def _exists(self, name: str) -> bool:
        try:
            self.folder.read(name)
        except (FileNotFoundError, Unfit):
            return False
        return True

    # Checkpoints and logs

    def keep_file(self, trial_id: str, name: str, data: bytes) -> None:
        """Keeps a file that a program wrote. name: its path from the grid's folder."""
        parts = ("_" if part == ".." else part for part in name.split("/"))
        self.folder.put(f"files/{checked(trial_id)}/{'/'.join(parts)}", data)

    def kept_files(self, trial_id: str) -> list[str]:
        """Returns the names of the files of a trial that are kept, as `keep_file` writes them."""
        return [file.name for file in self.folder.files(f"files/{checked(trial_id)}")]

    def put_checkpoint(self, trunk: str, name: str, data: bytes) -> None:
        self.flush_logs()
        self.folder.put(_checkpoint(trunk, name), data + digest(data).encode())

    def get_checkpoint(self, trunk: str, name: str) -> bytes:
        """Returns the data of a checkpoint. Raises FileNotFoundError if it is gone, and
        ValueError if it is damaged, which torch would not notice."""
        return unsealed(self.folder.read(_checkpoint(trunk, name), most=MOST_STATE))

    def checkpoints(self, trunk: str) -> list[str]:
        """Returns the names of a trunk's checkpoints, sorted."""
        return [file.name for file in self.folder.files(f"checkpoints/{checked(trunk)}")]

    def delete_checkpoint(self, trunk: str, name: str) -> None:
        """Deletes a checkpoint. Nothing happens if it is gone already."""
        self.folder.delete([_checkpoint(trunk, name)])

    def append_log(self, trial_id: str, text: str) -> None:
        """Adds text to a trial's log. On an object store it appears with what is next written of
        any trial's ending or checkpoint, or with `flush_logs`."""
        self.folder.append(f"logs/{checked(trial_id)}", text)

    def flush_logs(self) -> None:
        self.folder.flush()

    def read_log(self, trial_id: str) -> str:
        """Returns the text of a trial's log. It is empty if nothing was logged. A line of it names
        what is no file."""
        log = f"logs/{checked(trial_id)}"
        parts = [f"{log}/{part.name}" for part in self.folder.files(log)]
        texts = []
        for name in (f"{log}.log", *parts):  # a store copied to another kind of place has both
            try:
                texts.append(self.folder.read(name).decode(errors="replace"))
            except FileNotFoundError:
                pass
            except Unfit as error:
                texts.append(f"{Damaged(self.folder.where(name), str(error))}\n")
        return "".join(texts)

    # Locks

    def claim(self, trial_ids: Collection[str]) -> set[str]:
        """Takes for this process those of these trials that nobody holds. Returns their ids."""
        locks = {f"trial {trial_id}": trial_id for trial_id in trial_ids}
        return {locks[lock] for lock in self.locks.acquire(locks)}

    def release(self, trial_ids: Collection[str]) -> None:
        self.locks.release([f"trial {trial_id}" for trial_id in trial_ids])

    def lock_sweep(
        self, name: str, note: Callable[[str], None], lost: Callable[[str], None]
    ) -> bool:
        """Makes this process the sweep's driver unless there is one. Returns False where there is
        one.

        On an object store the last driver may have died. Then this waits until that is certain,
        and `note` is told so. There this process may also lose later what it holds. Then `lost`
        is told why, from another thread.
        """
        self.locks.when_lost(lost)
        return self.locks.acquire_or_wait(sweep_lock(name), note)

    def unlock_sweep(self, name: str) -> None:
        self.locks.release([sweep_lock(name)])

    def driven_elsewhere(self, sweeps: Collection[str]) -> set[str]:
        """Returns those of these sweeps that another process drives."""
        locks = {sweep_lock(name): name for name in sweeps}
        return {locks[lock] for lock in self.locks.held_elsewhere(locks)}

    def mark_driven(self, name: str) -> None:
        """Notes that this process, which holds the sweep, drives it."""
        self.folder.put(f"driven/{name}", b"")

    def unmark_driven(self, name: str) -> None:
        """Notes that its driver has come to its end, and left nothing undone."""
        self.folder.delete([f"driven/{name}"])

    def cut_off(self, sweeps: Collection[str], running: Collection[str]) -> set[str]:
        """Returns those of these sweeps whose last driver is gone without having come to its end:
        it was killed, or the environment failed. running: those that a driver runs now."""
        left = {file.name for file in self.folder.files("driven")}
        return left.intersection(sweeps).difference(running)


def _place(address: str, patience: float | None = None) -> tuple[Folder, Locks]:
    """Returns the folder at an address, and the locks for its kind of address. The modules for
    object stores are imported here because that takes a while.

    `patience`: for how many seconds an object store is asked again, if not as long as usual.
    """
    scheme, separator, rest = address.partition("://")
    if separator and scheme in ("s3", "gs"):
        from sweepd.store.bucket import RETRY_SECONDS, ObjectFolder
        from sweepd.store.leases import Leases

        retry_seconds = RETRY_SECONDS if patience is None else patience
        bucket = ObjectFolder(address, retry_seconds=retry_seconds)
        return bucket, Leases(bucket)
    if separator and scheme != "file":
        raise UserError(f"{address}: results lie in a local folder, in s3:// or in gs://")
    try:
        root = Path(rest if separator else address).expanduser().absolute()
    except RuntimeError:
        raise UserError(
            f"{address}: it begins with ~, but no home folder can be found for it. "
            f"Write the folder's full path, or ./{address} for a folder of that name here"
        ) from None
    return LocalFolder(root), FileLocks(root / "locks")


def _own(folder: Path) -> Path:
    """Returns the folder. Raises EnvironmentFailure if another user made it, since results must
    not come from there."""
    if folder.lstat().st_uid != os.getuid():
        raise EnvironmentFailure(f"{folder} belongs to another user: set SWEEPD_RESCUE")
    return folder


def damaged_launches(store: Store) -> list[Damaged]:
    """Returns the records of launches that are damaged."""
    damaged = (launch for launch in store.launches() if "damaged" in launch)
    return [
        Damaged(store.folder.where(record_of(one["number"])), one["damaged"]) for one in damaged
    ]


def record_of(launch: int) -> str:
    """Returns the name of the record of a launch."""
    return f"launches/{launch}.json"


def sweep_lock(name: str) -> str:
    return f"sweep {name}"


def _checkpoint(trunk: str, name: str) -> str:
    return f"checkpoints/{checked(trunk)}/{checked(name)}"
