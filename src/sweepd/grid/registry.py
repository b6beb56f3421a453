"""Tasks, models and loops by where their class is: ours by their file's name, a user's as
`path/to/file.py:Name` (relative to the grid's folder) or `package.module:Name`.

Finding one imports that one file; nothing heavy is imported before.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, cast

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.grid import fingerprint, loops, metrics
from sweepd.grid.blame import told
from sweepd.grid.fingerprint import Kind

if TYPE_CHECKING:
    from sweepd.models.base import Model
    from sweepd.tasks.base import Task

REQUIRED: Any = object()
SCALARS = (int, float, str, bool, types.NoneType)
NO_FIELDS = ("size_field", "vocab", "metrics")
"""What a class says of itself, and no grid sets."""


@dataclass(frozen=True)
class Parameter:
    """A field of a task, a model or a settings block; `default` is REQUIRED if it has none."""

    type: Any
    default: Any = REQUIRED


@dataclass(frozen=True)
class Entry:
    """What there is to know of a task or model. summary: the first line of its docstring."""

    name: str
    summary: str
    parameters: dict[str, Parameter]
    source: Path


def find_task(name: str, base: Path) -> type[Task]:
    """The class of a task. UserError if there is none, or if it cannot be used."""
    return cast("type[Task]", _find("task", name, base))


def find_model(name: str, base: Path) -> type[Model]:
    """The class of a model. UserError if there is none, or if it cannot be used."""
    return cast("type[Model]", _find("model", name, base))


def find_loop(name: str, base: Path) -> type:
    """The class of a user's own training loop. UserError as for a task."""
    return _find("loop", name, base)


def kind_of(name: str, base: Path) -> Kind:
    """Whether a class is a task, a model or a user's training loop. UserError if it is none of
    these, or if there is none."""
    kinds: tuple[Kind, ...] = ("task", "model")
    if not is_own(name):
        for kind in kinds:
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
    module = _module(where, path)
    found = getattr(module, class_name, None)
    for kind in kinds:
        if isinstance(found, type) and issubclass(found, _root(kind)):
            return kind
    if found is None:
        raise UserError(f"{path} has no class named {class_name}: {_own_classes(module, object)}")
    if hasattr(found, "start"):
        return "loop"
    raise UserError(
        f"{path}:{line_of(found)}: {class_name} is neither a task nor a model nor a training loop; "
        "derive a task from ChainTask or RowTask of sweepd.tasks.base, and a model from "
        "Architecture of sweepd.models.base, whose `build` returns the torch module; a loop has "
        "`start(self, seed, device)` (docs/own.md)"
    )


def is_own(where: str) -> bool:
    """Whether a class is a user's own, by how a grid writes it."""
    return ":" in where


def result_name(where: str, base: Path) -> str:
    """What results call a class that has no alias, which is part of its trials' identity.

    A user's file goes by its path relative to the grid's folder, however it is written: so two
    files are told apart, and a folder may be moved.
    """
    path, _, name = where.rpartition(":")
    if not path.endswith(".py"):
        return where
    return f"{Path(os.path.relpath(base / path, base)).as_posix()}:{name}"


def shipped_tasks() -> list[Entry]:
    """The tasks that come with sweepd, by name."""
    return [entry(name, find_task(name, Path())) for name in _shipped("task")]


def shipped_models() -> list[Entry]:
    """The models that come with sweepd, by name."""
    return [entry(name, find_model(name, Path())) for name in _shipped("model")]


def entry(name: str, found: type) -> Entry:
    """Describe a class that was found under `name`."""
    summary = (inspect.getdoc(found) or "").partition("\n")[0]
    return Entry(name, summary, parameters(found), Path(inspect.getfile(found)))


def parameters(found: type) -> dict[str, Parameter]:
    """The fields of a dataclass, in order, with their types resolved."""
    hints = typing.get_type_hints(found)
    fields = [field for field in dataclasses.fields(found) if field.init]
    return {field.name: Parameter(hints[field.name], _default(field)) for field in fields}


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED if field.default is dataclasses.MISSING else field.default


_held: dict[tuple[Kind, str, Path], type] = {}
"""Classes whose files are not read again."""


def hold(kind: Kind, name: str, base: Path) -> None:
    """Find a class, and have this process keep it as it is now, whatever becomes of its file.
    UserError as above."""
    _held[kind, name, base] = _find(kind, name, base)


def _find(kind: Kind, name: str, base: Path) -> type:
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
    module = _module(where, path)
    found = getattr(module, class_name, None)
    root = _root(kind)
    if not (isinstance(found, type) and issubclass(found, root)):
        wanted = "" if root is object else f" (a subclass of sweepd.{kind}s.base.{root.__name__})"
        raise UserError(
            f"{path} has no {kind} named {class_name}{wanted}: {_own_classes(module, root)}"
        )
    if fault := _fault(kind, found):
        raise UserError(f"{path}:{line_of(found)}: {class_name} {fault}")
    return found


def _module(where: str, path: Path) -> ModuleType:
    """The module of a user's class, whose file is `path`."""
    with _readable_errors(path):
        return _load(path) if where.endswith(".py") else importlib.import_module(where)


def _own_classes(module: ModuleType, root: type) -> str:
    """The names of the classes of a kind that a module itself defines."""
    classes = [one for one in vars(module).values() if isinstance(one, type)]
    own = [one for one in classes if issubclass(one, root) and one.__module__ == module.__name__]
    return ", ".join(one.__name__ for one in own) or "none"


def _unknown(kind: Kind, name: str, base: Path) -> UserError:
    where, colon, _ = name.rpartition(":")
    if colon:
        looked = (base / where).absolute() if where.endswith(".py") else f"module {where}"
        return UserError(f"no {kind} {name}: there is no {looked}")
    if kind not in fingerprint.FOLDERS:
        return UserError(
            f"no {kind} is named {name}; write path/to/file.py:Name or package.module:Name"
        )
    shipped = _shipped(kind)
    return UserError(
        f"no {kind} is named {name}{closest(name, shipped)}; there are {', '.join(shipped)}, "
        "and your own as path/to/file.py:Name or package.module:Name"
    )


def _shipped(kind: Kind) -> list[str]:
    names = sorted(path.stem for path in fingerprint.FOLDERS[kind].glob("[!_]*.py"))
    return [name for name in names if _shipped_class(kind, name)]


def _shipped_class(kind: Kind, name: str) -> type | None:
    """The one task or model that a file of ours defines; None for a file that only helps."""
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
    """What a class must derive from. Imported late: NumPy, numba and torch take seconds."""
    if kind == "loop":
        return object
    if kind == "task":
        from sweepd.tasks.base import Task

        return Task
    from sweepd.models.base import Model

    return Model


def _fault(kind: Kind, found: type) -> str | None:
    """Why a user's class cannot be swept, or None."""
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
    for name, parameter in fields.items():
        if fault := _field_fault(found, name, parameter):
            return fault
    match kind:
        case "loop":
            return loops.fault(found, fields)
        case "task":
            return _task_fault(found, fields)
        case "model":
            return None


def _field_fault(found: type, name: str, parameter: Parameter) -> str | None:
    """Why a class can't have this field, or None."""
    if name == "name":
        return "has a field `name`, which a grid uses for the class; rename it"
    if name in NO_FIELDS:
        return f"gives {name} a type, which makes it a field; write `{name} = …` without one"
    if hidden := _hidden_method(found, name):
        return f"has a field {name}, which hides the method {hidden}; rename it"
    if not _is_scalar(parameter.type):
        return (
            f"has a field {name} that is no int, float, str, bool, None or Literal of these; "
            "what is no parameter of a grid has no type, or is a property"
        )
    return None


def _hidden_method(found: type, name: str) -> str | None:
    """The method of one of our classes in whose place the user's class has a field, if any."""
    ours = (base for base in found.__mro__ if base.__module__.startswith("sweepd."))
    return next((f"{one.__name__}.{name}" for one in ours if callable(vars(one).get(name))), None)


def _task_fault(found: Any, fields: Mapping[str, Parameter]) -> str | None:
    """Why a class of these fields can't be a task, or None."""
    if not hasattr(found, "size_field"):
        return "lacks `size_field`, the name of the field that is its size"
    if found.size_field not in fields:
        return f"lacks the field {found.size_field!r}, which its `size_field` names"
    if not getattr(found, "metrics", None):
        return "lacks `metrics`, the names of what its evaluation reports"
    if fault := metrics.fault(found.metrics):
        return fault
    own = ", ".join(metrics.own(found.metrics))
    if own and found.scores is _root("task").scores:  # type: ignore[attr-defined]
        return f"has the metric {own}, and no `scores(self, found, wanted)` that reports it"
    return None


def line_of(found: Any, sign: re.Pattern[str] | None = None) -> int:
    """The line in which a class or a function begins or, inside it, the sign is first found; 0 if
    there is none."""
    try:
        lines, first = inspect.getsourcelines(found)
    except (OSError, TypeError):  # made by other means than a class statement
        return 0
    sign = sign or re.compile(r"^\s*(class|def)\b")
    return next((first + i for i, text in enumerate(lines) if sign.search(text)), 0)


def _is_scalar(kind: Any) -> bool:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return all(map(_is_scalar, arguments))
    return origin is Literal or kind in SCALARS


def _load(path: Path) -> ModuleType:
    """Run a user's file under a name of its own, the same in every process that has this file.

    As for a script, files beside it can be imported while it runs.
    """
    content = path.read_bytes()
    digest = hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()[:12]
    name = f"sweepd_user_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    _refuse_strangers(path)
    spec = importlib.util.spec_from_file_location(name, path, loader=_Anew(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module


class _Anew(SourceFileLoader):
    """Compiles a file each time: Python's cache of compiled files takes an edit within the same
    second that keeps the size for no edit."""

    def get_code(self, fullname: str) -> CodeType:
        compiled: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return compiled


def _refuse_strangers(path: Path) -> None:
    """UserError where a file beside `path` would be shadowed by a loaded module of its name."""
    for name in fingerprint.imported_names(path):
        beside, loaded = path.parent / f"{name}.py", sys.modules.get(name)
        if loaded and beside.is_file():
            file = getattr(loaded, "__file__", None)
            if file is None or not beside.samefile(file):
                raise UserError(
                    f"{path}: `import {name}` would not read {beside}: another module of this "
                    f"name is loaded already ({file or 'built in'}); rename the file"
                )


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    """Whatever a user's file raises while it is imported, as a UserError with its line."""
    try:
        yield
    except UserError:
        raise
    except SyntaxError as error:  # its text names the file and the line again
        raise UserError(f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        raise UserError(f"{path}:{_line(error, path)}: {told(error)}") from error


def _line(error: BaseException, path: Path) -> int:
    frames = traceback.extract_tb(error.__traceback__)
    return next((f.lineno or 1 for f in reversed(frames) if f.filename == str(path)), 1)
