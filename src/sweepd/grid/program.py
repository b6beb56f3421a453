"""A program as the training of a grid (`loop: {program: python train.py --width {width}, …}`): what
its block says, how it is read, and the arguments that a trial gives it.

A program stands where a class of a loop does. Its block as written, without its name in results
and without its axes, is the text that says where it is (`Program.where`).
"""

from __future__ import annotations

import ast
import dataclasses
import json
import keyword
import operator
import shlex
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from string import Formatter
from typing import Any

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid import metrics
from sweepd.grid.axes import TextNone, has_keys, scalar
from sweepd.grid.fingerprint import LOCKS, OF_THE_GRID, PROGRAM, stated_versions, trial_code
from sweepd.grid.metrics import Better
from sweepd.grid.registry import Parameter
from sweepd.grid.yamlfile import Document, Keys, shown

KEYS = {
    "program": Parameter(str),
    "as": Parameter(str),
    "task": Parameter(str),
    "size": Parameter(str, None),
    "metrics": Parameter(dict),
    "files": Parameter(str, ()),
    "keep": Parameter(str, ()),
    "in_place": Parameter(bool, False),
}
"""The keys of a program's block that are none of its fields."""
GIVEN = ("seed", "dir", "cpus", "gpus")
"""What a command may name besides fields: what each trial is given."""
COSTS = ("params", "flops", "train_flops")
"""The costs that a loop's `cost()` may state. Derived values of these names are those of a program,
which need not see them."""
OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
LARGEST_POWER = 64
"""The largest exponent of a derived value. Without a limit, a slip of the pen could take hours."""
Value = int | float | str | bool | None
"""A value of a field."""

NEEDED = {
    "size": "it names the field that makes the task harder, as `size: n`; rename a field of yours"
}
"""What a key of a program needs where that is more than a text."""


class Program:
    """A command with the names of fields in braces, and what is known of it. where: its block as
    JSON, without its name in results and its axes. Raises ValueError for a command that no shell
    could split."""

    def __init__(self, where: str) -> None:
        block = json.loads(where)
        self.where = where
        self.command: str = block["program"]
        self.words = shlex.split(self.command)
        self.task: str = block["task"]
        self.size: str | None = block.get("size")
        self.metrics: dict[str, Better] = block["metrics"]
        self.keep: list[str] | None = block.get("keep")
        """The patterns of the files that are kept; None for small ones."""
        self.in_place: bool = block.get("in_place", False)
        """Whether it runs in the grid's folder itself."""
        self.derived = {name: text[1:-1] for name, text in block.items() if name not in KEYS}

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The names in the braces of the command. Raises ValueError for what is no name."""
        found: dict[str, None] = {}
        for word in self.words:
            try:
                for _, name, spec, conversion in Formatter().parse(word):
                    if name is not None:
                        if spec or conversion or not name.isidentifier():
                            raise ValueError
                        found[name] = None
            except ValueError:  # also for half a pair of braces, as in the words of `{4 * width}`
                raise ValueError(
                    f"{shown(word)}: in braces stands the name of a field; a derived value is a "
                    'field of its own, such as `ffn: "{4 * width}"`, and a brace itself is written '
                    "twice"
                ) from None
        return tuple(found)

    @property
    def continues(self) -> bool:
        """Whether a longer run may go on from the folder of a shorter one, as far as the command
        tells: the program is told of the folder and of its steps."""
        return {"dir", "steps"} <= {*self.named}

    def values(self, fields: Mapping[str, Value]) -> dict[str, Value]:
        """Returns the fields of a point with what is derived from them. Raises ValueError."""
        found = dict(fields)
        for name, text in self.derived.items():
            try:
                found[name] = computed(text, fields)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return found

    def arguments(self, fields: Mapping[str, Value], given: Mapping[str, Value]) -> list[str]:
        """Returns the words of the command for one trial. A word that is nothing but a field whose
        value is null is left out."""
        values = {**self.values(fields), **given}
        # A value is written as JSON would write it, and a text as it is.
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in values.items()}
        return [
            "".join(
                literal + ("" if name is None else texts[name])
                for literal, name, _, _ in Formatter().parse(word)
            )
            for word in self.words
            if not (word[:1] == "{" and word[-1:] == "}" and values.get(word[1:-1], "") is None)
        ]


def computed(text: str, fields: Mapping[str, Value]) -> int | float:
    """Returns a derived value. Raises ValueError for what is no arithmetic with a finite result."""

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Expression(body=body):
                return value(body)
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return number
            case ast.Name(id=field):
                if field not in fields:
                    raise ValueError(f"{field} is no field{closest(field, fields)}")
                if isinstance(found := fields[field], bool | str | None):
                    raise ValueError(f"{field} = {shown(found)} is no number")
                return found
            case ast.UnaryOp(op=ast.USub() as sign, operand=operand):
                return OPERATORS[type(sign)](value(operand))
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
                one, other = value(left), value(right)
                if isinstance(sign, ast.Pow) and abs(other) > LARGEST_POWER:
                    raise ValueError(f"a power of {other} is too large")
                return OPERATORS[type(sign)](one, other)
        raise ValueError(
            f"{text!r} is no arithmetic over fields: numbers, fields, + - * / // % ** and "
            "parentheses"
        )

    try:
        return scalar(int | float, value(ast.parse(text.strip(), mode="eval")))  # type: ignore[no-any-return]
    except (SyntaxError, RecursionError):
        raise ValueError(f"{text!r} is no arithmetic over fields") from None
    except (ArithmeticError, TypeError) as error:
        raise ValueError(f"{text} has no value: {error}") from None


def class_of(program: Program, fields: Collection[str]) -> type:
    """Returns the class that takes the place of a loop's class in a grid, with these fields."""

    def check(self: Any) -> None:
        program.values({name: getattr(self, name) for name in fields})

    def cost(self: Any) -> dict[str, Value]:
        values = program.values({name: getattr(self, name) for name in fields})
        return {name: values[name] for name in COSTS if name in values}

    about: dict[str, Any] = {
        "program": program,
        "task": program.task,
        "metrics": program.metrics,
        "size_field": program.size or "size",
        "continues": program.continues,
        "cost": cost,
        "__post_init__": check,
    }
    if not program.size:
        about["size"] = 1
    return dataclasses.make_dataclass(
        "Program", [(name, Value | TextNone) for name in fields], frozen=True, namespace=about
    )


def read_program(
    document: Document, raw: dict[str, Any], keys: Keys, base: Path, *, seeds: int
) -> tuple[str, type, dict[str, Any]] | None:
    """Returns where a program is, its class and the axes of its block, or None if the block has
    problems, which the document then holds. seeds: how many seeds its trials have."""
    before = len(document.problems)

    def refuse(key: str, message: str) -> None:
        document.refuse((*keys, key) if key in raw else keys, message)

    has_keys(document, KEYS, {k: v for k, v in raw.items() if k in KEYS}, keys, "a program")
    for name, message in _misread(raw):
        refuse(name, message)
    if len(document.problems) > before:
        return None
    about = {name: raw[name] for name in KEYS if name in raw and name != "as"}
    about["metrics"] = metrics.directions(raw["metrics"])
    own = {name: value for name, value in raw.items() if name not in KEYS}
    derived = {name: value for name, value in own.items() if is_derived(value)}
    axes = {name: value for name, value in own.items() if name not in derived}
    for name, values in axes.items():  # results hold one kind of number
        if isinstance(values, list) and any(type(value) is float for value in values):
            axes[name] = [float(value) if type(value) is int else value for value in values]
    where = json.dumps({**about, **derived}, ensure_ascii=False)
    try:
        program = Program(where)
        named = program.named
    except ValueError as error:
        refuse("program", str(error))
        return None
    for name, message in _faults(own, derived, named):
        refuse(name, message)
    for name in named:
        if name not in own and name not in GIVEN:
            known = ", ".join(f"{{{one}}}" for one in (*own, *GIVEN))
            near = closest(name, [*own, *GIVEN])
            refuse("program", f"{{{name}}} names no field{near}; there are {known}")
    if program.size and program.size not in axes:
        known = ", ".join(axes)
        refuse("size", f"{program.size} is no field{closest(program.size, axes)}; it has {known}")
    if seeds > 1 and "seed" not in named:
        refuse("program", f"{seeds} seeds, which the program never sees: write {{seed}}")
    try:
        code = trial_code([("loop", where)], base)
        if "files" not in raw and {*code.files} <= {OF_THE_GRID, *LOCKS, *stated_versions(PROGRAM)}:
            refuse(
                "program",
                f"{shown(program.command)}: none of its files is known, so an edit would go "
                "unnoticed; write `files:` with what its result depends on, or `files: []`",
            )
    except (FileNotFoundError, UserError) as error:
        refuse("files", str(error))
    return (where, class_of(program, axes), axes) if len(document.problems) == before else None


def _misread(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the keys of a program's block whose values cannot be read, each with what is wrong."""
    for name in ("program", "as", "task", "size"):
        if name in raw and not (isinstance(raw[name], str) and raw[name].strip()):
            yield name, f"{shown(raw[name])}: {NEEDED.get(name, 'one text is needed')}"
    if "metrics" in raw and (wrong := metrics.fault(raw["metrics"])):
        yield "metrics", f"a program {wrong}"
    for name, example in (("files", "[train.py, model/]"), ("keep", "[pred-*.csv, outputs/]")):
        texts = raw.get(name, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            yield name, f"{shown(texts)}: write a list, such as {example}"
    if not isinstance(raw.get("in_place", False), bool):
        yield "in_place", f"{shown(raw['in_place'])}: write true or false"


def _faults(
    own: Mapping[str, Any], derived: Mapping[str, str], named: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yields the fields that a program cannot have, each with what is wrong."""
    for name, value in own.items():
        if (usual := unicodedata.normalize("NFKC", name)) != name:
            yield name, f"{name}: Python takes this name for {usual} (NFKC); write it so"
        elif not name.isidentifier() or keyword.iskeyword(name) or name in (*GIVEN, "cost"):
            yield name, f"{name}: no field can be called so; rename it"
        elif name in COSTS and name not in derived:
            yield name, f'{name} is a cost; derive it, as `{name}: "{{12 * width ** 2}}"`'
        elif isinstance(value, list) and any(map(is_derived, value)):
            yield name, "a derived value is no axis; write a field for each"
    # The program has to see each field, or what is derived from it.
    seen = {*named, *COSTS}
    for name in derived.keys() & seen:
        with suppress(SyntaxError):  # refused where its value is computed
            tree = ast.parse(derived[name][1:-1].strip(), mode="eval")
            seen |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name in (one for one in own if one not in seen):
        near = closest(name, [one for one in named if one not in own and one not in GIVEN])
        hint = f"write {{{name}}} in its command, or leave it out"
        yield name, f"the program never sees {name}{near}: {hint}"


def is_derived(value: object) -> bool:
    """Returns whether a value is derived from fields, as `"{4 * width}"` is."""
    return isinstance(value, str) and value[:1] == "{" and value[-1:] == "}"
