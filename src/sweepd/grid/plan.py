"""From a grid to its trials, in the order in which to try them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from sweepd.errors import UserError
from sweepd.grid import lengths, loops
from sweepd.grid.advice import cost_notes, few_inputs, repeated_looks, same_networks
from sweepd.grid.axes import Block, reason
from sweepd.grid.columns import clashes, length_scores, own_metrics, unaskable
from sweepd.grid.costs import Costs, costs, train_flops
from sweepd.grid.fingerprint import Class, Code, trial_code
from sweepd.grid.loops import LoopFacts
from sweepd.grid.metrics import Better
from sweepd.grid.parts import Part, Parts, column
from sweepd.grid.settings import LrRule
from sweepd.grid.spec import Grid
from sweepd.grid.trials import Setting, TrainedCell, Trial, loop_trials
from sweepd.grid.yamlfile import GridError, Keys, Problem

if TYPE_CHECKING:
    from sweepd.tasks.base import Task

T = TypeVar("T")

LARGEST_COUNT = 2**63 - 1
MOST_TOKENS = 1_000_000
"""The most tokens that a row may have. The vocabulary of some tasks grows with the row, and would
be built before anything else fails."""


@dataclass(frozen=True)
class Plan:
    """The trials of a grid, without duplicates, in the order in which to try them.

    They are sorted seed by seed, so that every cell has its first seed early. Within a seed the
    cheapest come first. Trials that run on demand come last.
    """

    grid: Grid
    trials: tuple[Trial, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    """Sentences on the costs of the models and on scores at other lengths."""
    codes: dict[str, Code]
    """The codes that the trials run, by digest."""
    accepted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Other versions of the code whose trials are among `trials`, with those of `codes` in whose
    place they count."""

    @property
    def planned(self) -> tuple[Trial, ...]:
        """The trials without those that run on demand."""
        return tuple(trial for trial in self.trials if not trial.on_demand)

    @cached_property
    def cells(self) -> tuple[tuple[Trial, ...], ...]:
        """The trials of each cell, in the order in which its seeds are tried."""
        cells: dict[tuple[Any, ...], list[Trial]] = defaultdict(list)
        for trial in self.trials:
            cells[trial.cell].append(trial)
        return tuple(map(tuple, cells.values()))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields the rows of the stored plan."""
        return ({**trial.row(), "on_demand": trial.on_demand} for trial in self.trials)

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
        """The metrics that trials report besides those that any trial may report, each with the way
        in which it is better. These are metrics of the user's own tasks and loops, and scores at
        other lengths."""
        own = {name: better for _, name, better in own_metrics(self.grid)}
        return own | length_scores(self.grid)

    @property
    def minimized(self) -> str:
        """The field whose least value is asked for. A staircase names it. In a whole grid it is
        `d`, or else the one field of its models or loops that varies and holds numbers. Sizes and
        tuned fields do not count. Empty if there is no such field, or if there are several."""
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
        """Yields each task with the block that has its size."""
        yield from ((block.name, block) for block in self.grid.blocks["task"])
        for block in self.grid.blocks["loop"]:
            yield from ((variant.value.task, block) for variant in block.variants)


def plan(grid: Grid) -> Plan:
    """Returns the plan of a grid. Raises GridError for problems that reading the grid could not
    show, such as what the user's classes refuse."""
    return _Planner(grid).plan()


class _Planner:
    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.problems: list[Problem] = []
        self.parts = Parts.of(grid)
        self.warned: list[str] = []
        self.noted: list[str] = []
        self.run: dict[str, Code] = {}
        """The codes that the trials run, by digest."""

    def plan(self) -> Plan:
        self.problems += clashes(self.grid)
        self.warned += unaskable(self.grid)
        trials: dict[str, Trial] = {}
        for trial in self.of_loops() if self.parts.loops else self.of_tasks():
            trials.setdefault(trial.id, trial)
        turn = {seed: i for i, seed in enumerate((*self.grid.seeds, *self.grid.fresh_seeds))}
        order = sorted(
            trials.values(),
            key=lambda trial: (trial.on_demand, turn[trial.seed], trial.effort),
        )
        return Plan(self.grid, tuple(order), tuple(self.warned), tuple(self.noted), self.run)

    def of_loops(self) -> Iterator[Trial]:
        """Yields the trials of the user's own loops."""
        found = [(part, self.facts(part)) for part in self.parts.loops]
        longer = [
            (part, self.facts(part)) for loop in self.parts.loops for part in self.longer(loop)
        ]
        codes = {part.where: self.code(("loop", part.where)) for part in self.parts.loops}
        if self.problems:
            raise GridError(self.problems)
        for parts, seeds, on_demand in self.rounds(found, longer):
            for (part, facts), stop in product(parts, self.parts.stops):
                assert facts is not None
                code = codes[part.where]
                assert code is not None
                yield from loop_trials(part, facts, code.digest, stop, seeds, on_demand=on_demand)

    def longer(self, part: Part) -> Iterator[Part]:
        """Yields a loop with each of the longer budgets of `settle`."""
        if not self.grid.settle:
            return
        for steps in self.grid.settle.budgets(part.value.steps)[1:]:
            try:
                value = replace(part.value, steps=steps)
            except Exception as error:  # a user's class may raise anything
                self.refuse(part.variant.written["steps"], f"steps = {steps}: {reason(error)}")
                return
            yield replace(part, variant=replace(part.variant, value=value))

    def facts(self, part: Part) -> LoopFacts | None:
        try:
            return loops.facts(part.value)
        except Exception as error:  # a user's loop may raise anything
            self.refuse(part.variant.blamed(message := reason(error)), message)
            return None

    def of_tasks(self) -> Iterator[Trial]:
        """Yields the trials of the built-in training."""
        settings = [self.setting(task) for task in self.parts.tasks]
        all_costs = [
            [self.costs(setting, model) if setting else None for model in self.parts.models]
            for setting in settings
        ]
        self.refuse_rates()
        self.refuse_budgets(all_costs)
        codes = self.codes()
        if self.grid.lengths and not length_scores(self.grid):
            self.refuse((lengths.KEY,), "no task of the grid reports acc or loss; leave it out")
        if self.problems:
            raise GridError(self.problems)
        self.warned += repeated_looks(self.grid.goal, self.parts.stops)
        self.warned += same_networks(self.parts.models, all_costs)
        for task, setting, task_costs in zip(self.parts.tasks, settings, all_costs, strict=True):
            assert setting is not None
            self.warned += few_inputs(task, setting, self.parts)
            for model, cost in zip(self.parts.models, task_costs, strict=True):
                assert cost is not None
                code = codes[task.name, model.name].digest
                for trains, seeds, on_demand in self.rounds(self.parts.trains, self.parts.reserve):
                    for rest in product(trains, self.parts.evaluates, self.parts.stops):
                        cell = TrainedCell(
                            task, setting, model, cost, code, *rest, self.grid.lengths
                        )
                        yield from cell.trials(seeds, on_demand=on_demand)
        self.noted += lengths.notes(self.grid.lengths)
        self.noted += cost_notes(self.parts, settings, all_costs, self.grid.lengths)

    def rounds(
        self, asked: Sequence[T], longer: Sequence[T]
    ) -> Iterator[tuple[Sequence[T], Sequence[int], bool]]:
        """Yields what runs, the seeds that it runs with, and whether it runs on demand alone.
        longer: what `settle` may train besides `asked`."""
        grid = self.grid
        yield asked, grid.seeds, False
        yield asked, grid.fresh_seeds, True
        yield longer, (*grid.seeds[: grid.first_seeds], *grid.fresh_seeds), True

    def refuse(self, keys: Keys, message: str) -> None:
        self.problems.append(Problem(self.grid.document.place(keys), keys, message))

    def setting(self, part: Part) -> Setting | None:
        task: Task = part.value
        try:
            if task.capacity > MOST_TOKENS:
                raise ValueError(f"rows of up to {task.capacity:,} tokens are too long")
            vocab_size, distinct_inputs = len(task.vocab), float(task.distinct_inputs())
            decoded = task.capacity - getattr(task, "prompt_length", task.capacity)
            return Setting(task.size, task.L, task.capacity, vocab_size, distinct_inputs, decoded)
        except Exception as error:  # a user's task may raise anything
            self.refuse(part.variant.blamed(str(error)), reason(error))
            return None

    def costs(self, setting: Setting, part: Part) -> Costs | None:
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
        """Refuses an lr rule that cannot be computed. A rule is a power of `d`. Its model may have
        no `d`, or the power may be too large."""
        for train, model in product([*self.parts.trains, *self.parts.reserve], self.parts.models):
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
        """Refuses a budget of training FLOPs that does not pay for a step of every trial."""
        found = (cost for task_costs in all_costs for cost in task_costs if cost)
        dearest = max((cost.flops for cost in found), default=0)
        batch = max((train.value.batch_size for train in self.parts.trains), default=0)
        needed = train_flops(dearest, batch)
        for stop in self.parts.stops:
            if (given := stop.value.flops) is not None and given < needed:
                message = f"{given:g} FLOPs are less than the {needed:.4g} of the dearest step"
                self.refuse(stop.variant.written["flops"], message)

    def codes(self) -> dict[tuple[str, str], Code]:
        """Returns the code of each pair of a task and a model, by their names."""
        found = {}
        names = (
            {part.name: part.where for part in parts}
            for parts in (self.parts.tasks, self.parts.models)
        )
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
