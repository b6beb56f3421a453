"""What each block of a grid gives to a trial: its class, its fields as columns, and the text that a
trial's identity hashes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import Any

from sweepd.grid import lengths
from sweepd.grid.axes import Variant, canonical, plain
from sweepd.grid.reserve import reserved
from sweepd.grid.spec import SETTINGS, Grid

RESERVED = (
    *("id", "trunk", "config", "code", "attempt", "sweep", "task", "model", "size", "L", "seed"),
    *("status", "acc", "loss", "chain_acc", "correct", "chain_correct", "total", "step", "tokens"),
    *("independent", "commonest", "loss_at", "acc_at", lengths.COLUMN),
    *("params", "flops", "flops_weights", "state_bytes", "train_bytes", "train_flops"),
    *("flops_to_goal", "seconds", "parent", "error"),
    *("host", "torch", "threads", "started", "ended", "on_demand"),
)
"""Columns of results that no field of a task, model or loop may take, and no metric of a loop. A
setting of such a name becomes a column with its block in front: `stop_tokens`."""
ADDED = ("score_from",)
"""Fields of tasks that came after 0.1.0. Unset, they leave no trace in an identity, so that trials
from before are still the same."""


@dataclass(frozen=True)
class Part:
    """A variant of one block. fields: those of its dataclass; axes: the same as scalars."""

    name: str
    where: str
    variant: Variant
    fields: dict[str, Any]
    axes: dict[str, Any]

    @property
    def value(self) -> Any:
        return self.variant.value

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.fields.items())})"

    @cached_property
    def text(self) -> str:
        """What is hashed of settings."""
        return canonical(self.axes)

    @property
    def rules(self) -> dict[str, Any]:
        """The axes that are not off. What is off leaves no trace in an identity: a rule yet to be
        thought of will change no trial's."""
        return {name: value for name, value in self.axes.items() if value is not None}

    @cached_property
    def identity(self) -> str:
        """What is hashed of a task, model or loop, besides the code."""
        return self._named(self.name)

    @cached_property
    def former_identity(self) -> str:
        """What sweepd 0.1.0 hashed: of a user's class the name alone, so that classes of one name
        in two files were one."""
        return self._named(self.where.rpartition(":")[2])

    def _named(self, name: str) -> str:
        unset = {name for name in ADDED if self.axes.get(name) is None}
        told = {name: value for name, value in self.axes.items() if name not in unset}
        return canonical({"name": name, **told})


@dataclass(frozen=True)
class Parts:
    """Each variant of a grid's blocks. reserve: what `settle` may train besides `trains`."""

    tasks: tuple[Part, ...]
    models: tuple[Part, ...]
    loops: tuple[Part, ...]
    trains: tuple[Part, ...]
    evaluates: tuple[Part, ...]
    stops: tuple[Part, ...]
    reserve: tuple[Part, ...]

    @classmethod
    def of(cls, grid: Grid) -> Parts:
        kinds = ("task", "model", "loop", "train", "evaluate", "stop")
        tasks, models, loops, trains, evaluates, stops = (
            tuple(_variants(grid, kind)) for kind in kinds
        )
        reserve = tuple(_in_reserve(trains, grid))
        return cls(tasks, models, loops, trains, evaluates, stops, reserve)


def column(kind: str, field: str) -> str:
    """The column that holds a field of a block."""
    return f"{kind}_{field}" if kind in SETTINGS and field in RESERVED else field


def _variants(grid: Grid, kind: str) -> Iterator[Part]:
    for block in grid.blocks[kind]:
        for variant in block.variants:
            values = {name: getattr(variant.value, name) for name in block.axes}
            yield Part(block.name, block.where, variant, values, _axes(kind, values))


def _in_reserve(trains: Sequence[Part], grid: Grid) -> Iterator[Part]:
    """Each is a part like the one that it is made from."""
    if not grid.settle or not trains:
        return
    like = trains[0]
    for train in reserved([part.value for part in trains], grid.settle, grid.tune):
        values = {name: getattr(train, name) for name in like.fields}
        yield Part("", "", replace(like.variant, value=train), values, _axes("train", values))


def _axes(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as columns. A rule, such as that of lr, is one value: canonical JSON."""
    return {
        column(kind, name): canonical(plain(value)) if is_dataclass(value) else value
        for name, value in values.items()
    }
