"""The classes of a trial and their fields, as plain data that another process can be handed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sweepd.grid.plan import Trial


@dataclass(frozen=True)
class Setting:
    """What is inspected of a trial: names as in results, places as in the grid, and fields; of a
    loop, whose name is `model_name`, `loop` and `loop_where`."""

    task_name: str
    task_where: str
    task: dict[str, Any]
    model_name: str
    model_where: str
    model: dict[str, Any]
    loop_where: str
    loop: dict[str, Any]


def setting_of(trial: Trial) -> Setting:
    return Setting(**{field.name: getattr(trial, field.name) for field in fields(Setting)})
