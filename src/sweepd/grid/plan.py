"""From a grid to its trials, in the order in which to try them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from sweepd.errors import UserError
from sweepd.grid import lengths
from sweepd.grid.advice import clashes, cost_notes, doubts, length_scores, own_metrics, unaskable
from sweepd.grid.axes import Block, Point, reason
from sweepd.grid.costs import Costs, costs, train_flops
from sweepd.grid.fingerprint import KINDS, Class, Code, trial_code
from sweepd.grid.metrics import Better
from sweepd.grid.options import column
from sweepd.grid.registry import neutral
from sweepd.grid.settings import LrRule, Train
from sweepd.grid.spec import Grid
from sweepd.grid.trials import Setting, Trial, loop_facts, loop_trials, trained_trials
from sweepd.grid.user_files import undisturbed
from sweepd.grid.yamlfile import GridError, Keys, Problem

if TYPE_CHECKING:
    from sweepd.tasks.base import Task

T = TypeVar("T")

WIDER = 2
"""The number of rates that are held in reserve beyond each end of the tried range."""
REFERENCE_D = 32
"""The width for which rates are computed when they are put in order."""
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
    """Other versions of the code whose trials are in `trials`, each with those it stands for."""

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
        taught = [(block.name, block) for block in self.grid.blocks["task"]]
        for block in self.grid.blocks["loop"]:
            taught += [(point.value.task, block) for point in block.points]
        return {task: block.kind.size_field for task, block in taught}  # type: ignore[attr-defined]

    @property
    def task_fields(self) -> dict[str, tuple[str, ...]]:
        """For each task, the columns that hold its fields."""
        fields = {
            block.name: tuple(column("task", name) for name in block.axes)
            for block in self.grid.blocks["task"]
        }
        return fields or {task: (field,) for task, field in self.size_fields.items()}

    @property
    def neutral(self) -> dict[str, dict[str, dict[str, Any]]]:
        """See `SweepInfo.neutral`. Those of training go with each model. A field that is off, null,
        has nothing to fill in."""

        def columns(kind: str, block: Block) -> dict[str, Any]:
            values = neutral(block.kind).items()
            return {column(kind, name): value for name, value in values if value is not None}

        blocks = self.grid.blocks
        found: dict[str, dict[str, dict[str, Any]]] = {"task": {}, "model": {}}
        of_training = [columns(kind, b) for kind in ("train", "evaluate") for b in blocks[kind]]
        for kind in KINDS:
            for block in blocks[kind]:
                at = columns(kind, block)
                for more in of_training if kind == "model" else ():
                    at |= more
                if at:
                    found["task" if kind == "task" else "model"][block.name] = at
        return found

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


@undisturbed()
def plan(grid: Grid) -> Plan:
    """Returns the plan of a grid. Raises GridError for problems that reading the grid could not
    show, such as what the user's classes refuse."""
    return _Planner(grid).plan()


class _Planner:
    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.problems: list[Problem] = []
        kinds = ("task", "model", "loop", "train", "evaluate", "stop")
        self.tasks, self.models, self.loops, self.trains, self.evaluates, self.stops = (
            grid.points(kind) for kind in kinds
        )
        self.longer_trains = tuple(self.settling())
        """The training settings that `settle` may use besides `trains`."""
        self.warned: list[str] = []
        self.noted: list[str] = []
        self.run: dict[str, Code] = {}
        """The codes that the trials run, by digest."""

    def plan(self) -> Plan:
        self.problems += clashes(self.grid)
        self.warned += unaskable(self.grid)
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
        """Yields the trials of the user's own loops."""
        asked = [(part, self.facts(part)) for part in self.loops]
        longer = [(part, self.facts(part)) for loop in self.loops for part in self.longer(loop)]
        codes = {part.where: self.code(("loop", part.where)) for part in self.loops}
        if self.problems:
            raise GridError(self.problems)
        for parts, seeds, on_demand in self.rounds(asked, longer):
            for (part, facts), stop in product(parts, self.stops):
                assert facts is not None
                code = codes[part.where]
                assert code is not None
                yield from loop_trials(part, facts, code.digest, stop, seeds, on_demand=on_demand)

    def longer(self, part: Point) -> Iterator[Point]:
        """Yields a loop with each of the longer budgets of `settle`."""
        if not self.grid.settle:
            return
        for steps in self.grid.settle.budgets(part.value.steps)[1:]:
            try:
                value = replace(part.value, steps=steps)
            except Exception as error:  # a user's class may raise anything
                self.refuse(part.written["steps"], f"steps = {steps}: {reason(error)}")
                return
            yield replace(part, value=value)

    def facts(self, part: Point) -> dict[str, Any] | None:
        try:
            return loop_facts(part.value)
        except Exception as error:  # a user's loop may raise anything
            self.refuse(part.blamed(message := reason(error)), message)
            return None

    def of_tasks(self) -> Iterator[Trial]:
        """Yields the trials of the built-in training."""
        settings = [self.setting(task) for task in self.tasks]
        all_costs = [
            [self.costs(setting, model) if setting else None for model in self.models]
            for setting in settings
        ]
        # An lr rule is a power of `d`. Its model may have no `d`, or the power may be too large.
        all_trains = (*self.trains, *self.longer_trains)
        for train, model in product(all_trains, self.models):
            d = getattr(model.value, "d", None)
            if d is None and isinstance(train.value.lr, LrRule):
                message = f"a rule goes by d, which {model.name} does not have; write a number"
                self.refuse(train.written["lr"], f"{message}, such as train: {{lr: 1e-3}}")
                continue
            try:
                train.value.peak_lr(d)
            except ArithmeticError:
                message = f"the rate at d = {d} cannot be computed; choose a milder power"
                self.refuse(train.written["lr"], message)
        # A budget of training FLOPs has to pay for a step of every trial.
        found = (cost for task_costs in all_costs for cost in task_costs if cost)
        dearest = max((cost.flops for cost in found), default=0)
        batch = max((train.value.batch_size for train in self.trains), default=0)
        needed = train_flops(dearest, batch)
        for stop in self.stops:
            if (given := stop.value.flops) is not None and given < needed:
                message = f"{given:g} FLOPs are less than the {needed:.4g} of the dearest step"
                self.refuse(stop.written["flops"], message)
        # The code of each pair of a task and a model, by their names.
        codes: dict[tuple[str, str], Code] = {}
        names = ({part.name: part.where for part in parts} for parts in (self.tasks, self.models))
        for (task, task_where), (name, where) in product(*(each.items() for each in names)):
            if code := self.code(("task", task_where), ("model", where)):
                codes[task, name] = code
        if self.grid.lengths and not length_scores(self.grid):
            self.refuse((lengths.KEY,), "no task of the grid reports acc or loss; leave it out")
        if self.problems:
            raise GridError(self.problems)
        self.warned += doubts(self.grid, settings, all_costs, all_trains)
        for setting, task_costs in zip(settings, all_costs, strict=True):
            assert setting is not None
            for model, cost in zip(self.models, task_costs, strict=True):
                assert cost is not None
                digest = codes[setting.task.name, model.name].digest
                for trains, seeds, on_demand in self.rounds(self.trains, self.longer_trains):
                    for each in product(trains, self.evaluates, self.stops):
                        factors = self.grid.lengths
                        yield from trained_trials(
                            setting, model, cost, digest, each, factors, seeds, on_demand=on_demand
                        )
        if self.grid.lengths:
            times = ", ".join(f"{factor:g}" for factor in self.grid.lengths)
            self.noted.append(
                f"trained models are also scored at {times} times their length, where their "
                "weights and the vocabulary of the task are the same (`sweepd check` tries it)"
            )
        self.noted += cost_notes(self.grid, settings, all_costs)

    def settling(self) -> Iterator[Point]:
        """Yields the settings that `settle` may train besides `trains`: their longer budgets, and,
        if rates are tuned, further rates with all budgets. Each is like the first of `trains` but
        for its value."""
        if not self.grid.settle or not self.trains:
            return
        asked: list[Train] = [train.value for train in self.trains]
        rated = list(asked)
        # Rates beyond both ends of each range: the ratio between neighbours is that of the two
        # rates at the end.
        ranges: dict[Train, list[Train]] = defaultdict(list)
        for one in asked if "train.lr" in self.grid.tune else ():
            ranges[replace(one, lr=1.0)].append(one)
        for rates in ranges.values():
            rates.sort(key=_peak)
            ends = ((rates[0], rates[1]), (rates[-1], rates[-2])) if len(rates) > 1 else ()
            for (end, beside), times in product(ends, range(1, WIDER + 1)):
                factor = (_peak(end) / _peak(beside)) ** times
                if isinstance(lr := end.lr, LrRule):
                    wider = replace(lr, base=_short(lr.base * factor), max=_short(lr.max * factor))
                    rated.append(replace(end, lr=wider))
                else:
                    rated.append(replace(end, lr=_short(lr * factor)))
        budgets = self.grid.settle.budgets
        every = (replace(one, steps=steps) for one in rated for steps in budgets(one.steps))
        for value in dict.fromkeys(every):
            if value not in asked:
                yield replace(self.trains[0], value=value)

    def rounds(
        self, asked: Sequence[T], longer: Sequence[T]
    ) -> Iterator[tuple[Sequence[T], Sequence[int], bool]]:
        """Yields what runs, the seeds that it runs with, and whether it runs on demand alone.
        longer: what `settle` may train besides `asked`."""
        grid = self.grid
        yield asked, grid.seeds, False
        yield asked, grid.fresh_seeds, True
        yield longer, (*grid.seeds, *grid.fresh_seeds), True

    def refuse(self, keys: Keys, message: str) -> None:
        self.problems.append(Problem(self.grid.document.place(keys), keys, message))

    def setting(self, part: Point) -> Setting | None:
        task: Task = part.value
        try:
            if task.capacity > MOST_TOKENS:
                raise ValueError(f"rows of up to {task.capacity:,} tokens are too long")
            vocab_size, distinct_inputs = len(task.vocab), float(task.distinct_inputs())
            decoded = task.capacity - getattr(task, "prompt_length", task.capacity)
            return Setting(
                part, task.size, task.L, task.capacity, vocab_size, distinct_inputs, decoded
            )
        except Exception as error:  # a user's task may raise anything
            self.refuse(part.blamed(str(error)), reason(error))
            return None

    def costs(self, setting: Setting, part: Point) -> Costs | None:
        try:
            found = costs(part.value, setting.vocab_size, setting.L, setting.capacity)
        except Exception as error:  # a user's model may raise anything
            self.refuse(part.blamed(str(error)), reason(error))
            return None
        counts = (found.params, found.flops, found.flops_weights, found.state_bytes or 0)
        if max(counts) > LARGEST_COUNT:
            self.refuse(part.keys, f"{part} has too many parameters or FLOPs to count")
        return found

    def code(self, *classes: Class) -> Code | None:
        try:
            code = trial_code(classes, self.grid.base)
        except (UserError, FileNotFoundError) as error:
            self.refuse((), str(error))
            return None
        self.run[code.digest] = code
        return code


def _peak(train: Train) -> float:
    return train.peak_lr(REFERENCE_D)


def _short(rate: float) -> float:
    """Returns a rate rounded to six digits, which are enough for a rate, and readable."""
    return float(f"{rate:.6g}")
