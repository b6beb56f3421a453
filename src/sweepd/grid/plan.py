"""From a grid to its trials: what each is, what it costs, and what looks unwise about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from sweepd.errors import UserError
from sweepd.grid import loops, metrics
from sweepd.grid.axes import Block, Variant, canonical, plain, reason
from sweepd.grid.costs import Costs, costs, train_flops
from sweepd.grid.fingerprint import Class, Code, trial_code
from sweepd.grid.loops import LoopBudget, LoopFacts
from sweepd.grid.options import BETTER, OF_CELLS, Better
from sweepd.grid.reserve import reserved
from sweepd.grid.settings import Evaluate, LrRule, Stop, Train
from sweepd.grid.spec import SETTINGS, Grid
from sweepd.grid.yamlfile import GridError, Keys, Problem

if TYPE_CHECKING:
    from sweepd.tasks.base import Task

RESERVED = (
    *("id", "trunk", "config", "code", "attempt", "sweep", "task", "model", "size", "L", "seed"),
    *("status", "acc", "loss", "chain_acc", "correct", "chain_correct", "total", "step", "tokens"),
    *("independent", "commonest", "loss_at", "acc_at"),
    *("params", "flops", "flops_weights", "state_bytes", "train_bytes", "train_flops"),
    *("flops_to_goal", "seconds", "parent", "error"),
    *("host", "torch", "threads", "started", "ended", "on_demand"),
)
"""Columns of results that no field of a task, model or loop may take, and no metric of a loop. A
setting of such a name becomes a column with its block in front: `stop_tokens`."""
ADDED = ("score_from",)
"""Fields of tasks that came after 0.1.0. Unset, they leave no trace in an identity, so that trials
from before are still the same."""
TEST_SHARE = 1 / 16
TRAIN_SHARE = 14 / 16
"""Shares of a task's inputs that the splits hold (`tasks.base.Split`)."""
MOST_PASSES = 100
"""Passes over the training inputs above which a result may be memorised: more than the paper's."""
LARGEST_COUNT = 2**63 - 1
MOST_TOKENS = 1_000_000
"""In a row: some tasks' vocabulary grows with it, and would be built before anything else fails."""
DIGITS = 20


@dataclass(frozen=True)
class Trial:
    """A point of the grid with a seed: everything needed to run it, and to file what came out.

    config: hash of the settings and the seed. id: of config and code. trunk: of what decides the
    weights up to where a longer run would part. train_flops: of the whole budget. task_name and
    model_name are those of results; task_where and model_where tell where the classes are.

    A trial of a user's own loop has `loop` and `loop_where` in place of task, model, evaluate and
    their places; L is None, and so are the costs that the loop does not count.
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
    axes: dict[str, int | float | str | bool | None]
    """every field of task, model, loop, train, evaluate and stop, as written; rules as canonical
    JSON"""
    params: int | None
    flops: int | None
    flops_weights: int | None
    state_bytes: int | None
    train_bytes: float | None
    train_flops: float | None
    task: dict[str, Any]
    """the task's fields"""
    model: dict[str, Any]
    train: Train | LoopBudget
    """with the steps that `stop.flops` pays for"""
    evaluate: Evaluate | None
    stop: Stop
    on_demand: bool
    """whether it runs only where an answer hangs on it (`grid.reserve`), or as a fresh seed"""
    task_where: str
    model_where: str
    former_config: str | None
    """as sweepd 0.1.0 had it, where a class is a user's own; it left out the class's file"""
    loop: dict[str, Any] = field(default_factory=dict)
    """the loop's fields"""
    loop_where: str = ""
    metrics: Mapping[str, Better] = field(default_factory=BETTER.copy)
    """what it may report, and which way each is better"""

    @property
    def classes(self) -> tuple[Class, ...]:
        """The classes that it runs."""
        if self.loop_where:
            return (("loop", self.loop_where),)
        return ("task", self.task_where), ("model", self.model_where)

    @property
    def effort(self) -> float:
        """What searches compare to try what is cheap first: training FLOPs, or, of a loop that does
        not count them, steps."""
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
class Plan:
    """The trials of a grid, without duplicates, in the order in which to try them: seed by seed,
    so that every cell has its first seed early; in a seed the cheapest first."""

    grid: Grid
    trials: tuple[Trial, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    """what else to know of its costs"""
    codes: dict[str, Code]
    """by digest"""

    @property
    def planned(self) -> tuple[Trial, ...]:
        """Without those that run on demand."""
        return tuple(trial for trial in self.trials if not trial.on_demand)

    def rows(self) -> list[dict[str, Any]]:
        """The stored plan."""
        return [{**trial.row(), "on_demand": trial.on_demand} for trial in self.trials]

    @property
    def size_fields(self) -> dict[str, str]:
        """For each task, the field that is its size."""
        return {task: block.kind.size_field for task, block in self._taught()}  # type: ignore[attr-defined]

    @property
    def task_fields(self) -> dict[str, tuple[str, ...]]:
        """For each task, the columns that hold its fields."""
        fields = {
            block.name: tuple(column("task", name) for name in block.axes)
            for block in self.grid.blocks["task"]
        }
        return fields or {task: (field,) for task, field in self.size_fields.items()}

    @property
    def metrics(self) -> dict[str, Better]:
        """What the user's own tasks and loops report besides what any trial may."""
        return {name: better for _, name, better in _own_metrics(self.grid)}

    @property
    def minimized(self) -> str:
        """The field whose least value is asked for: what a staircase minimises; of a whole grid
        `d`, or else the one number of its models or loops that varies. Empty if there is none, or
        several."""
        if self.grid.search != "grid":
            return self.grid.search.minimize
        blocks = [block for kind in ("model", "loop") for block in self.grid.blocks[kind]]
        if any("d" in block.axes for block in blocks):
            return "d"
        others = {*self.size_fields.values(), *(name.rpartition(".")[2] for name in self.grid.tune)}
        values: dict[str, set[Any]] = {}
        for block in blocks:
            for name in block.axes.keys() - others:
                values.setdefault(name, set()).update(block.axes[name])
        varying = [
            name
            for name, found in values.items()
            if len(found) > 1 and all(type(value) in (int, float) for value in found)
        ]
        return varying[0] if len(varying) == 1 else ""

    def _taught(self) -> Iterator[tuple[str, Block]]:
        """Each task with the block that has its size."""
        yield from ((block.name, block) for block in self.grid.blocks["task"])
        for block in self.grid.blocks["loop"]:
            yield from ((variant.value.task, block) for variant in block.variants)


def plan(grid: Grid) -> Plan:
    """Expand a grid. GridError for what only the user's classes themselves can refuse."""
    return _Planner(grid).plan()


@dataclass(frozen=True)
class _Part:
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

    @property
    def identity(self) -> dict[str, Any]:
        """What is hashed, besides the code."""
        return {"name": self.name, **self._hashed}

    @property
    def former_identity(self) -> dict[str, Any]:
        """What sweepd 0.1.0 hashed: of a user's class the name alone, so that classes of one name
        in two files were one."""
        return {"name": self.where.rpartition(":")[2], **self._hashed}

    @property
    def _hashed(self) -> dict[str, Any]:
        unset = {name for name in ADDED if self.axes.get(name) is None}
        return {name: value for name, value in self.axes.items() if name not in unset}


@dataclass(frozen=True)
class _Setting:
    """What a task says of itself."""

    size: int
    L: int
    capacity: int
    vocab_size: int
    distinct_inputs: float
    decoded: int
    """most tokens of a row that are decoded"""


class _Planner:
    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.problems: list[Problem] = []
        self.tasks, self.models, self.loops, self.trains, self.evaluates, self.stops = (
            list(_parts(grid, kind)) for kind in ("task", "model", "loop", *SETTINGS)
        )
        self.reserve = list(_reserve(self.trains, grid))
        self.warned: list[str] = []
        self.noted: list[str] = []
        self.run: dict[str, Code] = {}
        """codes by digest"""

    def plan(self) -> Plan:
        self.refuse_clashes()
        trials: dict[str, Trial] = {}
        for trial in self.of_loops() if self.loops else self.of_tasks():
            trials.setdefault(trial.id, trial)
        turn = {seed: i for i, seed in enumerate((*self.grid.seeds, *self.grid.fresh_seeds))}
        order = sorted(
            trials.values(),
            key=lambda trial: (trial.on_demand, turn[trial.seed], trial.effort),
        )
        return Plan(self.grid, tuple(order), tuple(self.warned), tuple(self.noted), self.run)

    def of_loops(self) -> Iterator[Trial]:
        """The trials of the user's own loops."""
        found = [(part, self.facts(part)) for part in self.loops]
        longer = [(part, self.facts(part)) for loop in self.loops for part in self.longer(loop)]
        codes = {part.where: self.code(("loop", part.where)) for part in self.loops}
        if self.problems:
            raise GridError(self.problems)
        first_seeds = (*self.grid.seeds[: self.grid.first_seeds], *self.grid.fresh_seeds)
        for parts, seeds, on_demand in (
            (found, self.grid.seeds, False),
            (found, self.grid.fresh_seeds, True),
            (longer, first_seeds, True),
        ):
            for (part, facts), stop, seed in product(parts, self.stops, seeds):
                assert facts is not None
                code = codes[part.where]
                assert code is not None
                trial = _loop_trial(part, facts, code.digest, stop, seed)
                yield replace(trial, on_demand=on_demand)

    def longer(self, part: _Part) -> Iterator[_Part]:
        """A loop with the longer budgets of `settle`."""
        if not self.grid.settle:
            return
        for steps in self.grid.settle.budgets(part.value.steps)[1:]:
            try:
                value = replace(part.value, steps=steps)
            except Exception as error:  # a user's class may raise anything
                self.refuse(part.variant.written["steps"], f"steps = {steps}: {reason(error)}")
                return
            fields, axes = ({**each, "steps": steps} for each in (part.fields, part.axes))
            yield replace(
                part, variant=replace(part.variant, value=value), fields=fields, axes=axes
            )

    def facts(self, part: _Part) -> LoopFacts | None:
        try:
            return loops.facts(part.value)
        except Exception as error:  # a user's loop may raise anything
            self.refuse(part.variant.blamed(message := reason(error)), message)
            return None

    def of_tasks(self) -> Iterator[Trial]:
        """The trials of the built-in training."""
        settings = [self.setting(task) for task in self.tasks]
        all_costs = [
            [self.costs(setting, model) if setting else None for model in self.models]
            for setting in settings
        ]
        self.refuse_rates()
        self.refuse_budgets(all_costs)
        codes = self.codes()
        if self.problems:
            raise GridError(self.problems)
        self.warned += self.repeated_looks()
        first_seeds = (*self.grid.seeds[: self.grid.first_seeds], *self.grid.fresh_seeds)
        for task, setting, task_costs in zip(self.tasks, settings, all_costs, strict=True):
            assert setting is not None
            self.warned += self.warnings(task, setting)
            for model, cost in zip(self.models, task_costs, strict=True):
                assert cost is not None
                code = codes[task.name, model.name].digest
                for rest in product(self.trains, self.evaluates, self.stops, self.grid.seeds):
                    yield _trial(task, setting, model, cost, code, *rest)
                fresh = product(self.trains, self.evaluates, self.stops, self.grid.fresh_seeds)
                longer = product(self.reserve, self.evaluates, self.stops, first_seeds)
                for rest in (*fresh, *longer):
                    trial = _trial(task, setting, model, cost, code, *rest)
                    yield replace(trial, on_demand=True)
        self.noted += self.cost_notes(settings, all_costs)

    def refuse(self, keys: Keys, message: str) -> None:
        self.problems.append(Problem(self.grid.document.place(keys), keys, message))

    def refuse_clashes(self) -> None:
        """Fields become columns, whose names SQL reads without regard to case."""
        taken = {name.lower(): "a column of every result" for name in (*RESERVED, *OF_CELLS)}
        taken |= {name: f"a metric of {block.name}" for block, name in self.metrics(taken)}
        for kind in ("train", "evaluate", "stop", "task", "model", "loop"):
            own = {}
            for block in self.grid.blocks[kind]:
                what = block.name or kind
                for name in (column(kind, name) for name in block.axes):
                    if other := taken.get(name.lower()):
                        message = (
                            f"{what} has a field {name}, the name of {other}; rename the field"
                        )
                        self.refuse(block.keys, message)
                    own[name.lower()] = f"a field of {what}"
            taken |= own

    def metrics(self, taken: Mapping[str, str]) -> Iterator[tuple[Block, str]]:
        """The metrics of the user's own tasks and loops, which become columns too."""
        settings = {field.name for kind in SETTINGS.values() for field in fields(kind)}
        taken = {**dict.fromkeys(settings, "a setting of the built-in training"), **taken}
        first: dict[str, tuple[Block, Better]] = {}
        for block, name, better in _own_metrics(self.grid):
            of, other = first.setdefault(name, (block, better))
            message = f"{block.name} has a metric {name}, the name of {taken.get(name)}"
            if better != other:
                message = f"{name} is better {better} for {block.name} and {other} for {of.name}"
            if name in taken or better != other:
                self.refuse(block.keys, f"{message}; rename it")
            yield block, name

    def setting(self, part: _Part) -> _Setting | None:
        task: Task = part.value
        try:
            if task.capacity > MOST_TOKENS:
                raise ValueError(f"rows of up to {task.capacity:,} tokens are too long")
            vocab_size, distinct_inputs = len(task.vocab), float(task.distinct_inputs())
            decoded = task.capacity - getattr(task, "prompt_length", task.capacity)
            return _Setting(task.size, task.L, task.capacity, vocab_size, distinct_inputs, decoded)
        except Exception as error:  # a user's task may raise anything
            self.refuse(part.variant.blamed(str(error)), reason(error))
            return None

    def costs(self, setting: _Setting, part: _Part) -> Costs | None:
        try:
            found = costs(part.value, setting.vocab_size, setting.L, setting.capacity)
        except Exception as error:  # a user's model may raise anything
            self.refuse(part.variant.blamed(str(error)), reason(error))
            return None
        counts = (found.params, found.flops, found.flops_weights, found.state_bytes or 0)
        if max(counts) > LARGEST_COUNT:
            self.refuse(part.variant.keys, f"{part} has too many parameters or FLOPs to count")
        return found

    def refuse_rates(self) -> None:
        """An lr rule is a power, which may be too large to compute."""
        for train, model in product([*self.trains, *self.reserve], self.models):
            d = getattr(model.value, "d", None)
            if d is None and isinstance(train.value.lr, LrRule):
                message = f"a rule goes by d, which {model.name} does not have; write a number"
                self.refuse(train.variant.written["lr"], f"{message}, such as train: {{lr: 1e-3}}")
                continue
            try:
                train.value.peak_lr(d)
            except ArithmeticError:
                message = f"the rate at d = {d} cannot be computed; choose a milder power"
                self.refuse(train.variant.written["lr"], message)

    def refuse_budgets(self, all_costs: Sequence[Sequence[Costs | None]]) -> None:
        """Training FLOPs must pay for a step of every trial."""
        found = (cost for task_costs in all_costs for cost in task_costs if cost)
        dearest = max((cost.flops for cost in found), default=0)
        batch = max((train.value.batch_size for train in self.trains), default=0)
        needed = train_flops(dearest, batch)
        for stop in self.stops:
            if (given := stop.value.flops) is not None and given < needed:
                message = f"{given:g} FLOPs are less than the {needed:.4g} of the dearest step"
                self.refuse(stop.variant.written["flops"], message)

    def codes(self) -> dict[tuple[str, str], Code]:
        """The code of each pair of a task and a model."""
        found = {}
        names = ({part.name: part.where for part in parts} for parts in (self.tasks, self.models))
        for (task, task_where), (model, model_where) in product(*(each.items() for each in names)):
            if code := self.code(("task", task_where), ("model", model_where)):
                found[task, model] = code
        return found

    def code(self, *classes: Class) -> Code | None:
        try:
            code = trial_code(classes, self.grid.base)
        except (UserError, FileNotFoundError) as error:
            self.refuse((), str(error))
            return None
        self.run[code.digest] = code
        return code

    def repeated_looks(self) -> Iterator[str]:
        """A warning where a trial may stop as solved on a score that only just meets the goal."""
        goal = self.grid.goal
        for stop in self.stops:
            success = stop.value.success
            if goal.metric == "acc" and success == goal.threshold:
                yield (
                    f"stop.success is the goal itself, {success:g}: every check is one more chance "
                    "to meet it by luck; set it higher"
                )

    def cost_notes(
        self, settings: Sequence[_Setting | None], all_costs: Sequence[Sequence[Costs | None]]
    ) -> Iterator[str]:
        """What the FLOPs of a model leave out, and what it costs to decode without a `step`; of
        each model once, at its dearest."""
        uncounted: dict[str, tuple[str, ...]] = {}
        shares: dict[str, float] = {}
        for setting, task_costs in zip(settings, all_costs, strict=True):
            for model, cost in zip(self.models, task_costs, strict=True):
                assert setting and cost
                if cost.uncounted:
                    uncounted[model.name] = cost.uncounted
                if cost.reruns and setting.decoded:
                    share = max(
                        setting.decoded
                        * _decoded_rows(train.value, evaluate.value)
                        / (train_flops(1, train.value.batch_size) * train.value.steps)
                        for train, evaluate in product(self.trains, self.evaluates)
                    )
                    shares[model.name] = max(share, shares.get(model.name, 0.0))
        for name, operators in uncounted.items():
            yield (
                f"{name}: its FLOPs leave out {', '.join(operators)}, which torch cannot count; "
                "give it `parts` of its own (docs/own.md)"
            )
        for name, share in shares.items():
            yield (
                f"{name} has no `step`, so it runs the whole prefix for every token that it "
                f"decodes: checks and tests take up to {share:.0%} of the FLOPs of training"
            )

    def warnings(self, task: _Part, setting: _Setting) -> Iterator[str]:
        """At most one: that a task setting has too few distinct inputs to mean anything."""
        distinct = max(setting.distinct_inputs, 1.0)
        samples = max(part.value.verdict_samples for part in self.evaluates)
        trains = (part.value for part in [*self.trains, *self.reserve])
        draws = max(train.steps * train.batch_size for train in trains)
        passes = draws / (distinct * TRAIN_SHARE)
        faults = []
        if distinct * TEST_SHARE < samples:
            faults.append(
                f"a test of {samples} samples repeats the {distinct * TEST_SHARE:.0f} that "
                "it may draw from, so its interval is too narrow"
            )
        if passes > MOST_PASSES:
            faults.append(
                f"training sees each of its inputs {passes:.0f} times and may memorise them"
            )
        if faults:
            yield f"{task} has about {distinct:.3g} distinct inputs: {'; '.join(faults)}"


def _parts(grid: Grid, kind: str) -> Iterator[_Part]:
    for block in grid.blocks[kind]:
        for variant in block.variants:
            values = {name: getattr(variant.value, name) for name in block.axes}
            axes = {column(kind, name): _as_scalar(value) for name, value in values.items()}
            yield _Part(block.name, block.where, variant, values, axes)


def _reserve(trains: Sequence[_Part], grid: Grid) -> Iterator[_Part]:
    """What `settle` may train besides these, each as a part like the one that it is made from."""
    if not grid.settle or not trains:
        return
    like = trains[0]
    for train in reserved([part.value for part in trains], grid.settle, grid.tune):
        values = {name: getattr(train, name) for name in like.fields}
        axes = {column("train", name): _as_scalar(value) for name, value in values.items()}
        yield _Part("", "", replace(like.variant, value=train), values, axes)


def column(kind: str, field: str) -> str:
    """The column that holds a field of a block."""
    return f"{kind}_{field}" if kind in SETTINGS and field in RESERVED else field


def _as_scalar(value: Any) -> Any:
    """A rule, such as that of lr, is one value: canonical JSON."""
    return canonical(plain(value)) if is_dataclass(value) else value


def _trial(
    task: _Part,
    setting: _Setting,
    model: _Part,
    cost: Costs,
    code: str,
    train: _Part,
    evaluate: _Part,
    stop: _Part,
    seed: int,
) -> Trial:
    shared = {"train": train.axes, "seed": seed}
    weights = {"task": task.identity, "model": model.identity, **shared}
    former = {"task": task.former_identity, "model": model.former_identity, **shared}
    # What is off leaves no trace: a rule yet to be thought of will change no trial's identity.
    rules = {name: value for name, value in stop.axes.items() if value is not None}
    stops = {"success": None, **rules}
    judged = {"evaluate": evaluate.axes, "stop": stops}
    config = _digest({**weights, **judged})
    fitted = _fitted(train.value, stop.value, cost)
    parting = {"steps", "decay"} if fitted.extensible else {"decay"}
    # A budget of FLOPs is written as such, and decides the steps: the weights see only these.
    trajectory = {**train.axes, "steps": fitted.steps}
    common = {name: value for name, value in trajectory.items() if name not in parting}
    return Trial(
        id=_digest([config, code]),
        trunk=_digest([{**weights, "train": common}, code]),
        config=config,
        code=code,
        task_name=task.name,
        model_name=model.name,
        size=setting.size,
        L=setting.L,
        seed=seed,
        axes={**task.axes, **model.axes, **train.axes, **evaluate.axes, **stop.axes},
        params=cost.params,
        flops=cost.flops,
        flops_weights=cost.flops_weights,
        state_bytes=cost.state_bytes,
        train_bytes=cost.train_bytes(fitted.batch_size),
        train_flops=train_flops(cost.flops, fitted.steps * fitted.batch_size),
        task=task.fields,
        model=model.fields,
        train=fitted,
        evaluate=evaluate.value,
        stop=stop.value,
        on_demand=False,
        task_where=task.where,
        model_where=model.where,
        former_config=_digest({**former, **judged}) if former != weights else None,
        metrics={**BETTER, **metrics.own(task.value.metrics)},
    )


def _loop_trial(loop: _Part, facts: LoopFacts, code: str, stop: _Part, seed: int) -> Trial:
    weights = {"loop": loop.identity, "seed": seed}
    rules = {name: value for name, value in stop.axes.items() if value is not None}
    config = _digest({**weights, "stop": rules})
    return Trial(
        id=_digest([config, code]),
        trunk=_digest([weights, code]),
        config=config,
        code=code,
        task_name=facts.task,
        model_name=loop.name,
        size=facts.size,
        L=None,
        seed=seed,
        axes={**loop.axes, **stop.axes},
        params=facts.params,
        flops=facts.flops,
        flops_weights=None,
        state_bytes=None,
        train_bytes=None,
        train_flops=facts.train_flops,
        task={},
        model={},
        train=facts.budget,
        evaluate=None,
        stop=stop.value,
        on_demand=False,
        task_where="",
        model_where="",
        former_config=None,
        loop=loop.fields,
        loop_where=loop.where,
        metrics=metrics.directions(loop.value.metrics),
    )


def _own_metrics(grid: Grid) -> Iterator[tuple[Block, str, Better]]:
    """The metrics of the user's own tasks and loops, those that no other trial has."""
    for block in (*grid.blocks["task"], *grid.blocks["loop"]):
        found = (metrics.own(variant.value.metrics) for variant in block.variants)
        for name, better in dict.fromkeys(one for own in found for one in own.items()):
            yield block, name, better


def competitors(trial: Trial, tune: Sequence[str]) -> tuple[Any, ...]:
    """What trials that differ in nuisance axes and seeds alone have in common, and no others.

    tune: nuisance axes, as `train.lr`. Size and d are never among them.
    """
    nuisance = {column(*name.split(".", 1)) for name in tune}
    same = ((name, value) for name, value in trial.axes.items() if name not in nuisance)
    return (trial.task_name, trial.model_name, trial.size, trial.model.get("d"), *same)


def _decoded_rows(train: Train, evaluate: Evaluate) -> int:
    """How many rows the checks and the test of a trial may decode."""
    checks = (train.steps - 1) // evaluate.check_every
    return checks * evaluate.check_samples + evaluate.verdict_samples


def _fitted(train: Train, stop: Stop, cost: Costs) -> Train:
    """`train` with the steps that the budget of FLOPs pays for; its schedule ends with them."""
    if stop.flops is None:
        return train
    return replace(
        train, steps=min(train.steps, int(stop.flops // train_flops(cost.flops, train.batch_size)))
    )


def _digest(data: Any) -> str:
    return hashlib.sha256(canonical(data).encode()).hexdigest()[:DIGITS]
