"""What is inspected of a grid, as plain data that another process can be given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sweepd.grid.axes import Block, Variant
from sweepd.grid.parameters import fields_of
from sweepd.grid.spec import Grid

CaseKind = Literal["task", "model", "loop", "trial"]
"""The kind of thing that is inspected: a task, a model, a loop, or a task and a model in a
trial."""
Extent = Literal["smallest", "largest"]


@dataclass(frozen=True)
class Case:
    """One thing to inspect. Names are those in results, and places (`where`) those in the grid."""

    kind: CaseKind
    extent: Extent
    """Which of the class's sizes this is. If there is only one, it is the largest."""
    task_name: str
    task_where: str
    task: dict[str, Any]
    model_name: str
    model_where: str
    model: dict[str, Any]
    size: int
    batch_size: int
    loop: dict[str, Any] = field(default_factory=dict)
    """The fields of a loop. Its name and place are held as those of the model."""

    @property
    def where(self) -> str:
        """The place of the class that is inspected, as the grid names it."""
        return self.task_where if self.kind == "task" else self.model_where

    @property
    def name(self) -> str:
        """What results call the class that is inspected."""
        return self.task_name if self.kind == "task" else self.model_name

    def __str__(self) -> str:
        size = f"size {self.size}"
        return (
            size
            if self.kind in ("task", "loop")
            else f"{self.task_name} {size}, d {self.model.get('d')}"
        )


Chosen = tuple[Block, Variant]


def _width(choice: Chosen) -> float:
    """Returns d, or 0 for a model without one."""
    return float(getattr(choice[1].value, "d", 0))


def cases_of(grid: Grid) -> list[Case]:
    """Returns the cases of a grid: each task and each model at its smallest and its largest size,
    and each in the smallest trial. A grid of loops has each loop at its smallest size.

    A model's width is always the smallest. What is wrong with a wide model is wrong with a narrow
    one too, and is seen sooner there.
    """
    if grid.blocks["loop"]:
        return [_loop_case(block) for block in grid.blocks["loop"]]
    tasks = sorted(_choices(grid, "task"), key=lambda choice: choice[1].value.size)
    models = sorted(_choices(grid, "model"), key=_width)
    batch_size = min(variant.value.batch_size for _, variant in _choices(grid, "train"))
    found: list[Case] = []
    for block in grid.blocks["task"]:
        own = [choice for choice in tasks if choice[0].where == block.where]
        found += _both_ends(_case("task", one, models[0], batch_size) for one in own)
    for block in grid.blocks["model"]:
        narrow = next(choice for choice in models if choice[0].where == block.where)
        found += _both_ends(_case("model", one, narrow, batch_size) for one in tasks)
    for block in grid.blocks["task"]:
        small = next(choice for choice in tasks if choice[0].where == block.where)
        found.append(_case("trial", small, models[0], batch_size))
    for block in grid.blocks["model"]:
        narrow = next(choice for choice in models if choice[0].where == block.where)
        found.append(_case("trial", tasks[0], narrow, batch_size))
    return [case for i, case in enumerate(found) if case not in found[:i]]


def _both_ends(cases: Iterator[Case]) -> list[Case]:
    smallest, *rest = cases
    largest = [replace((rest or [smallest])[-1], extent="largest")]
    return [smallest, *largest] if rest and rest[-1].size > smallest.size else largest


def _choices(grid: Grid, kind: str) -> Iterator[Chosen]:
    for block in grid.blocks[kind]:
        yield from ((block, variant) for variant in block.variants)


def _case(kind: CaseKind, task: Chosen, model: Chosen, batch_size: int) -> Case:
    (task_block, task_variant), (model_block, model_variant) = task, model
    return Case(
        kind,
        "smallest",
        task_block.name,
        task_block.where,
        fields_of(task_variant.value),
        model_block.name,
        model_block.where,
        fields_of(model_variant.value),
        task_variant.value.size,
        batch_size,
    )


def _loop_case(block: Block) -> Case:
    """Returns the case of a loop at its smallest size, since a larger one may take long."""
    value: Any = min(
        (variant.value for variant in block.variants),
        key=lambda value: getattr(value, value.size_field),
    )
    size = getattr(value, value.size_field)
    return Case(
        kind="loop",
        extent="smallest",
        task_name=value.task,
        task_where="",
        task={},
        model_name=block.name,
        model_where=block.where,
        model={},
        size=size,
        batch_size=0,
        loop=fields_of(value),
    )
