"""One trial: everything needed to run it, and to store what came out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sweepd.grid import lengths, metrics
from sweepd.grid.axes import canonical, composed
from sweepd.grid.costs import Costs, train_flops
from sweepd.grid.fingerprint import Class
from sweepd.grid.loops import LoopBudget, LoopFacts
from sweepd.grid.metrics import BETTER, Better
from sweepd.grid.parts import Part, Values, column
from sweepd.grid.settings import Stop, Train

DIGITS = 20
"""The number of hex digits of a hash."""
Texts = Mapping[str, str]
"""Texts of canonical JSON by name."""


@dataclass(frozen=True)
class Setting:
    """The facts that one setting of a task states about itself."""

    size: int
    L: int
    capacity: int
    vocab_size: int
    distinct_inputs: float
    decoded: int
    """The most tokens of a row that are decoded."""


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
    L: int | None
    seed: int
    values: Values
    params: int | None
    flops: int | None
    flops_weights: int | None
    state_bytes: int | None
    train_bytes: float | None
    train_flops: float | None
    train: Train | LoopBudget
    """The training that `values` ask for, with the number of steps that `stop.flops` pays for."""
    on_demand: bool
    """Whether the trial runs only where an answer depends on it (`grid.reserve`), or as a fresh
    seed."""
    task_where: str
    model_where: str
    former_config: str | None
    """The `config` that sweepd 0.1.0 gave to the trial, where that differs. It left out the file of
    a user's own class."""
    loop_where: str = ""
    metrics: Mapping[str, Better] = field(default_factory=BETTER.copy)
    """The metrics that the trial may report, with the way in which each is better."""
    unscored_config: str | None = None
    """The `config` of the same trial without `lengths`, where the grid asks for these."""

    @property
    def axes(self) -> Mapping[str, int | float | str | bool | None]:
        """Every value of task, model, loop, train, evaluate and stop, as written, by its column.
        Rules are canonical JSON."""
        return self.values.axes

    @property
    def classes(self) -> tuple[Class, ...]:
        """The classes that it runs."""
        if self.loop_where:
            return (("loop", self.loop_where),)
        return ("task", self.task_where), ("model", self.model_where)

    @property
    def effort(self) -> float:
        """The cost by which searches try what is cheap first. It is training FLOPs, or steps for a
        loop that does not count FLOPs."""
        return float(self.train.steps or 1) if self.train_flops is None else self.train_flops

    @property
    def cell(self) -> tuple[Any, ...]:
        """What the trials of one cell, and no others, have in common."""
        return (self.task_name, self.model_name, *self.axes.items())

    def row(self) -> dict[str, Any]:
        """Returns the trial as a row of the stored plan."""
        return {
            "id": self.id,
            "trunk": self.trunk,
            "config": self.config,
            "code": self.code,
            "task": self.task_name,
            "model": self.model_name,
            "size": self.size,
            "L": self.L,
            "seed": self.seed,
            **self.axes,
            "params": self.params,
            "flops": self.flops,
            "flops_weights": self.flops_weights,
            "state_bytes": self.state_bytes,
            "train_bytes": self.train_bytes,
            "train_flops": self.train_flops,
        }


@dataclass(frozen=True)
class TrainedCell:
    """A point of the grid without its seed, for the built-in training.

    Its trials differ in little. What they share, texts to hash and columns, is put together once.
    """

    task: Part
    setting: Setting
    model: Part
    cost: Costs
    code: str
    train: Part
    evaluate: Part
    stop: Part
    lengths: tuple[float, ...] = ()
    """The multiples of its length at which the grid asks for scores."""

    def trials(self, seeds: Sequence[int], *, on_demand: bool) -> Iterator[Trial]:
        task, model, train, cost = self.task, self.model, self.train, self.cost
        fitted = _fitted(train.value, self.stop.value, cost)
        parting = {"steps", "decay"} if fitted.extensible else {"decay"}
        # Of a budget of FLOPs the weights see only the steps that it pays for.
        trajectory = {**train.told, "steps": fitted.steps}
        common = {name: value for name, value in trajectory.items() if name not in parting}
        weights = {"task": task.identity, "model": model.identity, "train": train.text}
        trunk = {**weights, "train": canonical(common)}
        stop = canonical({"success": None, **self.stop.rules})
        unscored = {**weights, "evaluate": self.evaluate.text, "stop": stop}
        asked = lengths.written(self.lengths)
        whole = {**unscored, **{name: canonical(value) for name, value in asked.items()}}
        former = {**whole, "task": task.former_identity, "model": model.former_identity}
        reported = metrics.directions(task.value.metrics)
        of_cell = partial(
            Trial,
            code=self.code,
            task_name=task.name,
            model_name=model.name,
            size=self.setting.size,
            L=self.setting.L,
            values=Values(
                task=task.fields,
                model=model.fields,
                loop={},
                train=train.value,
                evaluate=self.evaluate.value,
                stop=self.stop.value,
                lengths=self.lengths,
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
            metrics={**BETTER, **reported, **lengths.scores(reported, self.lengths)},
        )
        yield from _seeded(of_cell, seeds, self.code, whole, trunk, former, unscored)


def loop_trials(
    loop: Part, facts: LoopFacts, code: str, stop: Part, seeds: Sequence[int], *, on_demand: bool
) -> Iterator[Trial]:
    """Yields the trials of a user's own loop that differ in the seed alone."""
    weights = {"loop": loop.identity}
    whole = {**weights, "stop": canonical(stop.rules)}
    of_cell = partial(
        Trial,
        code=code,
        task_name=facts.task,
        model_name=loop.name,
        size=facts.size,
        L=None,
        values=Values({}, {}, loop.fields, None, None, stop.value),
        params=facts.params,
        flops=facts.flops,
        flops_weights=None,
        state_bytes=None,
        train_bytes=None,
        train_flops=facts.train_flops,
        train=facts.budget,
        on_demand=on_demand,
        task_where="",
        model_where="",
        loop_where=loop.where,
        metrics=metrics.directions(loop.value.metrics),
    )
    yield from _seeded(of_cell, seeds, code, whole, weights, whole, whole)


def competitors(trial: Trial, tune: Sequence[str]) -> tuple[Any, ...]:
    """Returns what trials that differ in nuisance axes and seeds alone have in common, and no
    others.

    tune: the nuisance axes, as `train.lr`. Size and d are never among them.
    """
    nuisance = {column(*name.split(".", 1)) for name in tune}
    same = ((name, value) for name, value in trial.axes.items() if name not in nuisance)
    return (trial.task_name, trial.model_name, trial.size, trial.values.model.get("d"), *same)


def _seeded(
    of_cell: Callable[..., Trial],
    seeds: Sequence[int],
    code: str,
    whole: Texts,
    trunk: Texts,
    former: Texts,
    unscored: Texts,
) -> Iterator[Trial]:
    """Yields the trials of a cell, one for each seed.

    whole, trunk, former, unscored: the texts that `config`, `trunk`, `former_config` and
    `unscored_config` hash besides the seed. `trunk` hashes the code too. `former` is `whole` where
    sweepd 0.1.0 hashed the same, and `unscored` is `whole` where there are no `lengths`.
    """

    def other_config(texts: Texts, seeded: Texts) -> str | None:
        return None if texts == whole else _digest(composed({**texts, **seeded}))

    for seed in seeds:
        seeded = {"seed": canonical(seed)}
        config = _digest(composed({**whole, **seeded}))
        yield of_cell(
            seed=seed,
            config=config,
            id=_of_code(canonical(config), code),
            trunk=_of_code(composed({**trunk, **seeded}), code),
            former_config=other_config(former, seeded),
            unscored_config=other_config(unscored, seeded),
        )


def _fitted(train: Train, stop: Stop, cost: Costs) -> Train:
    """Returns `train` with the steps that the budget of FLOPs pays for, with which its schedule
    ends."""
    if stop.flops is None:
        return train
    return replace(
        train, steps=min(train.steps, int(stop.flops // train_flops(cost.flops, train.batch_size)))
    )


def _of_code(text: str, code: str) -> str:
    """Returns the hash of a canonical JSON text and of the code."""
    return _digest(f"[{text},{canonical(code)}]")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
