"""What each block of a grid gives to a trial: its class, its values, their columns, and the text
that a trial's identity hashes of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import cache, cached_property
from typing import Any

from sweepd.grid import lengths
from sweepd.grid.axes import Variant, canonical, plain
from sweepd.grid.parameters import fields_of
from sweepd.grid.reserve import reserved
from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.grid.spec import SETTINGS, Grid

RESERVED = (
    *("id", "trunk", "config", "code", "attempt", "sweep", "task", "model", "size", "L", "seed"),
    *("status", "acc", "loss", "chain_acc", "correct", "chain_correct", "total", "step", "tokens"),
    *("independent", "commonest", "loss_at", "acc_at", lengths.COLUMN),
    *("params", "flops", "flops_weights", "state_bytes", "train_bytes", "train_flops"),
    *("flops_to_goal", "seconds", "parent", "error"),
    *("host", "torch", "threads", "started", "ended", "on_demand"),
)
"""The columns of results whose names no field of a task, model or loop may take, and no metric of a
loop. A setting of such a name becomes a column with its block in front, such as `stop_tokens`."""
ADDED: Mapping[str, Mapping[str, Any]] = {
    "task": {"score_from": None},
    "train": {"precision": "fp32", "compile": False},
}
"""The fields of each block that were added after sweepd 0.1.0, with their defaults. A field at its
default leaves no trace in an identity, so that earlier trials keep theirs."""


@dataclass(frozen=True)
class Part:
    """A variant of one block, which the grid has under the key `kind`."""

    kind: str
    name: str
    where: str
    variant: Variant

    @property
    def value(self) -> Any:
        """The instance that holds the values. All else is made of it."""
        return self.variant.value

    @cached_property
    def fields(self) -> dict[str, Any]:
        return fields_of(self.value)

    @cached_property
    def axes(self) -> dict[str, Any]:
        return columns(self.kind, self.fields)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.fields.items())})"

    @cached_property
    def told(self) -> dict[str, Any]:
        """The axes that an identity hashes: all but those of ADDED that are at their defaults."""
        added = ADDED.get(self.kind, {})
        return dict(axis for axis in self.axes.items() if axis not in added.items())

    @cached_property
    def text(self) -> str:
        """The text of settings that an identity hashes."""
        return canonical(self.told)

    @property
    def rules(self) -> dict[str, Any]:
        """The axes that are not off. What is off leaves no trace in an identity, so a rule that is
        added later changes the identity of no earlier trial."""
        return {name: value for name, value in self.axes.items() if value is not None}

    @cached_property
    def identity(self) -> str:
        """The text of a task, model or loop that an identity hashes besides the code."""
        return self._named(self.name)

    @cached_property
    def former_identity(self) -> str:
        """The text that sweepd 0.1.0 hashed. It held only the name of a user's class, so classes of
        one name in two files counted as one."""
        return self._named(self.where.rpartition(":")[2])

    def _named(self, name: str) -> str:
        return canonical({"name": name, **self.told})


@dataclass(frozen=True)
class Values:
    """All values of one point of a grid, as the grid writes them. A trial carries them to the
    worker that runs it. Its columns are made of them.

    A user's own class is here only by its fields. A worker makes the instance, with the code of the
    launch. A trial of a user's own loop has no train and no evaluate. Any other trial has no loop.
    """

    task: dict[str, Any]
    model: dict[str, Any]
    loop: dict[str, Any]
    train: Train | None
    evaluate: Evaluate | None
    stop: Stop
    lengths: tuple[float, ...] = ()
    """The multiples of its length at which the grid asks for scores."""

    @cached_property
    def axes(self) -> dict[str, int | float | str | bool | None]:
        """Every value by its column."""
        blocks = {"task": self.task, "model": self.model, "loop": self.loop}
        written = {"train": self.train, "evaluate": self.evaluate, "stop": self.stop}
        blocks |= {kind: fields_of(one) for kind, one in written.items() if one}
        found = {
            name: value
            for kind, fields in blocks.items()
            for name, value in columns(kind, fields).items()
        }
        return found | lengths.written(self.lengths)


@dataclass(frozen=True)
class Parts:
    """Each variant of a grid's blocks. reserve: the training settings that `settle` may use besides
    `trains`."""

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


@cache
def column(kind: str, field: str) -> str:
    """Returns the name of the column that holds a field of a block."""
    return f"{kind}_{field}" if kind in SETTINGS and field in RESERVED else field


def columns(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a block by their columns. A rule, such as that of lr, is one value: its
    canonical JSON."""
    return {
        column(kind, name): canonical(plain(value)) if is_dataclass(value) else value
        for name, value in fields.items()
    }


def _variants(grid: Grid, kind: str) -> Iterator[Part]:
    for block in grid.blocks[kind]:
        for variant in block.variants:
            yield Part(kind, block.name, block.where, variant)


def _in_reserve(trains: Sequence[Part], grid: Grid) -> Iterator[Part]:
    """Yields the settings that `settle` may train besides `trains`. Each part is like the first of
    `trains`, but for its value."""
    if not grid.settle or not trains:
        return
    like = trains[0]
    for train in reserved([part.value for part in trains], grid.settle, grid.tune):
        yield replace(like, variant=replace(like.variant, value=train))
