"""What is looked at of a grid, and what was seen: plain data that another process can be given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from sweepd.grid.fingerprint import is_program
from sweepd.grid.registry import fields_of
from sweepd.grid.spec import Grid

CaseKind = Literal["task", "model", "loop", "trial", "second trial"]
"""The kind of thing that is inspected: a task, a model, a loop, a task and a model in a trial, or
the same in a trial of which only its dependence on an earlier one is looked at."""


@dataclass(frozen=True)
class Case:
    """One thing to inspect. Names are those in results, and places (`where`) those in the grid. A
    loop has its name, place and fields where others have those of the model, and no task but in
    name."""

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
    `inspection.CULPRITS`, of a model `forward` and `build`. Where none is the user's own, it is
    the class.
    """

    def __init__(self, fault: str, remedy: str, *culprits: object) -> None:
        super().__init__(f"{fault}; {remedy}")
        self.culprits = culprits


def checks_of(owner: object) -> dict[str, Callable[[Any], str]]:
    """Returns the checks of a class or a module by name: its functions `check_…`, in the order in
    which they are written, so that each may rely on those before it."""
    return {
        name.removeprefix("check_").replace("_", " "): check
        for name, check in vars(owner).items()
        if name.startswith("check_")
    }


def cases_of(grid: Grid) -> list[Case]:
    """Returns the cases of a grid: each task and each model at its smallest and its largest size,
    and each in the smallest trial. A grid of loops has each loop at its smallest size, since a
    larger one may take long. A program is no case (`tried`).

    A model's width is always the smallest. What is wrong with a wide model is wrong with a narrow
    one too, and is seen sooner there.
    """
    cases: list[Case] = []
    for block in grid.blocks["loop"]:
        if not is_program(block.where):
            loop: Any = min((point.value for point in block.points), key=_loop_size)
            of_loop = block.name, block.where, fields_of(loop)
            cases.append(Case("loop", "smallest", loop.task, "", {}, *of_loop, _loop_size(loop), 0))
    if grid.blocks["loop"]:
        return cases
    tasks, models = (
        [(block, point.value) for block in grid.blocks[kind] for point in block.points]
        for kind in ("task", "model")
    )
    tasks.sort(key=lambda one: one[1].size)
    # A model without a width counts as the narrowest.
    models.sort(key=lambda one: float(getattr(one[1], "d", 0)))
    # Each class with what it is looked at in, by size.
    classes: list[tuple[CaseKind, list[tuple[Any, Any]]]] = []
    for block in grid.blocks["task"]:
        ours = [(task, models[0]) for task in tasks if task[0].where == block.where]
        classes.append(("task", ours))
    for block in grid.blocks["model"]:
        narrow = next(model for model in models if model[0].where == block.where)
        classes.append(("model", [(task, narrow) for task in tasks]))
    batch_size = min(point.value.batch_size for one in grid.blocks["train"] for point in one.points)
    trials: list[Case] = []
    for kind, pairs in classes:
        first, last = (
            Case(
                kind,
                "smallest",
                *(task[0].name, task[0].where, fields_of(task[1])),
                *(model[0].name, model[0].where, fields_of(model[1])),
                task[1].size,
                batch_size,
                tuple(grid.lengths),
            )
            for task, model in (pairs[0], pairs[-1])
        )
        trials.append(replace(first, kind="trial"))
        cases += [first] * (last.size > first.size)
        cases.append(replace(last, extent="largest"))
    cases += trials
    return [one for i, one in enumerate(cases) if one not in cases[:i]]


def _loop_size(loop: Any) -> Any:
    return getattr(loop, loop.size_field)
