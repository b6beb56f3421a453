"""Tasks, models and loops, found by where their class is. Ours go by their file's name. A user's
goes by `path/to/file.py:Name` (relative to the grid's folder) or `package.module:Name`.

Finding one imports that one file. Nothing heavy is imported before.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
import inspect
import os
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid import fingerprint, metrics
from sweepd.grid.fingerprint import Kind
from sweepd.grid.user_files import USERS, module_of, own_classes, place_of_definition

REQUIRED: Any = object()
SCALARS = (int, float, str, bool, types.NoneType)
NEUTRAL = "neutral"
"""The key of a field's metadata with the value at which the field changes nothing. A field that
comes later declares it, as `field(default=0.0, metadata={"neutral": 0.0})`: at this value it leaves
no trace in an identity, so the trials from before the field stay what they were."""
GIVEN = {
    "task": "what it learns, such as `task = 'digits'`",
    "size_field": "the name of the field that makes its problem larger",
    "metrics": "what it reports, such as `metrics = {'acc': 'up'}`",
    "start": "`start(self, seed, device)`, which returns what trains",
}
"""The attributes that a loop's class must have besides its fields, with what each is for."""
BASES: dict[Kind, str] = {
    "task": "is no task: write `from sweepd.tasks.base import RowTask` (or ChainTask), and derive "
    "it from that, as `class Mine(RowTask):` (docs/own.md)",
    "model": "is no model: write `from sweepd.models.base import Architecture`, derive it from "
    "that, as `class Mine(Architecture):`, and return the torch module from `build` (docs/own.md)",
}
"""What is said of a class that lacks the base class of its kind."""
NO_FIELDS = ("size_field", "vocab", "metrics")
"""What a class states about itself. It must be no field, since no grid sets it."""


@dataclass(frozen=True)
class Parameter:
    """A field of a task, a model or a settings block. `default` is REQUIRED if it has none."""

    type: Any
    default: Any = REQUIRED


@dataclass(frozen=True)
class Entry:
    """What there is to know of a task or model. summary: the first line of its docstring. family:
    what its docstring gives as `Family:`."""

    name: str
    summary: str
    family: str
    parameters: dict[str, Parameter]
    source: Path


def kind_of(name: str, base: Path) -> Kind:
    """Returns the kind of a class by its name. Raises UserError if it has none, or is not there."""
    if not is_own(name):
        for kind in fingerprint.FOLDERS:
            if name in _shipped(kind):
                return kind
        known = [*_shipped("task"), *_shipped("model")]
        raise UserError(
            f"no task and no model is named {name}{closest(name, known)}; "
            "name your own as path/to/file.py:Name"
        )
    try:
        path = fingerprint.source("task", name, base)
    except FileNotFoundError:
        raise _unknown("task", name, base) from None
    where, _, class_name = name.rpartition(":")
    module = module_of(where, path)
    found = getattr(module, class_name, None)
    for kind in fingerprint.FOLDERS:
        if isinstance(found, type) and issubclass(found, _root(kind)):
            return kind
    if found is None:
        has = own_classes(module, object)
        raise UserError(f"{path} has no class named {class_name}; it has {has}")
    if hasattr(found, "start"):
        return "loop"
    raise UserError(
        f"{place_of_definition(found) or path}: {class_name} is neither a task nor a model nor a "
        "training loop; derive a task from ChainTask or RowTask of sweepd.tasks.base, and a model "
        "from Architecture of sweepd.models.base, whose `build` returns the torch module; a loop "
        "has `start(self, seed, device)` (docs/own.md)"
    )


def is_own(where: str) -> bool:
    """Returns whether a class is a user's own, by how a grid writes it."""
    return ":" in where


def result_name(where: str, base: Path) -> str:
    """Returns what results call a class that has no alias. It is part of the identity of its
    trials. A user's file goes by its path relative to the grid's folder, however the grid writes
    it. So two files are told apart, and a folder may be moved."""
    path, _, name = where.rpartition(":")
    if not path.endswith(".py"):
        return where
    return f"{Path(os.path.relpath(base / path, base)).as_posix()}:{name}"


def shipped(kind: Kind) -> list[Entry]:
    """Returns the tasks, or the models, that come with sweepd, sorted by name."""
    return [entry(name, find(kind, name, Path())) for name in _shipped(kind)]


def entry(name: str, found: type) -> Entry:
    """Returns the description of a class that was found under `name`."""
    text = inspect.getdoc(found) or ""
    family = re.search(r"(?m)^Family: (.+)$", text)
    return Entry(
        name,
        text.partition("\n")[0],
        family[1] if family else "",
        parameters(found),
        Path(inspect.getfile(found)),
    )


_held: dict[tuple[Kind, str, Path], type] = {}
"""The classes that this process keeps as they are. Their files are not read again."""


def hold(kind: Kind, name: str, base: Path) -> None:
    """Finds a class, and makes this process keep it as it is now, whatever becomes of its file.
    Raises UserError as `find` does."""
    _held[kind, name, base] = find(kind, name, base)


def find(kind: Kind, name: str, base: Path) -> Any:
    """Returns the class of a task, a model or a loop. Raises UserError if none can be used."""
    if held := _held.get((kind, name, base)):
        return held
    try:
        path = fingerprint.source(kind, name, base)
    except FileNotFoundError:
        raise _unknown(kind, name, base) from None
    where, colon, class_name = name.rpartition(":")
    if not colon:
        found = _shipped_class(kind, name)
        if found is None:
            raise _unknown(kind, name, base)
        return found
    module = module_of(where, path)
    found = getattr(module, class_name, None)
    root = _root(kind)
    if isinstance(found, type) and not issubclass(found, root):
        raise UserError(f"{place_of_definition(found) or path}: {class_name} {BASES[kind]}")
    if not isinstance(found, type):
        wanted = "" if root is object else f" (a subclass of sweepd.{kind}s.base.{root.__name__})"
        raise UserError(
            f"{path} has no {kind} named {class_name}{wanted}: {own_classes(module, root)}"
        )
    if wrong := _fault(kind, found):
        raise UserError(f"{place_of_definition(found) or path}: {class_name} {wrong}")
    return found


def _unknown(kind: Kind, name: str, base: Path) -> UserError:
    where, colon, _ = name.rpartition(":")
    if colon:
        if where.endswith(".py"):
            return UserError(f"no {kind} {name}: there is no {(base / where).absolute()}")
        file = where.replace(".", "/") + ".py"
        beside = f"write {file}:…, or " if (base / file).is_file() else ""
        return UserError(
            f"no {kind} {name}: there is no module {where}; {beside}put the folder that has "
            f"{where.partition('.')[0]} into PYTHONPATH"
        )
    if kind not in fingerprint.FOLDERS:
        return UserError(
            f"no {kind} is named {name}; write path/to/file.py:Name or package.module:Name"
        )
    known = _shipped(kind)
    return UserError(
        f"no {kind} is named {name}{closest(name, known)}; there are {', '.join(known)}, "
        "and your own as path/to/file.py:Name or package.module:Name"
    )


def _shipped(kind: Kind) -> list[str]:
    names = sorted(path.stem for path in fingerprint.FOLDERS[kind].glob("[!_]*.py"))
    return [name for name in names if _shipped_class(kind, name)]


def _shipped_class(kind: Kind, name: str) -> type | None:
    """Returns the one task or model that a file of ours defines. Returns None for a file that only
    helps others."""
    module = importlib.import_module(f"sweepd.{kind}s.{name}")
    defined = [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and member.__module__ == module.__name__
        and issubclass(member, _root(kind))
        and not inspect.isabstract(member)
    ]
    assert len(defined) < 2, (
        f"{module.__name__} defines {len(defined)} {kind}s: one file, one {kind}"
    )
    return defined[0] if defined else None


def _root(kind: Kind) -> type:
    """Returns the class that a class of this kind must derive from. It is imported late, since
    NumPy, numba and torch take seconds."""
    if kind == "loop":
        return object
    if kind == "task":
        from sweepd.tasks.base import Task

        return Task
    from sweepd.models.base import Model

    return Model


def _fault(kind: Kind, found: type) -> str | None:
    """Returns why a user's class cannot be swept, or None."""
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))  # type: ignore[attr-defined]
        return f"lacks {missing}"
    if not dataclasses.is_dataclass(found) or "__dataclass_params__" not in vars(found):
        return "is no dataclass: put @dataclass(frozen=True) above it"
    if not found.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return "is a dataclass that can be changed: put @dataclass(frozen=True) above it"
    try:
        fields = parameters(found)
    except Exception as error:  # type hints are evaluated, and may be anything
        return f"has fields whose types cannot be read: {error}"
    modules = {base: f"{base.__module__}." for base in found.__mro__}
    ours = [base for base, of in modules.items() if of.startswith("sweepd.") and USERS not in of]
    for name, parameter in fields.items():
        if name == "name":
            return "has a field `name`, which a grid uses for the class; rename it"
        if name in NO_FIELDS:
            return f"gives {name} a type, which makes it a field; write `{name} = …` without one"
        for base in ours:
            if callable(vars(base).get(name)):
                method = f"{base.__name__}.{name}"
                return f"has a field {name}, which hides the method {method}; rename it"
        if not is_scalar(parameter.type):
            return (
                f"has a field {name} that is no int, float, str, bool, None or Literal of these; "
                "what is no parameter of a grid has no type, or is a property"
            )
    return None if kind == "model" else _stated_fault(kind, found, fields)


def _stated_fault(kind: Kind, found: Any, fields: Mapping[str, Parameter]) -> str | None:
    """Returns why a class with these fields can't be a task or a loop, or None."""
    if kind == "loop":
        for name, what in GIVEN.items():
            if not hasattr(found, name):
                return f"lacks `{name}`: {what}"
    elif not hasattr(found, "size_field"):
        return "lacks `size_field`, the name of the field that is its size"
    if found.size_field not in fields:
        return f"lacks the field {found.size_field!r}, which its `size_field` names"
    if kind == "loop":
        if not callable(found.start):
            return f"has a `start` that cannot be called; give it {GIVEN['start']}"
        if hasattr(found, "cost") and not callable(found.cost):
            return "has a `cost` that cannot be called; rename it, or make it a method"
        return metrics.fault(found.metrics)
    if not getattr(found, "metrics", None):
        return "lacks `metrics`, the names of what its evaluation reports"
    if wrong := metrics.fault(found.metrics):
        return wrong
    from sweepd.tasks.base import Task  # late: NumPy and numba take seconds

    own = ", ".join(metrics.own(found.metrics))
    if own and found.scores is Task.scores:
        return f"has the metric {own}, and no `scores(self, found, wanted)` that reports it"
    return None


def parameters(found: type) -> dict[str, Parameter]:
    """Returns the fields of a dataclass, in order, with their types resolved."""
    hints, fields = _types(found), {}
    for field in (one for one in dataclasses.fields(found) if one.init):
        default = REQUIRED if field.default is dataclasses.MISSING else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        fields[field.name] = Parameter(hints[field.name], default)
    return fields


@functools.cache
def _types(found: type) -> Mapping[str, Any]:
    """Returns the types of a class's fields by name. Python evaluates the text of each anew."""
    return typing.get_type_hints(found)


def fields_of(one: object) -> dict[str, Any]:
    """Returns the values of an instance's parameters, in their order."""
    return {
        field.name: getattr(one, field.name)
        for field in dataclasses.fields(one)  # type: ignore[arg-type]
        if field.init
    }


def counted(one: object) -> dict[str, Any]:
    """Returns the values of an instance's parameters that an identity counts. These are all but
    those that stand at the value which their field declares NEUTRAL."""
    at, values = neutral(type(one)), fields_of(one)
    return {name: value for name, value in values.items() if name not in at or value != at[name]}


def neutral(kind: type) -> dict[str, Any]:
    """Returns the fields that declare NEUTRAL, with the value of each."""
    fields = dataclasses.fields(kind)
    return {each.name: each.metadata[NEUTRAL] for each in fields if NEUTRAL in each.metadata}


def is_scalar(kind: Any) -> bool:
    """Returns whether values of a type can stand in a grid, and in a column."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return all(map(is_scalar, arguments))
    return origin is Literal or kind in SCALARS
