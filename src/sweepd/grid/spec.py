"""What the user wrote: a grid, checked as a whole before anything starts.

`load_grid` and `parse_grid` refuse everything that is wrong at once, each problem with its line and
path. `plan` refuses what only building a model can show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid import lengths, registry
from sweepd.grid.axes import (
    Block,
    Fields,
    Point,
    block_schema,
    canonical,
    count,
    has_keys,
    plain,
    read_block,
    read_choices,
    shown,
    value_schema,
)
from sweepd.grid.fingerprint import FOLDERS, Kind, is_program
from sweepd.grid.metrics import Better, directions, is_share
from sweepd.grid.options import (
    CONFIRMING,
    LEAST_SEEDS,
    Goal,
    PassRule,
    Searches,
    Seeds,
    Settle,
    Staircase,
    TrackerName,
)
from sweepd.grid.placement import Resources
from sweepd.grid.program import read_program
from sweepd.grid.registry import Parameter, parameters
from sweepd.grid.settings import Evaluate, Stop, Train
from sweepd.grid.user_files import undisturbed
from sweepd.grid.yamlfile import Document, GridError, Keys, dump, override, parse, read
from sweepd.limits import NAME, text_in_column

MOST_RETRIES = 900
"""The largest `retries`. The tries of one launch have to fit into `store.launches.TRIES`."""
MOST_TRIALS = 100_000
ALIAS = r"[A-Za-z_][A-Za-z0-9._-]{0,99}"

FINDERS: dict[Kind, Callable[[str, Path], type]] = {
    "task": registry.find_task,
    "model": registry.find_model,
    "loop": registry.find_loop,
}
SETTINGS: dict[str, type] = {"train": Train, "evaluate": Evaluate, "stop": Stop}
Blocks = dict[str, tuple[Block, ...]]


OPTIONS: Fields = {
    "name": Parameter(str, None),
    "goal": Parameter(str, "acc > 0.9"),
    "pass": Parameter(PassRule, "median"),
    "search": Parameter(Literal["grid", "staircase"] | Searches, "grid"),
    "settle": Parameter(Literal["off"] | Settle, "off"),
    "resources": Parameter(Literal["auto"] | Resources, "auto"),
    "retries": Parameter(int, 1),
    "checkpoint_seconds": Parameter(float, 30.0),
    "hang_seconds": Parameter(float, 600.0),
}
"""The keys of a grid that take one value."""
LISTS: Fields = {
    "seeds": Parameter(int, (0,)),
    "tune": Parameter(str, ()),
    "log_to": Parameter(TrackerName, ()),
}
"""The keys of a grid that take a list of values."""
KEYS: Fields = {
    "task": Parameter(dict),
    "model": Parameter(dict),
    **{kind: Parameter(dict, None) for kind in ("loop", *SETTINGS)},
    **OPTIONS,
    **LISTS,
    lengths.KEY: Parameter(float, ()),
}
LOOP_KEYS: Fields = {
    "loop": Parameter(dict),
    "stop": Parameter(dict, None),
    **OPTIONS,
    **LISTS,
}
"""The keys of a grid with a loop of the user's own. The loop takes the place of task, model, train
and evaluate."""


@dataclass(frozen=True)
class Grid:
    """A checked grid. Blocks of one kind sweep side by side; kinds and seeds multiply."""

    name: str
    blocks: Blocks
    """The blocks by kind: task, model, loop, train, evaluate, stop."""
    seeds: tuple[int, ...]
    first_seeds: int
    """The number of seeds that every cell gets. The other seeds are for close calls."""
    goal: Goal
    pass_rule: PassRule
    search: Literal["grid"] | Staircase
    settle: Settle | None
    """How long the cells that decide an answer are trained; None trains them as long as all
    others."""
    resources: Resources | Literal["auto"]
    retries: int
    """The number of times that a failed trial is tried again."""
    checkpoint_seconds: float
    """The seconds that a trial trains between two checkpoints."""
    hang_seconds: float
    """The seconds that a trial may go without a step before its worker is killed; 0 means for
    ever."""
    tune: tuple[str, ...]
    """The nuisance axes, such as `train.lr`."""
    log_to: tuple[TrackerName, ...]
    """The trackers that are told of the trials while these run."""
    lengths: tuple[float, ...]
    """The multiples of their tasks' lengths at which trained models are also scored, in ascending
    order."""
    base: Path
    """The absolute path of the folder from which the paths of a user's tasks and models start."""
    document: Document = field(repr=False, compare=False)

    @property
    def fresh_seeds(self) -> tuple[int, ...]:
        """Seeds that confirm what passed at the best of several rates or budgets. The first two run
        first, and two more for each that failed. Where all seeds must pass there are no more."""
        if not self.settle:
            return ()
        count = CONFIRMING * (1 if self.pass_rule in ("all", "any") else 3)
        return tuple(max(self.seeds) + 1 + i for i in range(count))

    @property
    def search_name(self) -> Literal["grid", "staircase"]:
        return "grid" if self.search == "grid" else "staircase"

    def points(self, kind: str) -> tuple[Point, ...]:
        """Returns the points of all blocks of one kind."""
        return tuple(point for block in self.blocks[kind] for point in block.points)

    def resolved_text(self) -> str:
        """Returns the grid as YAML with defaults and overrides written out. Read again, with the
        same `base`, it is the same grid."""
        blocks = {
            kind: [block.plain() for block in found] for kind, found in self.blocks.items() if found
        }
        return dump(
            {
                "name": self.name,
                **{kind: found[0] if len(found) == 1 else found for kind, found in blocks.items()},
                "goal": str(self.goal),
                "pass": self.pass_rule,
                "search": "grid" if self.search == "grid" else {"staircase": asdict(self.search)},
                "settle": asdict(self.settle) if self.settle else "off",
                "resources": "auto" if self.resources == "auto" else asdict(self.resources),
                "retries": self.retries,
                "checkpoint_seconds": self.checkpoint_seconds,
                "hang_seconds": self.hang_seconds,
                "seeds": list(self.seeds)
                if self.first_seeds == len(self.seeds)
                else {"start": self.first_seeds, "max": len(self.seeds)},
                "tune": list(self.tune),
                "log_to": list(self.log_to),
                **({lengths.KEY: list(self.lengths)} if self.lengths else {}),
            }
        )


def load_grid(path: Path, sets: Sequence[str] = ()) -> Grid:
    """Returns the grid of a file, with `--set` options (`path=value`) applied. Raises GridError
    with all problems."""
    return parse_grid(read(path), str(path), sets, path.absolute().parent)


@undisturbed()
def parse_grid(text: str, source: str, sets: Sequence[str], base: Path) -> Grid:
    """Returns the grid that a text states. `source` names the text in problems, and the sweep if it
    has no name. Raises GridError with all problems."""
    document = parse(text, source)
    for option in sets:
        override(document, option)
    return _Reader(document, base.absolute()).grid()


def json_schema() -> dict[str, Any]:
    """Returns the JSON Schema (2020-12) of a grid, for editors. What it accepts may still be
    refused, since it knows neither a user's own classes nor which values go together."""
    shipped = {"task": registry.shipped_tasks(), "model": registry.shipped_models()}
    blocks: dict[str, Any] = {}
    for kind, entries in shipped.items():
        known = [block_schema(e.parameters, {"name": {"const": e.name}}) for e in entries]
        blocks[kind] = {"anyOf": [*known, _OTHER_NAMES]}
    blocks["loop"] = {"anyOf": [_OTHER_NAMES, _PROGRAM]}
    for kind, settings in SETTINGS.items():
        blocks[kind] = block_schema(parameters(settings), {})
    several = {
        kind: {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
        for kind, one in blocks.items()
    }
    options = {name: value_schema(parameter) for name, parameter in OPTIONS.items()}
    options["name"] = {"type": "string", "pattern": f"^{NAME}$"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A sweepd grid",
        "type": "object",
        "properties": {
            **several,
            **options,
            "seeds": {
                "anyOf": [
                    {
                        "type": "array",
                        "items": {"type": "integer", "minimum": 0},
                        "minItems": 1,
                        "uniqueItems": True,
                    },
                    block_schema(parameters(Seeds), {}),
                ],
                "default": [0],
            },
            "tune": {"type": "array", "items": {"type": "string"}, "default": []},
            "log_to": {
                "type": "array",
                "items": value_schema(LISTS["log_to"]),
                "uniqueItems": True,
                "default": [],
            },
            lengths.KEY: {
                "type": "array",
                "items": {"type": "number", "exclusiveMinimum": 1, "maximum": lengths.MOST},
                "uniqueItems": True,
                "default": [],
            },
        },
        "oneOf": [
            {"required": ["task", "model"], "properties": {"loop": False}},
            {"required": ["loop"], "properties": dict.fromkeys(KEYS.keys() - LOOP_KEYS, False)},
        ],
        "additionalProperties": False,
    }


_OTHER_NAMES = {
    "description": "several names, or a class of your own",
    "type": "object",
    "properties": {
        "name": {
            "anyOf": [
                {"type": "string", "pattern": ":"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        },
        "as": {
            "description": "what results call it; for several names, a list of as many",
            "anyOf": [
                {"type": "string", "pattern": f"^{ALIAS}$"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ],
        },
    },
    "required": ["name"],
}


_PROGRAM = {
    "description": "any command (docs/program.md)",
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("program", "as", "task", "size")},
        "metrics": {"type": ["object", "array"]},
        "files": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["program", "as", "task", "metrics"],
}


class _Reader:
    """Reads one document part by part, and leaves what is wrong in its `problems`."""

    def __init__(self, document: Document, base: Path) -> None:
        self.document, self.base = document, base
        self.raw: dict[str, Any] = document.data
        self.refuse = document.refuse
        self.kinds: dict[str, dict[str, Any]] = {kind: {"": cls} for kind, cls in SETTINGS.items()}
        """The dataclasses of all blocks, broken ones included, by kind and name."""
        self.aliases: dict[tuple[str, str], tuple[str, Keys]] = {}
        """For each kind and alias, the class that has the alias, and where that is written."""

    @property
    def of_loop(self) -> bool:
        """Whether the user's own loop takes the place of task, model, train and evaluate."""
        return "loop" in self.raw

    def grid(self) -> Grid:
        if self.of_loop:
            has_keys(self.document, LOOP_KEYS, self.raw, (), "a grid with a loop")
        else:
            has_keys(self.document, KEYS, self.raw, (), "a grid")
        self.refuse_too_many()
        blocks = {kind: self.blocks(kind) for kind in (*FINDERS, *SETTINGS)}
        self.refuse_same_in_results(blocks)
        self.tasks, self.lengths = blocks["task"], self.read_lengths()
        values = {key: self.one(key) for key in OPTIONS}
        name, goal = self.name(values["name"]), self.goal(values["goal"])
        if goal:
            (self.check_loop_stop if self.of_loop else self.check_stop)(goal, blocks["stop"])
        (seeds, first_seeds), tune = self.seeds(), self.tune()
        log_to = tuple(choice.value for choice in self.listed("log_to", "[tensorboard]"))
        search = self.search(values["search"], blocks, tune)
        settle = values["settle"] if isinstance(values["settle"], Settle) else None
        if settle:
            self.check_settle(settle, blocks, first_seeds, search, tune)
        for key in ("retries", "checkpoint_seconds", "hang_seconds"):
            if values[key] is not None and values[key] < 0:
                self.refuse((key,), f"{values[key]}: must not be negative")
        if values["retries"] is not None and values["retries"] > MOST_RETRIES:
            self.refuse(("retries",), f"{values['retries']}: must be at most {MOST_RETRIES}")
        if self.document.problems or goal is None:
            raise GridError(self.document.problems)
        return Grid(
            name=name,
            blocks=blocks,
            seeds=seeds,
            first_seeds=first_seeds,
            goal=goal,
            pass_rule=values["pass"],
            search=search,
            settle=settle,
            resources=values["resources"],
            retries=values["retries"],
            checkpoint_seconds=values["checkpoint_seconds"],
            hang_seconds=values["hang_seconds"],
            tune=tune,
            log_to=log_to,
            lengths=self.lengths,
            base=self.base,
            document=self.document,
        )

    def refuse_too_many(self) -> None:
        """Raises GridError if the grid has too many trials. They are counted before anything is
        expanded."""
        seeds = self.raw.get("seeds")
        many = seeds.get("max") if isinstance(seeds, dict) else count(seeds)
        trials = math.prod(count(self.raw.get(key)) for key in (*FINDERS, *SETTINGS))
        trials *= many if isinstance(many, int) else 1
        if trials > MOST_TRIALS:
            self.refuse((), f"{trials:,} trials are more than {MOST_TRIALS:,}; split the grid")
            raise GridError(self.document.problems)

    def blocks(self, kind: str) -> tuple[Block, ...]:
        """Returns the blocks of one kind. Those with problems are left out."""
        if kind not in self.raw and (kind in FINDERS or (self.of_loop and kind not in LOOP_KEYS)):
            return ()
        raw = self.raw.get(kind)
        if raw is None and kind in SETTINGS:  # absent, or `stop:` with nothing below it
            raw = {}
        if raw == []:
            self.refuse((kind,), "an empty list; give it at least one block")
        found: list[Block | None] = []
        for i, item in enumerate(raw if isinstance(raw, list) else [raw]):
            keys: Keys = (kind, i) if isinstance(raw, list) else (kind,)
            if kind in FINDERS:
                found += self.named(kind, item, keys)
            else:
                found.append(read_block(self.document, SETTINGS[kind], item, keys))
        return tuple(block for block in found if block)

    def refuse_same_in_results(self, blocks: Blocks) -> None:
        """Refuses two values of a field that are one in results, such as 1 and '1'. A column of
        several types holds texts, so their trials would be counted as seeds of one cell."""
        for found in blocks.values():
            first: dict[tuple[str, str, str], Any] = {}
            for block in found:
                for name, values in block.axes.items():
                    for value in (
                        value for value in values if isinstance(value, int | float | str)
                    ):
                        other = first.setdefault((block.name, name, text_in_column(value)), value)
                        if canonical(other) != canonical(value):
                            message = f"{shown(other)} and {shown(value)} are one value in results"
                            self.refuse((*block.keys, name), f"{message}; keep one")

    def named(self, kind: str, raw: Any, keys: Keys) -> list[Block | None]:
        """Returns one block for each name of a block of tasks, models or loops. None stands for a
        block that has problems."""
        if not isinstance(raw, dict):
            self.refuse(keys, f"{shown(raw)} is not a mapping; write {kind}: {{name: …, …}}")
            return []
        if kind == "loop" and "program" in raw:
            return [self.program(raw, keys)]
        if "name" not in raw:
            self.refuse(keys, f"which {kind}? Write `name: …`")
            return []
        fields = {key: value for key, value in raw.items() if key not in ("name", "as")}
        written = read_choices(self.document, str, raw["name"], (*keys, "name"))
        aliases = self.read_aliases(raw, len(written), keys)
        found = []
        for choice, alias in zip(written, aliases, strict=True):
            where = choice.value
            try:
                cls = FINDERS[kind](where, self.base)  # type: ignore[index]
            except UserError as error:
                self.refuse(choice.keys, str(error))
                continue
            name = registry.result_name(where, self.base)
            if alias and not self.may_be_called(kind, name, alias):
                continue
            given = alias.value if alias and alias.value != name else None
            self.kinds.setdefault(kind, {})[given or name] = cls
            found.append(
                read_block(
                    self.document, cls, fields, keys, name=given or name, where=where, alias=given
                )
            )
        return found

    def program(self, raw: dict[str, Any], keys: Keys) -> Block | None:
        """Returns the block of a program (`loop: {program: …}`)."""
        seeds = self.raw.get("seeds")
        many = len(seeds) if isinstance(seeds, list) else 2 if isinstance(seeds, dict) else 1
        found = read_program(self.document, raw, keys, self.base, seeds=many)
        if not found:
            return None
        where, cls, axes = found
        alias = Point(raw["as"], (*keys, "as"))
        if not self.may_be_called("loop", where, alias):
            return None
        self.kinds.setdefault("loop", {})[alias.value] = cls
        return read_block(
            self.document, cls, axes, keys, name=alias.value, where=where, alias=alias.value
        )

    def read_aliases(self, raw: dict[str, Any], names: int, keys: Keys) -> Sequence[Point | None]:
        """Returns the alias of each of a block's names, or None for each if it gives none."""
        nothing = [None] * names
        if "as" not in raw:
            return nothing
        keys = (*keys, "as")
        found = read_choices(self.document, str, raw["as"], keys)
        several = isinstance(raw["name"], list)
        if isinstance(raw["as"], list) != several or (found and len(found) != names):
            wanted = f"a list of {names}, one for each of its names" if several else "one alias"
            self.refuse(keys, f"{shown(raw['as'])}: this block needs {wanted}")
            return nothing
        return found or nothing

    def may_be_called(self, kind: str, name: str, alias: Point) -> bool:
        """Returns whether a class may have this alias. Refuses an alias that it may not have."""
        called, own = alias.value, registry.is_own(name)
        other, place = self.aliases.setdefault((kind, called), (name, alias.keys))
        folder = FOLDERS["task" if kind == "task" else "model"]
        message = None
        if not own and called != name:
            message = f"{name} comes with sweepd and keeps its name; `as` names a class of yours"
        elif own and not re.fullmatch(ALIAS, called):
            message = "an alias has up to 100 letters, digits, '.', '_' and '-', a letter first"
        elif own and (file := folder / f"{called}.py").is_file():
            message = f"the name of what comes with sweepd ({file}); choose another"
        elif other != name:
            other = "another program" if is_program(other) else other
            message = f"{other} is called so already ({self.document.place(place)}); choose another"
        if message:
            self.refuse(alias.keys, f"{shown(called)}: {message}")
        return message is None

    def one(self, key: str) -> Any:
        """Returns the value of a key that is no axis, or None if it has problems."""
        if key not in self.raw:
            return OPTIONS[key].default
        raw = self.raw[key]
        if isinstance(raw, list) or count(raw) > 1:
            self.refuse((key,), "one value is needed; this is no axis")
            return None
        choices = read_choices(self.document, OPTIONS[key].type, raw, (key,))
        return choices[0].value if choices else None

    def name(self, name: str | None) -> str:
        if name is None and "name" not in self.raw:
            name = Path(self.document.source).stem
        if name is not None and not re.fullmatch(NAME, name):
            message = "up to 100 letters, digits, '.', '_' and '-', the first no dot"
            self.refuse(("name",), f"{shown(name)}: a sweep's name has {message}; write `name: …`")
        return name or ""

    def goal(self, text: str | None) -> Goal | None:
        if text is None:
            return None
        try:
            goal = Goal.parse(text)
        except ValueError as error:
            self.refuse(("goal",), f"{shown(text)}: {error}")
            return None
        metric = goal.metric
        for name, metrics in self.metrics():
            if metric not in metrics:
                near, known = closest(metric, metrics), ", ".join(metrics)
                self.refuse(("goal",), f"{name} reports no {metric}{near}; it reports {known}")
            elif metrics[metric] != goal.asks_for:
                more, wanted = ("more", ">") if metrics[metric] == "up" else ("less", "<")
                told = f"for {name}, {more} {metric} is better"
                self.refuse(("goal",), f"{told}; write {metric} {wanted} {goal.threshold:g}")
        share = is_share(metric) or metric in lengths.scores({"acc": "up"}, self.lengths)
        threshold = goal.threshold
        if not math.isfinite(threshold) or (share and not 0 <= threshold <= 1):
            number = text.rpartition(goal.comparison)[2].strip()
            wanted = "a share from 0 to 1" if share else "a finite number"
            self.refuse(("goal",), f"{number}: must be {wanted}")
        return goal

    def metrics(self) -> Iterator[tuple[str, dict[str, Better]]]:
        """Yields each loop or task by name, with what it reports. A task's settings decide what it
        reports, so it may come several times. Where its settings are broken, its class decides."""

        def reported(by: Any) -> dict[str, Better]:
            own = directions(by.metrics)
            return own | lengths.scores(own, self.lengths)

        settled = {block.name for block in self.tasks}
        for name, cls in (*self.kinds.get("loop", {}).items(), *self.kinds.get("task", {}).items()):
            if name not in settled:
                yield name, reported(cls)
        for block in self.tasks:
            found = [reported(point.value) for point in block.points]
            yield from ((block.name, one) for i, one in enumerate(found) if one not in found[:i])

    def check_stop(self, goal: Goal, stops: Sequence[Block]) -> None:
        """Refuses stop rules that do not fit the goal. A trial that stops as solved must have
        reached the goal, and its task must report acc. Rules that give up on a trial watch its
        checks, so these must measure the goal."""
        without = [task for task, metrics in self.metrics() if "acc" not in metrics]
        at_lengths = lengths.columns(self.lengths)
        for point in (point for block in stops for point in block.points):
            for rule in ("plateau", "asha") if goal.metric in at_lengths else ():
                if getattr(point.value, rule) is not None:
                    message = f"it watches the checks, which do not measure {goal.metric}"
                    self.refuse(point.written[rule], f"{message}; leave {rule} out")
            success, keys = point.value.success, point.written["success"]
            if success is None:
                continue
            if goal.metric == "acc" and ">" in goal.comparison and not goal.met(success):
                self.refuse(keys, f"{success} does not reach the goal {goal}; raise it above")
            if without:
                self.refuse(keys, f"an accuracy, which {without[0]} does not report; leave it out")

    def check_loop_stop(self, goal: Goal, stops: Sequence[Block]) -> None:
        """Refuses the rules that can't stop a loop, since sweepd knows only its rows."""
        why = {
            "success": "nothing confirms the row of a loop, and the best of many flatters",
            "tokens": "nobody counts the tokens of a loop",
            "flops": "a loop says itself how long it runs: give it a field `steps`",
        }
        for point in (point for block in stops for point in block.points):
            for rule, reason in why.items():
                if getattr(point.value, rule) is not None:
                    self.refuse(point.written[rule], f"{reason}; leave {rule} out")

    def seeds(self) -> tuple[tuple[int, ...], int]:
        """Returns the seeds, and how many of them every cell gets."""
        raw = self.raw.get("seeds")
        if isinstance(raw, dict):
            block = read_block(self.document, Seeds, raw, ("seeds",))
            if block is None:
                return (), 0
            if len(block.points) > 1:
                self.refuse(("seeds",), "one start and one max are needed; these are no axes")
            seeds = block.points[0].value
            return tuple(range(seeds.max)), seeds.start
        choices = self.listed("seeds", "[0, 1, 2]")
        for choice in choices:
            if choice.value < 0:
                self.refuse(choice.keys, f"{choice.value}: a seed must not be negative")
        return tuple(choice.value for choice in choices), len(choices)

    def search(
        self, named: str | Searches | None, blocks: Blocks, tune: Sequence[str]
    ) -> Literal["grid"] | Staircase:
        """Returns the search. Every task with every model must have its axes, as numbers."""
        if named == "grid" or named is None or self.document.problems:
            return "grid"
        rules = (isinstance(named, Searches) and named.staircase) or Staircase()
        where = ("search", "staircase") if isinstance(named, Searches) else ("search",)
        nuisance = [name.rpartition(".")[2] for name in tune]
        for word, axis in (("minimize", rules.minimize), ("along", rules.along)):
            if (word, axis) == ("along", "size"):
                continue
            problem = "it is tuned, so no part of the answer" if axis in nuisance else None
            problem = problem or self.no_number(axis, blocks)
            if problem:
                hint = (
                    f"; write {self.minimizing(blocks, nuisance)}" if named == "staircase" else ""
                )
                self.refuse((*where, word), f"{axis}: {problem}{hint}")
        return rules

    def check_settle(
        self,
        settle: Settle,
        blocks: Blocks,
        first_seeds: int,
        search: Literal["grid"] | Staircase,
        tune: Sequence[str],
    ) -> None:
        """Refuses what cannot be trained for longer, and what would decide nothing."""
        minimized = Staircase().minimize
        told = bool(self.document.problems)  # the axis may be a field that could not be read
        if search == "grid" and not told and (problem := self.no_number(minimized, blocks)):
            message = f"settle trains what the least {minimized} hangs on, and {minimized} is"
            hint = f"write {self.minimizing(blocks, tune)}, or `settle: off`"
            self.refuse(("settle",), f"{message} {problem}; {hint}")
        if first_seeds < LEAST_SEEDS:
            message = f"settle needs at least {LEAST_SEEDS} seeds, since one may be stuck or lucky"
            self.refuse(("seeds",), f"{message}; write `seeds: [0, 1, 2]`, or `settle: off`")
        trains = [point for block in blocks["train"] for point in block.points]
        for point in trains:
            if not point.value.extensible:
                self.refuse(
                    point.written["schedule"],
                    f"{point.value.schedule}: a run of this schedule cannot be trained for "
                    "longer, which settle does; write wsd or constant, or `settle: off`",
                )
        for block in blocks["loop"]:
            trains += block.points
            if "steps" not in block.axes:
                message = f"{block.name} has no field `steps`, its budget, which settle raises"
                self.refuse(block.keys, f"{message}; give it one, or write `settle: off`")
                return
        steps = {point.value.steps: point for point in trains}
        for number, point in list(steps.items())[1:]:
            message = f"{number}: settle makes longer budgets by itself; write one number of steps"
            self.refuse(point.written["steps"], message)
        if steps and settle.most < 2 * min(steps):
            message = f"most = {settle.most} leaves no budget of twice the {min(steps)} steps"
            of = "loop.steps" if self.of_loop else "train.steps"
            self.refuse(("settle",), f"{message} of {of}; raise it")
        for point in (point for block in blocks["stop"] for point in block.points):
            for rule in ("tokens", "seconds", "flops", "plateau", "asha"):
                if getattr(point.value, rule) is not None:
                    message = f"stop.{rule} ends runs that settle trains for longer"
                    self.refuse(point.written[rule], f"{message}; leave one of them out")

    def no_number(self, axis: str, blocks: Blocks) -> str | None:
        """Returns why an axis can't be searched, or None. It has to be a field, with numbers as its
        values, of every task, of every model or of the settings."""
        for kind, found in blocks.items():
            having = [block for block in found if axis in block.axes]
            for block in having:
                for value in block.axes[axis]:
                    if isinstance(value, bool) or not isinstance(value, int | float):
                        return f"{shown(plain(value))} of {block.name or kind} is no number"
            if lacking := [block.name for block in found if axis not in block.axes]:
                if having:
                    return f"{lacking[0]} has no such field, so one answer can't hold both"
            elif having:
                return None
        known = {name for found in blocks.values() for block in found for name in block.axes}
        return f"no field of this grid{closest(axis, sorted(known))}"

    def minimizing(self, blocks: Blocks, nuisance: Collection[str]) -> str:
        """Returns how to write a staircase on the first axis of this grid that can be searched."""
        all_blocks = [block for found in blocks.values() for block in found]
        sizes = {getattr(block.kind, "size_field", None) for block in all_blocks}
        axes = (
            name
            for block in all_blocks
            for name, values in block.axes.items()
            if len(values) > 1
            and name not in sizes
            and name not in nuisance
            and not self.no_number(name, blocks)
        )
        return f"search: {{staircase: {{minimize: {next(axes, '…')}}}}}"

    def tune(self) -> tuple[str, ...]:
        choices = self.listed("tune", "[train.lr]")
        fields = [
            f"{kind}.{name}"
            for kind, found in self.kinds.items()
            for cls in found.values()
            for name in parameters(cls)
        ]
        broken = {problem.keys[0] for problem in self.document.problems if problem.keys}
        for choice in choices:
            kind, _, rest = choice.value.partition(".")
            if kind == "stop" and choice.value in fields:
                self.refuse(choice.keys, f"{choice.value}: what ends a trial is no nuisance axis")
                continue
            if choice.value in fields or (kind in FINDERS and kind in broken):
                continue
            whole = f"{kind}.{rest.partition('.')[0]}"
            hint = f"; write {whole}" if whole in fields else closest(choice.value, fields)
            self.refuse(choice.keys, f"{choice.value} is no field of this grid{hint}")
        return tuple(choice.value for choice in choices)

    def read_lengths(self) -> tuple[float, ...]:
        choices = self.listed(lengths.KEY, "[1.5, 2]")
        for choice in choices:
            if message := lengths.fault(choice.value):
                self.refuse(choice.keys, message)
        return tuple(sorted(choice.value for choice in choices))

    def listed(self, key: str, example: str) -> list[Point]:
        """Returns the values of a key that takes a list."""
        default = KEYS[key].default
        raw = self.raw.get(key, [])
        if key not in self.raw or (raw == [] and not default):
            return [Point(value, (key,)) for value in default]
        if not isinstance(raw, list):
            self.refuse((key,), f"{shown(raw)}: write a list, such as {example}")
            return []
        return read_choices(self.document, KEYS[key].type, raw, (key,))
