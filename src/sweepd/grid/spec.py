"""What the user wrote: a grid, checked as a whole before anything starts.

`load_grid` and `parse_grid` refuse everything that is wrong at once, each problem with its line and
path. `plan` refuses what only building a model can show.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SkipValidation,
    ValidationError,
    WithJsonSchema,
    field_validator,
)

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
    misread,
    plain,
    read_block,
    read_choices,
)
from sweepd.grid.fingerprint import FOLDERS, KINDS, Kind, is_program
from sweepd.grid.metrics import Better, directions, is_share
from sweepd.grid.options import (
    CONFIRMING,
    LEAST_SEEDS,
    MOST_TRIALS,
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
from sweepd.grid.yamlfile import (
    Document,
    GridError,
    Keys,
    dump,
    override,
    parse,
    read,
    refuse_invalid,
    shown,
)
from sweepd.limits import NAME, text_in_column

MOST_RETRIES = 900
"""The largest `retries`. The tries of one launch have to fit into `store.launches.TRIES`."""
ALIAS = r"[A-Za-z_][A-Za-z0-9._-]{0,99}"

SETTINGS: dict[str, type] = {"train": Train, "evaluate": Evaluate, "stop": Stop}
Blocks = dict[str, tuple[Block, ...]]


def _name(name: str) -> str:
    if not re.fullmatch(NAME, name):
        raise ValueError(
            "a sweep's name has up to 100 letters, digits, '.', '_' and '-', the first no dot; "
            "write `name: …`"
        )
    return name


def _factor(factor: float) -> float:
    if float(f"{factor:g}") != factor:
        raise ValueError("a factor has at most six digits, for it becomes part of a column's name")
    return factor


def _distinct(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{shown(value)} is listed twice; keep one")
    return values


def _in_full(search: Literal["grid", "staircase"] | Searches) -> Literal["grid"] | Searches:
    """Returns a search with its settings, where it has any."""
    if search == "grid":
        return search
    rules = search.staircase if isinstance(search, Searches) else None
    return Searches(rules or Staircase())


def _refuse_misread(raw: Any, value: Any, what: str = "") -> None:
    """Raises ValueError where a part of a value isn't what stands in the file."""
    if isinstance(raw, dict):
        for key, part in raw.items():
            _refuse_misread(part, getattr(value, key, part), f"{key} = {shown(part)}: ")
    elif isinstance(raw, list):
        for part, found in zip(raw, value, strict=True):
            _refuse_misread(part, found, f"{shown(part)}: ")
    elif message := misread(raw, value):
        raise ValueError(f"{what}{message}")


T = TypeVar("T")
UNIQUE = Field(json_schema_extra={"uniqueItems": True})
Distinct = Annotated[tuple[T, ...], AfterValidator(_distinct), UNIQUE]
SeedList = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_distinct), UNIQUE
]
Factor = Annotated[float, Field(gt=1, le=lengths.MOST), AfterValidator(_factor)]
Name = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"pattern": f"^{NAME}$"})]
Seconds = Annotated[float, Field(ge=0)]


class Options(BaseModel):
    """Every key of a grid besides its blocks: its type, its default, and how it is written out."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: Name = ""
    """The name of the sweep; where a grid gives none, that of its file."""
    goal: Annotated[
        Goal,
        BeforeValidator(Goal.parse),
        PlainSerializer(str),
        WithJsonSchema({"type": "string", "default": "acc > 0.9"}),
    ] = Field(default_factory=lambda: Goal("acc", ">", 0.9))
    pass_rule: PassRule = Field("median", alias="pass")
    written_search: Annotated[Literal["grid", "staircase"] | Searches, AfterValidator(_in_full)] = (
        Field("grid", alias="search")
    )
    written_settle: Literal["off"] | Settle = Field("off", alias="settle")
    resources: Literal["auto"] | Resources = "auto"
    retries: Annotated[int, Field(ge=0, le=MOST_RETRIES)] = 1
    """The number of times that a failed trial is tried again."""
    checkpoint_seconds: Seconds = 30.0
    """The seconds that a trial trains between two checkpoints."""
    hang_seconds: Seconds = 600.0
    """The seconds that a trial may go without a step before it is killed; 0 means for ever."""
    written_seeds: SeedList | Seeds = Field((0,), alias="seeds")
    tune: Distinct[str] = ()
    """The nuisance axes, such as `train.lr`."""
    log_to: Distinct[TrackerName] = ()
    """The trackers that are told of the trials while these run."""
    lengths: Annotated[Distinct[Factor], AfterValidator(sorted), AfterValidator(tuple)] = ()
    """The multiples of their tasks' lengths at which models are also scored, in rising order."""

    @field_validator("*", mode="wrap")
    @classmethod
    def _as_written(cls, raw: Any, handler: Callable[[Any], Any]) -> Any:
        """To pydantic true is a number, and `yes` is true."""
        value = handler(raw)
        _refuse_misread(raw, value)
        return value

    @property
    def search(self) -> Literal["grid"] | Staircase:
        found = self.written_search
        return (found.staircase if isinstance(found, Searches) else None) or "grid"

    @property
    def settle(self) -> Settle | None:
        """How long the cells that decide an answer are trained; None: no longer than others."""
        return self.written_settle if isinstance(self.written_settle, Settle) else None

    @property
    def seeds(self) -> tuple[int, ...]:
        found = self.written_seeds
        return tuple(range(found.max)) if isinstance(found, Seeds) else found

    @property
    def first_seeds(self) -> int:
        """The number of seeds that every cell gets. The other seeds are for close calls."""
        found = self.written_seeds
        return found.start if isinstance(found, Seeds) else len(found)

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


OPTIONS = tuple(field.alias or name for name, field in Options.model_fields.items())
OPTIONAL = Parameter(Any, None)
KEYS: Fields = {
    "task": Parameter(dict),
    "model": Parameter(dict),
    **dict.fromkeys(("loop", *SETTINGS, *OPTIONS), OPTIONAL),
}
LOOP_KEYS: Fields = {
    "loop": Parameter(dict),
    **{key: OPTIONAL for key in ("stop", *OPTIONS) if key != lengths.KEY},
}
"""The keys of a grid with a user's loop, which replaces task, model, train and evaluate."""


NO_LOOP_RULES = {
    "success": "nothing confirms the row of a loop, and the best of many flatters",
    "tokens": "nobody counts the tokens of a loop",
    "flops": "a loop says itself how long it runs: give it a field `steps`",
}
"""The rules that can't stop a loop, since sweepd knows only its rows."""


class Grid(Options):
    """A checked grid. Blocks of one kind sweep side by side; kinds and seeds multiply."""

    blocks: Annotated[Blocks, SkipValidation]
    """The blocks by kind: task, model, loop, train, evaluate, stop."""
    base: Path
    """The absolute path of the folder from which the paths of a user's tasks and models start."""
    document: Annotated[Document, SkipValidation] = Field(repr=False)

    def points(self, kind: str) -> tuple[Point, ...]:
        """Returns the points of all blocks of one kind."""
        return tuple(point for block in self.blocks[kind] for point in block.points)

    def resolved_text(self) -> str:
        """Returns the grid as YAML with defaults and overrides written out. Read again, with the
        same `base`, it is the same grid."""
        options = self.model_dump(mode="json", by_alias=True, include={*Options.model_fields})
        if not self.lengths:
            del options[lengths.KEY]
        blocks = {kind: [one.plain() for one in of] for kind, of in self.blocks.items() if of}
        return dump(
            {
                "name": options.pop("name"),
                **{kind: found[0] if len(found) == 1 else found for kind, found in blocks.items()},
                **options,
            }
        )


def load_grid(path: Path, sets: Sequence[str] = ()) -> Grid:
    """Returns the grid of a file with `--set` options (`path=value`). Raises GridError."""
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
    shipped = {"task": registry.shipped("task"), "model": registry.shipped("model")}
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
    options = Options.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **options,
        "title": "A sweepd grid",
        "properties": several | options["properties"],
        "oneOf": [
            {"required": ["task", "model"], "properties": {"loop": False}},
            {"required": ["loop"], "properties": {k: False for k in KEYS if k not in LOOP_KEYS}},
        ],
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
        # Trials are counted before anything is expanded.
        seeds = self.raw.get("seeds")
        many = seeds.get("max") if isinstance(seeds, dict) else count(seeds)
        trials = math.prod(count(self.raw.get(key)) for key in (*KINDS, *SETTINGS))
        trials *= many if isinstance(many, int) else 1
        if trials > MOST_TRIALS:
            self.refuse((), f"{trials:,} trials are more than {MOST_TRIALS:,}; split the grid")
            raise GridError(self.document.problems)
        blocks = {kind: self.blocks(kind) for kind in (*KINDS, *SETTINGS)}
        self.refuse_same_in_results(blocks)
        # Options with problems give way to their defaults, so that the others are looked at too.
        raw: dict[str, Any] = {"name": Path(self.document.source).stem}
        raw |= {key: self.raw[key] for key in OPTIONS if key in self.raw}
        around = {"blocks": blocks, "base": self.base, "document": self.document}
        broken: set[str | int] = set()
        try:
            grid = Grid.model_validate(raw | around)
        except ValidationError as error:
            refuse_invalid(self.document, error, Options)
            broken = {one["loc"][0] for one in error.errors()}
            whole = {key: value for key, value in raw.items() if key not in broken}
            grid = Grid.model_validate(whole | around)
        if not broken & {"goal", lengths.KEY}:
            self.check_goal(grid)
            if self.of_loop:
                self.refuse_rules(grid, NO_LOOP_RULES)
            else:
                self.check_stop(grid)
        self.check_tune(grid)
        self.check_search(grid)
        if grid.settle:
            self.check_settle(grid, grid.settle, seeds_known="seeds" not in broken)
        if self.document.problems:
            raise GridError(self.document.problems)
        return grid

    def blocks(self, kind: str) -> tuple[Block, ...]:
        """Returns the blocks of one kind. Those with problems are left out."""
        if kind not in self.raw and (kind in KINDS or (self.of_loop and kind not in LOOP_KEYS)):
            return ()
        raw = self.raw.get(kind)
        if raw is None and kind in SETTINGS:  # absent, or `stop:` with nothing below it
            raw = {}
        if raw == []:
            self.refuse((kind,), "an empty list; give it at least one block")
        found: list[Block | None] = []
        for i, item in enumerate(raw if isinstance(raw, list) else [raw]):
            keys: Keys = (kind, i) if isinstance(raw, list) else (kind,)
            if kind in KINDS:
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

    def named(self, kind: Kind, raw: Any, keys: Keys) -> list[Block | None]:
        """Returns a block for each name of a block of classes, or None for one with problems."""
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
                cls = registry.find(kind, where, self.base)
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
        if any(unread[: len(keys)] == keys for unread in self.document.unread):
            return None  # it has a value that is refused already
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

    def check_goal(self, grid: Grid) -> None:
        """Refuses a goal that no task or loop can have."""
        goal, metric = grid.goal, grid.goal.metric
        for name, metrics in self.metrics(grid):
            if metric not in metrics:
                near, known = closest(metric, metrics), ", ".join(metrics)
                self.refuse(("goal",), f"{name} reports no {metric}{near}; it reports {known}")
            elif metrics[metric] != goal.asks_for:
                more, wanted = ("more", ">") if metrics[metric] == "up" else ("less", "<")
                told = f"for {name}, {more} {metric} is better"
                self.refuse(("goal",), f"{told}; write {metric} {wanted} {goal.threshold:g}")
        share = is_share(metric) or metric in lengths.scores({"acc": "up"}, grid.lengths)
        if not math.isfinite(goal.threshold) or (share and not 0 <= goal.threshold <= 1):
            wanted = "a share from 0 to 1" if share else "a finite number"
            self.refuse(("goal",), f"{goal.threshold:g}: must be {wanted}")

    def metrics(self, grid: Grid) -> Iterator[tuple[str, dict[str, Better]]]:
        """Yields each loop or task by name, with what it reports. A task's settings decide what it
        reports, so it may come several times. Where its settings are broken, its class decides."""

        def reported(by: Any) -> dict[str, Better]:
            own = directions(by.metrics)
            return own | lengths.scores(own, grid.lengths)

        settled = {block.name for block in grid.blocks["task"]}
        for name, cls in (*self.kinds.get("loop", {}).items(), *self.kinds.get("task", {}).items()):
            if name not in settled:
                yield name, reported(cls)
        for block in grid.blocks["task"]:
            found = [reported(point.value) for point in block.points]
            yield from ((block.name, one) for i, one in enumerate(found) if one not in found[:i])

    def check_stop(self, grid: Grid) -> None:
        """Refuses stop rules that do not fit the goal. A trial that stops as solved has reached it,
        and its task reports acc. Rules that give up watch the checks, which must measure it."""
        goal = grid.goal
        if goal.metric in lengths.columns(grid.lengths):
            why = f"it watches the checks, which do not measure {goal.metric}"
            self.refuse_rules(grid, {"plateau": why, "asha": why})
        without = [task for task, metrics in self.metrics(grid) if "acc" not in metrics]
        if without:
            message = f"an accuracy, which {without[0]} does not report"
            self.refuse_rules(grid, {"success": message})
        for point in grid.points("stop"):
            mark = point.value.success
            if mark and goal.metric == "acc" and ">" in goal.comparison and not goal.met(mark):
                message = f"{mark} does not reach the goal {goal}; raise it above"
                self.refuse(point.written["success"], message)

    def refuse_rules(self, grid: Grid, why: Mapping[str, str]) -> None:
        """Refuses each of these rules of `stop`, where it is on. why: the reasons by rule."""
        for point in grid.points("stop"):
            for rule, reason in why.items():
                if getattr(point.value, rule) is not None:
                    self.refuse(point.written[rule], f"{reason}; leave {rule} out")

    def check_search(self, grid: Grid) -> None:
        """Refuses a staircase on axes that not every task with every model has, as numbers."""
        rules, raw = grid.search, self.raw.get("search")
        if rules == "grid" or self.document.problems:
            return
        where = ("search", "staircase") if isinstance(raw, dict) else ("search",)
        nuisance = [name.rpartition(".")[2] for name in grid.tune]
        for word, axis in (("minimize", rules.minimize), ("along", rules.along)):
            if (word, axis) == ("along", "size"):
                continue
            problem = "it is tuned, so no part of the answer" if axis in nuisance else None
            if problem := problem or self.no_number(axis, grid.blocks):
                hint = f"; write {self.minimizing(grid.blocks, nuisance)}" * (raw == "staircase")
                self.refuse((*where, word), f"{axis}: {problem}{hint}")

    def check_settle(self, grid: Grid, settle: Settle, *, seeds_known: bool) -> None:
        """Refuses what cannot be trained for longer, and what would decide nothing."""
        minimized = Staircase().minimize
        told = bool(self.document.problems)  # the axis may be a field that could not be read
        if (
            grid.search == "grid"
            and not told
            and (problem := self.no_number(minimized, grid.blocks))
        ):
            message = f"settle trains what the least {minimized} hangs on, and {minimized} is"
            hint = f"write {self.minimizing(grid.blocks, grid.tune)}, or `settle: off`"
            self.refuse(("settle",), f"{message} {problem}; {hint}")
        if seeds_known and grid.first_seeds < LEAST_SEEDS:
            message = f"settle needs at least {LEAST_SEEDS} seeds, since one may be stuck or lucky"
            self.refuse(("seeds",), f"{message}; write `seeds: [0, 1, 2]`, or `settle: off`")
        trains = [*grid.points("train")]
        for point in trains:
            if not point.value.extensible:
                self.refuse(
                    point.written["schedule"],
                    f"{point.value.schedule}: a run of this schedule cannot be trained for "
                    "longer, which settle does; write wsd or constant, or `settle: off`",
                )
        for block in grid.blocks["loop"]:
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
        ends = ("tokens", "seconds", "flops", "plateau", "asha")
        why = "it ends runs that settle trains for longer (or write `settle: off`)"
        self.refuse_rules(grid, dict.fromkeys(ends, why))

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

    def check_tune(self, grid: Grid) -> None:
        """Refuses nuisance axes that are no fields of the grid."""
        fields = [
            f"{kind}.{name}"
            for kind, found in self.kinds.items()
            for cls in found.values()
            for name in parameters(cls)
        ]
        broken = {problem.keys[0] for problem in self.document.problems if problem.keys}
        for i, name in enumerate(grid.tune):
            kind, _, rest = name.partition(".")
            if kind == "stop" and name in fields:
                self.refuse(("tune", i), f"{name}: what ends a trial is no nuisance axis")
            elif name not in fields and not (kind in KINDS and kind in broken):
                whole = f"{kind}.{rest.partition('.')[0]}"
                hint = f"; write {whole}" if whole in fields else closest(name, fields)
                self.refuse(("tune", i), f"{name} is no field of this grid{hint}")
