"""What was asked for: a folder a sweep, with its frozen grid, its plan and `sweep.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.schema import PLAN, Row
from sweepd.storage import FORMAT, LocalFolder, checked, to_json
from sweepd.tables import Damaged, Read, load, to_parquet


@dataclass(frozen=True)
class Sweep:
    """A sweep as saved: the text of its frozen grid, and its `sweep.json`."""

    name: str
    grid_text: str
    info: dict[str, Any]


class SweepFolder:
    """`sweeps/<sweep>/`. A sweep exists once its `sweep.json`, written last, does."""

    def __init__(self, folder: LocalFolder) -> None:
        self.folder = folder

    def save(
        self, name: str, grid_text: str, info: Mapping[str, Any], plan_rows: Sequence[Row]
    ) -> None:
        """Make or replace a sweep. `created` (ISO 8601, UTC) is when it was first saved."""
        files = ("grid.yaml", "plan.parquet", "sweep.json")
        grid_path, plan_path, info_path = (_path(name, file) for file in files)
        plan = PLAN.table([{**row, "sweep": name} for row in plan_rows])
        try:
            created = self._info(name)["created"]
        except (FileNotFoundError, ValueError):
            created = datetime.now(UTC).isoformat()
        info = {**info, "format": FORMAT, "name": name, "created": created}
        self.folder.put(grid_path, grid_text.encode())
        self.folder.put(plan_path, to_parquet(plan))
        self.folder.put(info_path, to_json(info))

    def load(self, name: str) -> Sweep:
        where = self.folder.path(_path(name, "sweep.json"))
        try:
            info = self._info(name)
            return Sweep(name, self.folder.read(_path(name, "grid.yaml")).decode(), info)
        except FileNotFoundError:
            raise self._unknown(name) from None
        except ValueError as error:
            raise EnvironmentFailure(f"{where} is damaged: {error}; launch it again") from error

    def names(self) -> list[str]:
        found = self.folder.names("sweeps")
        return sorted(
            (name for name in found if self.folder.exists(f"sweeps/{name}/sweep.json")),
            key=self._created,
        )

    def read_plans(self, sweeps: Sequence[str] | None) -> Read:
        known = self.names()
        tables: list[pa.Table] = []
        damaged: list[Damaged] = []
        for name in known if sweeps is None else dict.fromkeys(sweeps):
            if name not in known:
                raise self._unknown(name)
            try:
                plan = load(self.folder, _path(name, "plan.parquet"), PLAN)
            except FileNotFoundError:
                plan = Damaged(str(self.folder.path(_path(name, "plan.parquet"))), "missing")
            (damaged if isinstance(plan, Damaged) else tables).append(plan)
        return Read(PLAN.concat(tables), tuple(damaged))

    def _info(self, name: str) -> dict[str, Any]:
        """FileNotFoundError if there is none, ValueError if it is damaged."""
        info = json.loads(self.folder.read(_path(name, "sweep.json")))
        if not isinstance(info, dict) or "created" not in info:
            raise ValueError("not what was saved")
        return info

    def _created(self, name: str) -> tuple[str, str]:
        try:
            return self._info(name)["created"], name
        except (FileNotFoundError, ValueError):
            return "", name

    def _unknown(self, name: str) -> UserError:
        known = ", ".join(self.names()) or "none"
        return UserError(f"no sweep {name!r} in {self.folder.root}; there are: {known}")


def _path(sweep: str, file: str) -> str:
    return f"sweeps/{checked(sweep)}/{file}"
