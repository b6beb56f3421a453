"""At which other lengths a trained model can be scored, and what to tell of those where it can't.

Two things are needed. The task must have the same vocabulary at that length. The model, built with
room for the longer rows, must have weights of the same names and shapes, so that the trained ones
fit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sweepd.grid import lengths
from sweepd.grid.axes import reason
from sweepd.grid.costs import weight_shapes
from sweepd.grid.metrics import directions
from sweepd.grid.parts import Part

if TYPE_CHECKING:
    from sweepd.tasks.base import Task


@dataclass(frozen=True)
class Obstacle:
    """Why a score can't be taken. who: the task setting or the model that is the cause."""

    who: str
    why: str

    def __str__(self) -> str:
        return f"{self.who}: {self.why}"


@dataclass(frozen=True)
class Reach:
    """The other lengths at which one model on one task setting is scored, by factor.

    stretch: for each factor where it is scored, how many times as many tokens a row has. obstacles:
    for each factor where it is not, the reason.
    """

    stretch: Mapping[float, float] = field(default_factory=dict)
    obstacles: Mapping[float, Obstacle] = field(default_factory=dict)


def reaches(task: Part, models: Sequence[Part], factors: Sequence[float]) -> list[Reach]:
    """Returns the reach of each of the models on a task setting."""
    found = {factor: _longer(task, factor) for factor in factors}
    return [_reach(task.value, found, model) for model in models]


def refusals(
    goal: str, factors: Sequence[float], found: Sequence[Reach]
) -> Iterator[tuple[str, str]]:
    """Yields each key of a grid that asks for what it can't have, with the reason. The key asks for
    a length at which nothing can be scored, or for a goal that some trials can't be measured by."""
    for factor in factors:
        obstacles = [reach.obstacles[factor] for reach in found if factor in reach.obstacles]
        causes = "; ".join(map(str, dict.fromkeys(obstacles)))
        if len(obstacles) == len(found):
            yield lengths.KEY, f"nothing can be scored at {factor:g} times its length: {causes}"
        elif obstacles and lengths.columns(factors).get(goal) == factor:
            yield "goal", f"some trials can have no {goal}: {causes}"


def notes(
    tasks: Sequence[Part], models: Sequence[Part], found: Sequence[Sequence[Reach]]
) -> Iterator[str]:
    """Yields sentences that say what is scored at other lengths, and which scores stay empty."""
    longer: dict[str, None] = {}
    empty: dict[Obstacle, Counter[str]] = defaultdict(Counter)
    settings = Counter(model.name for model in models for _ in tasks)
    for task, of_task in zip(tasks, found, strict=True):
        score = lengths.scored(directions(task.value.metrics)) or "acc"
        for reach in of_task:
            for factor in reach.stretch:
                longer[f"{factor:g} times {lengths.length_field(task.value)} of {task.name}"] = None
            for factor, obstacle in reach.obstacles.items():
                empty[obstacle][lengths.column(score, factor)] += 1
    if longer:
        yield f"trained models are also scored at {', '.join(longer)}"
    told: dict[tuple[str, str], list[str]] = defaultdict(list)
    for obstacle, lacking in empty.items():
        most, total = max(lacking.values()), settings[obstacle.who]
        some = f" ({most} of {total} settings)" if most < total else ""
        told[", ".join(lacking), obstacle.why].append(f"{obstacle.who}{some}")
    for (names, why), whose in told.items():
        yield f"no {names} for {', '.join(whose)}: {why}"


def _longer(task: Part, factor: float) -> Task | Obstacle:
    """Returns the task at that length, or why it can't be used there."""
    name = lengths.length_field(task.value)
    who = f"{task.name} with {name} = {task.fields[name]}"
    if not lengths.scored(directions(task.value.metrics)):
        return Obstacle(task.name, "it reports neither acc nor loss")
    try:
        there = lengths.longer(task.value, factor)
        known, needed = tuple(task.value.vocab), tuple(there.vocab)
    except Exception as error:  # a user's task may raise anything
        return Obstacle(who, reason(error))
    if known != needed:
        counts = f"{len(needed)} words in place of {len(known)}"
        other = counts if len(known) != len(needed) else "other words"
        return Obstacle(who, f"with {name} = {getattr(there, name)} its vocabulary has {other}")
    return there


def _reach(task: Task, found: Mapping[float, Task | Obstacle], model: Part) -> Reach:
    stretch, obstacles = {}, {}
    for factor, there in found.items():
        if isinstance(there, Obstacle):
            obstacles[factor] = there
        elif misfit := _misfit(task, there, model):
            obstacles[factor] = misfit
        else:
            stretch[factor] = there.L / task.L
    return Reach(stretch, obstacles)


def _misfit(task: Task, there: Task, model: Part) -> Obstacle | None:
    """Returns why a model that was trained on a task can't run on longer rows, or None."""
    words, kind = len(task.vocab), model.value
    try:
        trained, roomier = (
            weight_shapes(kind, words, task.L, one.capacity) for one in (task, there)
        )
    except Exception as error:  # a user's model may raise anything
        return Obstacle(model.name, reason(error))
    for name in {**trained, **roomier}:
        if trained.get(name) != roomier.get(name):
            why = f"the weight `{name}` depends on how long a row may be, as learned positions do"
            return Obstacle(model.name, why)
    return None
