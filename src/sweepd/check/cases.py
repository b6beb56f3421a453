"""What is looked at of a grid, and what was seen: plain data that another process can be given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from sweepd.grid.axes import Block, Point
from sweepd.grid.fingerprint import is_program
from sweepd.grid.registry import fields_of
from sweepd.grid.spec import Grid

CaseKind = Literal["task", "model", "loop", "trial", "second trial"]
"""The kind of thing that is inspected: a task, a model, a loop, a task and a model in a trial, or
the same in a trial of which only its dependence on an earlier one is looked at."""


@dataclass(frozen=True)
class Case:
    """One thing to inspect. Names are those in results, and places (`where`) those in the grid.

    A loop has its name, its place and its fields where others have those of the model, and no task
    but in name, as in results.
    """

    kind: CaseKind
    extent: Literal["smallest", "largest"]
    """Which of the class's sizes this is. If there is only one, it is the largest."""
    task_name: str
    task_where: str
    task: dict[str, Any]
    model_name: str
    model_where: str
    model: dict[str, Any]
    size: int
    batch_size: int
    lengths: tuple[float, ...] = ()
    """The multiples of its length at which a trained model is scored too."""

    @property
    def where(self) -> str:
        """The place of the class that is inspected, as the grid names it."""
        return self.task_where if self.kind == "task" else self.model_where

    @property
    def name(self) -> str:
        """What results call the class that is inspected."""
        return self.task_name if self.kind == "task" else self.model_name

    def __str__(self) -> str:
        if self.kind in ("task", "loop"):
            return f"size {self.size}"
        return f"{self.task_name} size {self.size}, d {self.model.get('d')}"


@dataclass(frozen=True)
class Finding:
    """What one check says about one class in one setting: that it is right, or what is wrong.

    detail: what was measured, or what is wrong and what to do. place: the file and line of what is
    wrong. raised: whether the user's code raised an error before the check could decide. statement:
    the line of the user's code that raised it.
    """

    check: str
    subject: str
    setting: str
    ok: bool
    detail: str
    place: str = ""
    raised: bool = False
    statement: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.subject} {self.detail}"


class Wrong(Exception):
    """A check has seen something wrong. The user's class breaks a promise.

    culprits: where the mistake lies, the likeliest first. Each is a class or a function, or the
    name of a method of the user's class or of what this class makes. Without any, they are those of
    `inspection.CULPRITS`. Where none is the user's own, it is the class.
    """

    def __init__(self, fault: str, remedy: str, *culprits: object) -> None:
        super().__init__(f"{fault}; {remedy}")
        self.culprits = culprits


Chosen = tuple[Block, Point]


def cases_of(grid: Grid) -> list[Case]:
    """Returns the cases of a grid: each task and each model at its smallest and its largest size,
    and each in the smallest trial. A grid of loops has each loop at its smallest size. A program is
    no case (`check.programs`).

    A model's width is always the smallest. What is wrong with a wide model is wrong with a narrow
    one too, and is seen sooner there.
    """
    if grid.blocks["loop"]:
        loops = [block for block in grid.blocks["loop"] if not is_program(block.where)]
        return [_loop_case(block) for block in loops]
    tasks = sorted(_choices(grid, "task"), key=lambda choice: choice[1].value.size)
    # A model without a width counts as the narrowest.
    models = sorted(_choices(grid, "model"), key=lambda c: float(getattr(c[1].value, "d", 0)))
    batch_size = min(point.value.batch_size for _, point in _choices(grid, "train"))

    def case(kind: CaseKind, task: Chosen, model: Chosen) -> Case:
        return Case(
            kind,
            "smallest",
            task_name=task[0].name,
            task_where=task[0].where,
            task=fields_of(task[1].value),
            model_name=model[0].name,
            model_where=model[0].where,
            model=fields_of(model[1].value),
            size=task[1].value.size,
            batch_size=batch_size,
            lengths=tuple(grid.lengths),
        )

    cases: list[Case] = []
    for block in grid.blocks["task"]:
        own = [choice for choice in tasks if choice[0].where == block.where]
        cases += _both_ends([case("task", task, models[0]) for task in own])
    for block in grid.blocks["model"]:
        narrow = next(choice for choice in models if choice[0].where == block.where)
        cases += _both_ends([case("model", task, narrow) for task in tasks])
    for block in grid.blocks["task"]:
        small = next(choice for choice in tasks if choice[0].where == block.where)
        cases.append(case("trial", small, models[0]))
    for block in grid.blocks["model"]:
        narrow = next(choice for choice in models if choice[0].where == block.where)
        cases.append(case("trial", tasks[0], narrow))
    return [one for i, one in enumerate(cases) if one not in cases[:i]]


def _choices(grid: Grid, kind: str) -> Iterator[Chosen]:
    for block in grid.blocks[kind]:
        yield from ((block, point) for point in block.points)


def _both_ends(cases: list[Case]) -> list[Case]:
    """Returns the smallest and the largest of cases, which come sorted by size."""
    smallest, largest = cases[0], replace(cases[-1], extent="largest")
    return [smallest, largest] if largest.size > smallest.size else [largest]


def _loop_case(block: Block) -> Case:
    """Returns the case of a loop at its smallest size, since a larger one may take long."""
    value: Any = min(
        (point.value for point in block.points),
        key=lambda value: getattr(value, value.size_field),
    )
    return Case(
        kind="loop",
        extent="smallest",
        task_name=value.task,
        task_where="",
        task={},
        model_name=block.name,
        model_where=block.where,
        model=fields_of(value),
        size=getattr(value, value.size_field),
        batch_size=0,
    )
