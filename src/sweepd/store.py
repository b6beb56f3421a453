"""The results folder: the only place where sweepd's results are written and read."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.locks import Locks
from sweepd.schema import METRICS, TRIALS, Row
from sweepd.storage import FORMAT, LocalFolder, checked, to_json
from sweepd.sweeps import Sweep, SweepFolder
from sweepd.tables import Damaged, Read, TableFolder

__all__ = ["Damaged", "Read", "Store", "Sweep"]

MARK = "sweepd-store.json"
"""The file that says that a folder is a store, and of which format."""


class Store:
    """A results folder that any number of processes read and write at once.

    **What is in it.** `trials/` (one row per ended attempt) and `metrics/` (one row per step) as
    Parquet files, `sweeps/<sweep>/` (frozen grid, plan, `sweep.json`), `launches/<number>.json`,
    `checkpoints/<trunk>/`, `logs/<trial>.log`, and `locks`. Columns: `sweepd.schema`.

    **Whole or absent.** Every object but a log appears whole, is durable when the call that wrote
    it returns, and is never changed: a writer killed at any moment leaves nothing half-written
    that a reader sees. A sweep exists once its `sweep.json` does.

    **Writing** is tried again after errors that may pass. What could not be written raises
    EnvironmentFailure with path and reason.

    **Reading** goes by files: one that is truncated, changed or not ours is skipped and named in
    `Read.damaged`, and never moved, deleted or compacted away. Rows come in no order, once per
    key (`sweepd.schema`). Reading needs no write access.

    **Compacting** many files into one changes nothing for readers, whenever it is cut off.

    **Locks** (`claim`, `lock_sweep`) do not wait, and die with the process: see `sweepd.locks`.

    A store is cheap to open and may be pickled. Only local folders are supported so far.
    """

    def __init__(self, folder: LocalFolder) -> None:
        """Use `create` or `open`, which check what the folder is."""
        self._folder = folder
        self._trials = TableFolder(folder, TRIALS)
        self._metrics = TableFolder(folder, METRICS)
        self._sweeps = SweepFolder(folder)
        self._locks = Locks(folder.path("locks"))

    @classmethod
    def create(cls, address: str) -> Store:
        """The store there, made if there is nothing.

        UserError if the folder holds something else or a newer format; EnvironmentFailure if it
        cannot be written.
        """
        root = _local(address)
        try:
            root.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise UserError(f"{root} is a file: results need a folder") from None
        except OSError as error:
            raise EnvironmentFailure(f"cannot make {root}: {error.strerror}") from error
        folder = LocalFolder(root)
        if not folder.names():
            folder.put(MARK, to_json({"format": FORMAT}))
        elif not folder.exists(MARK):  # asked second: another process may just have made it
            raise _not_a_store(root, "it holds other files; name a new or an empty folder")
        folder.check_writable()
        return cls.open(address)

    @classmethod
    def open(cls, address: str) -> Store:
        """The store there, which need not be writable. UserError if there is none."""
        folder = LocalFolder(_local(address))
        try:
            mark = json.loads(folder.read(MARK))
            found = int(mark["format"])
        except FileNotFoundError:
            raise _not_a_store(folder.root, "name the folder that a launch wrote to") from None
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{folder.path(MARK)} is damaged: {error!r}") from error
        if found > FORMAT:
            raise UserError(
                f"{folder.root} was written by a newer sweepd (format {found}, this one knows "
                f"{FORMAT}): upgrade sweepd"
            )
        return cls(folder)

    @property
    def address(self) -> str:
        """Absolute, so that it means the same in every process of the machine."""
        return str(self._folder.root)

    # Trials and metrics

    def write_trials(self, rows: Collection[Row]) -> None:
        """Add one row per ended attempt, as one new file."""
        self._trials.write(rows)

    def write_metrics(self, rows: Collection[Row]) -> None:
        """Add one row per step, as one new file."""
        self._metrics.write(rows)

    def read_trials(self) -> Read:
        return self._trials.read()

    def read_metrics(self, ids: Collection[str] | None = None) -> Read:
        """The metrics of all trials or of those named, which opens fewer files."""
        return self._metrics.read(ids)

    def compact(self, kind: str, at_least: int = 2) -> int:
        """Merge the files of `trials` or `metrics` into one, if there are that many: how many.

        For one process at a time. The files that it replaces stay until `delete_replaced`.
        """
        folders = {table.layout.name: table for table in (self._trials, self._metrics)}
        return folders[kind].compact(at_least)

    def delete_replaced(self, older_than_seconds: float) -> int:
        """Delete files replaced by a compacted one, and leftovers of writers that died, of at
        least that age: how many."""
        deleted = self._folder.delete_asides(older_than_seconds)
        for table in (self._trials, self._metrics):
            deleted += table.delete_replaced(older_than_seconds)
        return deleted

    # Sweeps

    def save_sweep(
        self, name: str, grid_text: str, info: Mapping[str, Any], plan_rows: Sequence[Row]
    ) -> None:
        """Make or replace a sweep; `info` is JSON, to which `format`, `name` and `created` are
        added. UserError for a name that cannot be a folder's."""
        self._sweeps.save(name, grid_text, info, plan_rows)

    def load_sweep(self, name: str) -> Sweep:
        """UserError if there is no such sweep, EnvironmentFailure if it is damaged."""
        return self._sweeps.load(name)

    def sweeps(self) -> list[str]:
        """Names in the order of creation; those that are damaged come first."""
        return self._sweeps.names()

    def read_plans(self, sweeps: Sequence[str] | None = None) -> Read:
        """The planned trials of these sweeps or of all. UserError for an unknown sweep."""
        return self._sweeps.read_plans(sweeps)

    # Launches

    def new_launch(self, info: Mapping[str, Any]) -> int:
        """Record a driver's run under the next free number, from 1; no two processes share one."""
        number = max(map(_number, self._launch_names()), default=0) + 1
        while not self._folder.create(f"launches/{number:06d}.json", to_json(info)):
            number += 1
        return number

    def launches(self) -> list[dict[str, Any]]:
        """What `new_launch` was given, with its `number`, in that order. For a record that cannot
        be read, `number` and `damaged`, the reason."""
        found = []
        for name in self._launch_names():
            try:
                info = dict(json.loads(self._folder.read(f"launches/{name}")))
            except (ValueError, TypeError) as error:
                info = {"damaged": str(error)}
            found.append({**info, "number": _number(name)})
        return sorted(found, key=lambda launch: launch["number"])

    def _launch_names(self) -> list[str]:
        return [n for n in self._folder.names("launches") if re.fullmatch(r"\d+\.json", n)]

    # Checkpoints and logs

    def put_checkpoint(self, trunk: str, name: str, data: bytes) -> None:
        self._folder.put(_checkpoint(trunk, name), data)

    def get_checkpoint(self, trunk: str, name: str) -> bytes:
        """FileNotFoundError if it is gone."""
        return self._folder.read(_checkpoint(trunk, name))

    def checkpoints(self, trunk: str) -> list[str]:
        """Names, sorted."""
        return self._folder.names(f"checkpoints/{checked(trunk)}")

    def delete_checkpoint(self, trunk: str, name: str) -> None:
        """Nothing happens if it is gone already."""
        self._folder.delete(_checkpoint(trunk, name))

    def log_path(self, trial_id: str) -> Path:
        """Where a trial's log is or will be."""
        return self._folder.path(_log(trial_id))

    def append_log(self, trial_id: str, text: str) -> None:
        self._folder.append(_log(trial_id), text)

    def read_log(self, trial_id: str) -> str:
        """Empty if nothing was logged."""
        try:
            return self._folder.read(_log(trial_id)).decode(errors="replace")
        except FileNotFoundError:
            return ""

    # Locks

    def claim(self, trial_id: str) -> bool:
        """Take a trial for this process unless somebody holds it: whether nobody did."""
        return self._locks.acquire(f"trial {trial_id}")

    def release(self, trial_id: str) -> None:
        self._locks.release(f"trial {trial_id}")

    def claimed_elsewhere(self, trial_id: str) -> bool:
        """Whether another process holds the trial."""
        return self._locks.held_elsewhere(f"trial {trial_id}")

    def lock_sweep(self, name: str) -> bool:
        """Become the sweep's driver unless there is one: whether there was none."""
        return self._locks.acquire(f"sweep {name}")

    def unlock_sweep(self, name: str) -> None:
        self._locks.release(f"sweep {name}")

    def sweep_locked_elsewhere(self, name: str) -> bool:
        """Whether another process drives the sweep."""
        return self._locks.held_elsewhere(f"sweep {name}")


def _local(address: str) -> Path:
    scheme, separator, rest = address.partition("://")
    if separator and scheme != "file":
        raise UserError(f"{address}: results can be kept in local folders only, not in {scheme}://")
    return Path(rest if separator else address).expanduser().absolute()


def _not_a_store(root: Path, advice: str) -> UserError:
    return UserError(f"{root} is not a sweepd results folder: {advice}")


def _checkpoint(trunk: str, name: str) -> str:
    return f"checkpoints/{checked(trunk)}/{checked(name)}"


def _log(trial_id: str) -> str:
    return f"logs/{checked(trial_id)}.log"


def _number(launch_name: str) -> int:
    return int(launch_name.removesuffix(".json"))
