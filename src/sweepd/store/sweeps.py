"""What was asked for: a folder a sweep, with its frozen grid, its plan and `sweep.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.store.schema import PLAN, Row
from sweepd.store.storage import (
    FORMAT,
    File,
    Folder,
    Unreachable,
    checked,
    from_json,
    is_name,
    to_json,
)
from sweepd.store.tables import READERS, Damaged, Loader, Read, to_parquet

SHAPE = {
    **dict.fromkeys(("name", "created", "base", "goal", "pass", "search"), str),
    "tune": [str],
    "accepted": [str],
    "extra_seeds": [int],
    "size_fields": {str: str},
    "code_files": {str: {str: str}},
}
"""What questions and launches need of `sweep.json`."""
INFO, GRID, PLANNED = "sweep.json", "grid.yaml", "plan.parquet"


@dataclass(frozen=True)
class Sweep:
    """A sweep as saved: its `sweep.json`. The text of its frozen grid: `Store.load_grid`."""

    name: str
    info: dict[str, Any]


class SweepFolder:
    """`sweeps/<sweep>/`. A sweep exists once its `sweep.json`, written last, does."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self._plans = Loader(folder, PLAN)
        self._listed: dict[str, str | None] = {}
        self._known: dict[str, tuple[str, bytes]] = {}
        """Version of each sweep.json by the latest listing; version and content as last read."""

    def save(
        self, name: str, grid_text: str, info: Mapping[str, Any], plan_rows: Sequence[Row]
    ) -> None:
        """Make or replace a sweep. `created` (ISO 8601, UTC) is when it was first saved."""
        plan = PLAN.table([{**row, "sweep": name} for row in plan_rows])
        try:
            created = self._info(name)["created"]
        except (FileNotFoundError, ValueError):
            created = datetime.now(UTC).isoformat()
        info = {**info, "format": FORMAT, "name": name, "created": created}
        self.folder.put(_path(name, GRID), grid_text.encode())
        self.folder.put(_path(name, PLANNED), to_parquet(plan))
        self.folder.put(_path(name, INFO), to_json(info))
        self._listed.pop(name, None)

    def load(self, name: str) -> Sweep:
        try:
            return Sweep(name, self._info(name))
        except FileNotFoundError:
            raise self._unknown(name) from None
        except ValueError as error:
            where = self.folder.where(_path(name, INFO))
            raise EnvironmentFailure(f"{where} is damaged: {error}; launch it again") from error

    def readable(self) -> tuple[dict[str, Sweep], tuple[Damaged, ...]]:
        found, damaged = {}, []
        for name in self.names():
            try:
                found[name] = Sweep(name, self._info(name))
            except (FileNotFoundError, ValueError) as error:
                damaged.append(Damaged(self.folder.where(_path(name, INFO)), str(error)))
        return found, tuple(damaged)

    def load_grid(self, name: str) -> str:
        try:
            return self.folder.read(_path(name, GRID)).decode()
        except FileNotFoundError:
            raise self._unknown(name) from None
        except ValueError as error:
            where = self.folder.where(_path(name, GRID))
            raise EnvironmentFailure(f"{where} is damaged: {error}; launch it again") from error

    def names(self) -> list[str]:
        return self._names(self.folder.files("sweeps"))

    def read_plans(self, sweeps: Sequence[str] | None) -> Read:
        files = {file.name: file for file in self.folder.files("sweeps")}
        known = self._names(files.values())
        if unknown := set(sweeps or ()).difference(known):
            raise self._unknown(min(unknown))
        names = list(dict.fromkeys(known if sweeps is None else sweeps))
        wanted = [f"{name}/{PLANNED}" for name in names]
        loaded = self._plans.load("sweeps", [files[path] for path in wanted if path in files])
        tables, damaged = [], []
        for name, path in zip(names, wanted, strict=True):
            plan = loaded.get(path, Damaged(self.folder.where(f"sweeps/{path}"), "missing"))
            if isinstance(plan, Damaged):
                damaged.append(plan)
            elif {name}.issuperset(plan["sweep"].to_pylist()):
                tables.append(plan)
            else:
                reason = "the plan of another sweep"
                damaged.append(Damaged(self.folder.where(f"sweeps/{path}"), reason))
        return Read(PLAN.concat(tables), tuple(damaged))

    def _names(self, files: Iterable[File]) -> list[str]:
        found = ((*file.name.rpartition("/"), file.version) for file in files)
        self._listed = {
            name: version for name, _, last, version in found if last == INFO and is_name(name)
        }
        with ThreadPoolExecutor(READERS) as pool:
            return [name for _, name in sorted(pool.map(self._created, self._listed))]

    def _created(self, name: str) -> tuple[str, str]:
        """When a sweep was made (empty if that can't be read), and its name."""
        try:
            return self._info(name)["created"], name
        except Unreachable:
            raise
        except (FileNotFoundError, ValueError, EnvironmentFailure):
            return "", name

    def _info(self, name: str) -> dict[str, Any]:
        """FileNotFoundError if there is none, ValueError if it is damaged."""
        info: dict[str, Any] = from_json(self._info_text(name), SHAPE)
        if "created" not in info:
            raise ValueError("not what was saved")
        return info

    def _info_text(self, name: str) -> bytes:
        version = self._listed.get(name)
        if name in self._known and self._known[name][0] == version:
            return self._known[name][1]
        text = self.folder.read(_path(name, INFO))
        if version:
            self._known[name] = version, text
        return text

    def _unknown(self, name: str) -> UserError:
        known = ", ".join(self.names()) or "none"
        return UserError(f"no sweep {name!r} in {self.folder.address}; there are: {known}")


def _path(sweep: str, file: str) -> str:
    return f"sweeps/{checked(sweep)}/{file}"
