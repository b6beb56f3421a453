"""One trial: everything needed to run it, and to store what came out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import inf, isfinite
from typing import Any

from sweepd.grid import lengths, metrics
from sweepd.grid.axes import Point, canonical, columns, composed
from sweepd.grid.costs import Costs, train_flops
from sweepd.grid.fingerprint import Class, is_program
from sweepd.grid.metrics import BETTER, Better
from sweepd.grid.options import column
from sweepd.grid.program import COSTS, Program
from sweepd.grid.registry import fields_of
from sweepd.grid.settings import Evaluate, Stop, Train

DIGITS = 20
"""The number of hex digits of a hash."""
Texts = Mapping[str, str]
"""Texts of canonical JSON by name."""


@dataclass(frozen=True)
class Setting:
    """The facts that one setting of a task states about itself."""

    task: Point
    size: int
    L: int
    capacity: int
    vocab_size: int
    distinct_inputs: float
    decoded: int
    """The most tokens of a row that are decoded."""


@dataclass(frozen=True)
class LoopBudget:
    """How long a loop runs. It offers searches what `Train` offers them.

    steps: how often the loop is asked to train on; 0 where only the loop knows when it has ended.
    lr: the value of the loop's field `lr`, by which its settings are put in order.
    """

    steps: int
    lr: float

    extensible: bool = False
    """Whether a longer run may begin where a shorter one ended. A loop's can't, since the loop may
    do with its `steps` what it likes. A program says so by the file `done` in its folder."""

    @property
    def trunk_end(self) -> int:
        return self.steps

    def peak_lr(self, d: int | None) -> float:
        return self.lr


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
class Trial:
    """A point of the grid with a seed: everything needed to run it, and to store what came out.

    config: hash of the settings and the seed. id: hash of config and code. trunk: hash of what
    decides the weights up to the step at which a longer run would part. train_flops: FLOPs of the
    whole budget. task_name and model_name: the names in results. task_where and model_where: where
    the classes are.

    A trial of a user's own loop has `loop_where` in place of task_where and model_where. Its L is
    None, and so are the costs that the loop does not count.
    """

    id: str
    trunk: str
    config: str
    code: str
    task_name: str
    model_name: str
    size: int
    seed: int
    values: Values
    train: Train | LoopBudget
    """The training that `values` ask for, with the number of steps that `stop.flops` pays for."""
    on_demand: bool
    """Whether the trial runs only where an answer depends on it, or as a fresh seed."""
    task_where: str = ""
    model_where: str = ""
    loop_where: str = ""
    L: int | None = None
    params: int | None = None
    flops: int | None = None
    flops_weights: int | None = None
    state_bytes: int | None = None
    train_bytes: float | None = None
    train_flops: float | None = None
    metrics: Mapping[str, Better] = field(default_factory=BETTER.copy)
    """The metrics that the trial may report, with the way in which each is better."""
    unscored_config: str | None = None
    """The `config` of the same trial without `lengths`, where the grid asks for these."""

    @property
    def axes(self) -> Mapping[str, int | float | str | bool | None]:
        """Every value by its column, as written. Rules are canonical JSON."""
        return self.values.axes

    @property
    def classes(self) -> tuple[Class, ...]:
        """The classes that it runs."""
        if self.loop_where:
            return (("loop", self.loop_where),)
        return ("task", self.task_where), ("model", self.model_where)

    @property
    def program(self) -> Program | None:
        """The program that it runs, if it runs one."""
        return Program(self.loop_where) if is_program(self.loop_where) else None

    @property
    def effort(self) -> float:
        """The cost by which searches try what is cheap first. It is training FLOPs, or steps for a
        loop that does not count FLOPs."""
        return float(self.train.steps or 1) if self.train_flops is None else self.train_flops

    @property
    def cell(self) -> tuple[Any, ...]:
        """What the trials of one cell alone have in common. To Python 1 and True are equal."""
        values = ((name, value, type(value)) for name, value in self.axes.items())
        return (self.task_name, self.model_name, *values)

    def row(self) -> dict[str, Any]:
        """Returns the trial as a row of the stored plan."""
        first = {name: getattr(self, name) for name in ("id", "trunk", "config", "code")}
        named = {"task": self.task_name, "model": self.model_name}
        sizes = {name: getattr(self, name) for name in ("size", "L", "seed")}
        costs = ("params", "flops", "flops_weights", "state_bytes", "train_bytes", "train_flops")
        costed = {name: getattr(self, name) for name in costs}
        return {**first, **named, **sizes, **self.axes, **costed}


def trained_trials(
    setting: Setting,
    model: Point,
    cost: Costs,
    code: str,
    settings: tuple[Point, Point, Point],
    factors: tuple[float, ...],
    seeds: Sequence[int],
    *,
    on_demand: bool,
) -> Iterator[Trial]:
    """Yields the trials of the built-in training that differ in the seed alone. What they share,
    texts to hash and columns, is put together once.

    settings: those of train, evaluate and stop. factors: the multiples of its length at which the
    grid asks for scores.
    """
    task, (train, evaluate, stop) = setting.task, settings
    fitted: Train = train.value
    if stop.value.flops is not None:  # its schedule ends with the steps that the budget pays for
        paid = stop.value.flops // train_flops(cost.flops, fitted.batch_size)
        fitted = replace(fitted, steps=min(fitted.steps, int(paid)))
    # Of a budget of FLOPs the weights see only the steps that it pays for.
    trajectory = {**train.counted, "steps": fitted.steps}
    parting = {"steps", "decay"} if fitted.extensible else {"decay"}
    common = {name: value for name, value in trajectory.items() if name not in parting}
    weights = {"task": task.text, "model": model.text, "train": train.text}
    stop_text = canonical({"success": None, **stop.counted})
    unscored = {**weights, "evaluate": evaluate.text, "stop": stop_text}
    asked = {name: canonical(value) for name, value in lengths.written(factors).items()}
    reported = metrics.directions(task.value.metrics)
    of_cell = partial(
        Trial,
        code=code,
        task_name=task.name,
        model_name=model.name,
        size=setting.size,
        L=setting.L,
        values=Values(
            task.fields, model.fields, {}, train.value, evaluate.value, stop.value, factors
        ),
        params=cost.params,
        flops=cost.flops,
        flops_weights=cost.flops_weights,
        state_bytes=cost.state_bytes,
        train_bytes=cost.train_bytes(fitted.batch_size),
        train_flops=train_flops(cost.flops, fitted.steps * fitted.batch_size),
        train=fitted,
        on_demand=on_demand,
        task_where=task.where,
        model_where=model.where,
        metrics={**BETTER, **reported, **lengths.scores(reported, factors)},
    )
    trunk = {**weights, "train": canonical(common)}
    for seed in seeds:
        trial = _seeded(of_cell, seed, code, {**unscored, **asked}, trunk)
        yield replace(trial, unscored_config=_config(unscored, seed)) if asked else trial


def loop_trials(
    loop: Point,
    facts: Mapping[str, Any],
    code: str,
    stop: Point,
    seeds: Sequence[int],
    *,
    on_demand: bool,
) -> Iterator[Trial]:
    """Yields the trials of a user's own loop that differ in the seed alone. facts: `loop_facts`."""
    of_cell = partial(
        Trial,
        code=code,
        model_name=loop.name,
        values=Values({}, {}, loop.fields, None, None, stop.value),
        on_demand=on_demand,
        loop_where=loop.where,
        metrics=metrics.directions(loop.value.metrics),
        **facts,
    )
    whole = {"loop": loop.text, "stop": stop.text}
    parting = {"steps"} if facts["train"].extensible else set()
    common = {name: value for name, value in loop.counted.items() if name not in parting}
    trunk = {"loop": canonical(common)}
    for seed in seeds:
        yield _seeded(of_cell, seed, code, whole, trunk)


def competitors(trial: Trial, tune: Sequence[str]) -> tuple[Any, ...]:
    """Returns what trials that differ in nuisance axes and seeds alone have in common, and no
    others. tune: the nuisance axes, as `train.lr`. Size and d are never among them."""
    nuisance = {column(*name.split(".", 1)) for name in tune}
    axes = trial.axes.items()
    same = ((name, value, type(value)) for name, value in axes if name not in nuisance)
    return (trial.task_name, trial.model_name, trial.size, trial.values.model.get("d"), *same)


def _seeded(
    of_cell: Callable[..., Trial], seed: int, code: str, whole: Texts, trunk: Texts
) -> Trial:
    """Returns the trial of a cell with this seed. whole, trunk: the texts that `config` and `trunk`
    hash besides the seed. `trunk` hashes the code too."""
    config = _config(whole, seed)
    return of_cell(
        seed=seed,
        config=config,
        id=_digest(f"[{canonical(config)},{canonical(code)}]"),
        trunk=_digest(f"[{composed({**trunk, 'seed': canonical(seed)})},{canonical(code)}]"),
    )


def _config(texts: Texts, seed: int) -> str:
    """Returns the hash of settings and seed. texts: canonical JSON of the settings by name."""
    return _digest(composed({**texts, "seed": canonical(seed)}))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def loop_facts(loop: Any) -> dict[str, Any]:
    """Returns what a loop states about itself, as fields of its trials, and costs where it counts
    them. Raises ValueError, or whatever its code raises, if it can't be used."""
    task, size = loop.task, getattr(loop, loop.size_field)
    if not isinstance(task, str) or not task:
        raise ValueError(f"task = {task!r}: must be a text, such as 'digits'")
    if not _is_number(size, int):
        raise ValueError(f"{loop.size_field} = {size!r}: it is the size, so a whole number")
    steps, lr = getattr(loop, "steps", 0), getattr(loop, "lr", 0.0)
    if not _is_number(steps, int) or (steps < 1 and hasattr(loop, "steps")):
        raise ValueError(f"steps = {steps!r}: a budget of steps is a whole number from 1 on")
    costs = loop.cost() if hasattr(loop, "cost") else {}
    if not isinstance(costs, Mapping) or not set(costs) <= set(COSTS):
        raise ValueError(f"cost() gave {costs!r}; it gives a mapping of some of {', '.join(COSTS)}")
    for name, value in costs.items():
        most = inf if name == "train_flops" else 2**63
        if not _is_number(value, int | float) or not 0 <= value < most:
            raise ValueError(f"cost() gave {name} = {value!r}; it must be a number, 0 or more")
    rate = float(lr) if _is_number(lr, int | float) and isfinite(lr) else 0.0
    return {
        "task_name": task,
        "size": size,
        "train": LoopBudget(steps, rate, getattr(loop, "continues", False)),
        "train_flops": costs.get("train_flops"),
        **{name: int(costs[name]) for name in ("params", "flops") if name in costs},
    }


def _is_number(value: Any, kind: Any) -> bool:
    """Returns whether a value is a number of this kind. To Python bools are whole numbers."""
    return isinstance(value, kind) and not isinstance(value, bool)
