"""A block of the grid: a mapping whose keys are the fields of a frozen dataclass.

One mechanism reads tasks, models, `train`, `evaluate` and `stop`, and rules inside them such as an
lr mapping. A field given as a list or a range is an axis. Values are checked against the field's
type. The dataclass itself refuses what is impossible in combination.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import traceback
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sweepd.closest import closest
from sweepd.grid.fingerprint import PACKAGE, is_program
from sweepd.grid.options import MOST_TRIALS, column
from sweepd.grid.registry import REQUIRED, Parameter, counted, fields_of, parameters
from sweepd.grid.user_files import error_text, is_own_file, raised_at
from sweepd.grid.yamlfile import Document, Keys, shown
from sweepd.limits import LARGEST_INT

Fields = dict[str, Parameter]
TextNone = typing.Literal["None"]
"""Has a field take the text None, though null is possible, too."""

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Point:
    """A value of the grid with the place where it is written: one value of a field, or one point of
    a block or a rule, which is an instance of its dataclass.

    The place of a default is that of the block. What only the point of a block has is empty
    elsewhere. kind: the key of the grid under which the block stands, such as `task`. name and
    where: those of the block.
    """

    value: Any
    keys: Keys
    written: Mapping[str, Keys] = field(default_factory=dict)
    """Where the value of each field is written."""
    kind: str = ""
    name: str = ""
    where: str = ""

    def blamed(self, message: str) -> Keys:
        """Returns where the first field that an error names is written, or the keys if none is."""
        words = re.findall(r"\w+", message)
        return next((self.written[word] for word in words if word in self.written), self.keys)

    @cached_property
    def fields(self) -> dict[str, Any]:
        return fields_of(self.value)

    @cached_property
    def axes(self) -> dict[str, Any]:
        return columns(self.kind, self.fields)

    @cached_property
    def counted(self) -> dict[str, Any]:
        """What an identity hashes besides the code: the axes, without those that change nothing,
        and the name of a task, a model or a loop."""
        named = {"name": self.name} if self.name else {}
        return named | columns(self.kind, counted(self.value))

    @cached_property
    def text(self) -> str:
        """`counted` as an identity hashes it."""
        return canonical(self.counted)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.fields.items())})"


@dataclass(frozen=True)
class Block:
    """A block as it was read. name: the name of its task or model in results; "" for a block of
    settings."""

    name: str
    kind: type
    axes: Mapping[str, tuple[Any, ...]]
    """Each field with the values that it takes, defaults included."""
    points: tuple[Point, ...]
    keys: Keys
    where: str = ""
    """The class as the grid writes it, such as `lis` or `path/to/file.py:Name`; of a program its
    block (`program.Program`); "" for a block of settings."""
    alias: str | None = None
    """The name that `as:` gives to the task or model, if there is an `as:`."""

    def plain(self) -> dict[str, Any]:
        """Returns the block as it may be written in a grid."""
        values = {name: [plain(value) for value in axis] for name, axis in self.axes.items()}
        named = {"name": self.where} if self.where else {}
        named = json.loads(self.where) if is_program(self.where) else named
        named |= {"as": self.alias} if self.alias else {}
        return named | {name: axis[0] if len(axis) == 1 else axis for name, axis in values.items()}


def plain(value: Any) -> Any:
    """Returns a field's value as plain data. Rules become mappings."""
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value  # type: ignore[arg-type]


def columns(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a block by their columns. A rule, such as that of lr, is one value: the
    canonical JSON of what an identity counts of it."""
    return {
        column(kind, name): canonical(counted(value)) if dataclasses.is_dataclass(value) else value
        for name, value in fields.items()
    }


def canonical(value: Any) -> str:
    """Returns the one JSON text of a value, which is the same on every machine."""
    return _CANONICAL.encode(value)


def composed(texts: Mapping[str, str]) -> str:
    """Returns the canonical text of a mapping, made of those of its values. Its names are
    identifiers, so they need no escapes."""
    pairs = (f'"{name}":{texts[name]}' for name in sorted(texts))
    return "{" + ",".join(pairs) + "}"


def read_block(
    document: Document,
    cls: type,
    raw: Any,
    keys: Keys,
    *,
    name: str = "",
    where: str = "",
    alias: str | None = None,
) -> Block | None:
    """Returns one block of the dataclass `cls`, read from `raw`. Returns None if it has problems,
    which the document then holds."""
    kind = str(keys[0])
    found = _read_points(document, cls, raw, keys, name or kind)
    if found is None:
        return None
    values, points = found
    axes = {field: tuple(point.value for point in axis) for field, axis in values.items()}
    of_block = tuple(replace(point, kind=kind, name=name, where=where) for point in points)
    return Block(name, cls, axes, of_block, keys, where, alias)


def _read_points(
    document: Document, cls: type, raw: Any, keys: Keys, what: str
) -> tuple[dict[str, list[Point]], list[Point]] | None:
    """Returns the values of every field of a dataclass, in their order, and every combination of
    them. Returns None if there are problems, such as that the dataclass refuses a combination."""
    fields, before = parameters(cls), len(document.problems)
    if not has_keys(document, fields, raw, keys, what):
        return None
    choices = {
        name: read_choices(document, parameter.type, raw[name], (*keys, name))
        if name in raw
        else [Point(parameter.default, keys)]
        for name, parameter in fields.items()
        if name in raw or parameter.default is not REQUIRED
    }
    if len(document.problems) > before:
        return None
    points = []
    for combination in product(*choices.values()):
        point = dict(zip(choices, combination, strict=True))
        written = {name: choice.keys for name, choice in point.items()}
        try:
            value = cls(**{name: choice.value for name, choice in point.items()})
        except Exception as error:  # a user's class may raise anything
            document.refuse(Point(None, keys, written).blamed(str(error)), reason(error))
        else:
            points.append(Point(value, keys, written))
    return (choices, points) if len(document.problems) == before else None


def has_keys(document: Document, fields: Fields, raw: Any, keys: Keys, what: str) -> bool:
    """Returns whether `raw` is a mapping. Refuses any other, and unknown and missing keys."""
    if not isinstance(raw, dict):
        document.refuse(keys, f"{shown(raw)} is not a mapping of {what}'s fields")
        return False
    for key in raw:
        if key not in fields:
            known = f"it knows {', '.join(fields)}" if fields else "it has none"
            document.refuse((*keys, key), f"{what} has no such key{closest(key, fields)}; {known}")
    missing = [n for n, p in fields.items() if p.default is REQUIRED and n not in raw]
    if missing:
        document.refuse(keys, f"{what} needs {' and '.join(missing)}; write `{missing[0]}: …`")
    return True


def read_choices(document: Document, kind: Any, raw: Any, keys: Keys) -> list[Point]:
    """Returns the values that one field takes: those of a list (an axis), or else one value. A rule
    with axes of its own gives one value for each of its points."""
    if not isinstance(raw, list):
        return _read_value(document, kind, raw, keys)
    if not raw:
        document.refuse(keys, "an empty axis; give it at least one value")
    found: list[Point] = []
    for i, item in enumerate(raw):
        if isinstance(item, list):
            document.refuse(
                (*keys, i),
                "a list inside an axis; a value is one number, text, true, false or null: write "
                "each list as a text, such as '8-16', which the class takes apart",
            )
        else:
            found += _read_value(document, kind, item, (*keys, i))
    first: dict[str, Point] = {}
    for choice in found:
        text = canonical(plain(choice.value))
        if text in first:
            document.refuse(choice.keys, f"{shown(plain(choice.value))} is listed twice; keep one")
        first.setdefault(text, choice)
    return list(first.values())


def _read_value(document: Document, kind: Any, raw: Any, keys: Keys) -> list[Point]:
    """Returns what one written value stands for. A scalar stands for itself. A rule is a mapping of
    fields that may be axes themselves, and it stands for each of its points. A range stands for
    each of its values."""
    scalars, rule = alternatives(kind)
    if is_range(raw):
        try:
            values = [scalar(scalars, value) for value in range_values(raw)]
        except ValueError as error:
            key = str(error).partition(" ")[0]
            document.refuse((*keys, key) if key in raw else keys, str(error))
            return []
        document.ranges[keys] = values
        return [Point(value, keys) for value in values]
    known = parameters(rule) if rule else {}
    is_axis = isinstance(raw, dict) and any(  # as another program writes it
        isinstance(value, list) and key not in known and not closest(key, known)
        for key, value in raw.items()
    )
    if isinstance(raw, dict) and rule and not is_axis:
        _, points = _read_points(document, rule, raw, keys, str(keys[-1])) or ({}, [])
        return [Point(point.value, keys) for point in points]
    try:
        return [Point(scalar(scalars, raw), keys)]
    except ValueError as error:
        hint = f", or a mapping of {', '.join(parameters(rule))}" if rule else ""
        document.refuse(keys, f"{error}{hint}")
        return []


def reason(error: Exception) -> str:
    """Returns what to tell the user about an error. A ValueError that the user's code or ours
    raises speaks for itself. Of other errors it also tells where in the user's code they come from,
    and their type."""
    frame = raised_at(error)
    at = f"{frame.filename}:{frame.lineno}: " if frame else ""
    if type(error) is ValueError:
        if error.__cause__:  # what ours says of an error of the user's code
            return f"{at}{error}"
        thrower = traceback.extract_tb(error.__traceback__)[-1].filename
        if is_own_file(thrower) or thrower.startswith(str(PACKAGE)):
            return str(error)
    return f"{at}{error_text(error)}"


def scalar(kind: Any, raw: Any) -> Any:
    """Returns `raw` as a value of a scalar type: `"5e-3"` is a float, 3.0 is an int, and true is
    neither. Raises ValueError, with a message for the user, if `raw` is no such value."""
    if isinstance(raw, list | dict):
        # As other programs write an axis: `{grid_search: [1, 2]}`, `{values: [1, 2]}`.
        lists = [v for v in raw.values() if isinstance(v, list)] if isinstance(raw, dict) else []
        hint = f"; an axis is a list alone: {shown(lists[0])}" if lists else ""
        raise ValueError(f"{shown(raw)}: one value is needed here{hint}")
    try:
        value = adapter(kind).validate_python(raw)
    except ValidationError as error:
        reasons = [
            _SMALLER if e["type"] == "int_parsing_size"
            else e["msg"].removeprefix("Input should be ")
            for e in error.errors()
        ]  # fmt: skip
        quotes = "; put it in quotes" if "a valid string" in reasons else ""
        needed = " or ".join(dict.fromkeys(reasons))
        raise ValueError(f"{shown(raw)}: must be {needed}{quotes}") from None
    kinds = {*typing.get_args(kind)}
    if value == "None" and {None, types.NoneType} & kinds and TextNone not in kinds:
        raise ValueError('"None": a text here, though null is possible; write null')
    if message := misread(raw, value):
        raise ValueError(f"{shown(raw)}: {message}")
    return value


def misread(raw: Any, value: Any) -> str:
    """Returns why `raw` must not be read as this value, though pydantic does, or ""."""
    if isinstance(value, bool) != isinstance(raw, bool):
        wanted = "true or false" if isinstance(value, bool) else "a number, not true or false"
        return f"must be {wanted}"
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number"
    if isinstance(value, int) and abs(value) > LARGEST_INT:
        return f"must be {_SMALLER}"
    return ""


_SMALLER = "a whole number from -2^53 to 2^53"


SCALES = ("linear", "log", "integers", "log_integers")
"""How the values of a range lie between its ends. The last two are rounded to whole numbers."""
DIGITS = {"linear": 12, "log": 6}
"""The significant digits to which values inside a range are rounded, so that people can read them
and 0.1 + 0.2 is 0.3."""


def is_range(raw: object) -> bool:
    """Returns whether a value is a range. Python has no field called `from`."""
    return isinstance(raw, dict) and "from" in raw


def range_values(raw: Mapping[str, Any]) -> list[int | float]:
    """Returns the values of a range such as `{from: 1.0e-4, to: 1.0e-1, points: 6, scale: log}`, in
    rising order. Half the distance, with 11 points in place of 6, keeps these values. Raises
    ValueError, whose first word is the key that is wrong."""
    for key in raw:
        if key not in ("from", "to", "points", "scale"):
            raise ValueError(f"{key} is no key of a range; it has from, to, points and scale")
    scale = raw.get("scale", "linear")
    if scale not in SCALES:
        raise ValueError(f"scale = {shown(scale)}: must be {' or '.join(SCALES)}")
    ends: list[float] = []
    for key in ("from", "to"):
        try:
            ends.append(scalar(float, raw.get(key)))
        except ValueError as error:
            raise ValueError(f"{key} = {error}") from None
    low, high = ends
    try:
        points = scalar(int, raw.get("points"))
    except ValueError as error:
        raise ValueError(f"points = {error}") from None
    if not 2 <= points <= MOST_TRIALS:
        raise ValueError(f"points = {points}: must be from 2 to {MOST_TRIALS:,}")
    if not low < high:
        raise ValueError(f"to = {high:g}: must be above from = {low:g}")
    if "log" in scale and not low > 0:
        raise ValueError(f"from = {low:g}: must be above 0 on a scale of logarithms")
    if "integers" in scale and not (low.is_integer() and high.is_integer()):
        key = "to" if low.is_integer() else "from"
        raise ValueError(f"{key} = {raw[key]}: must be a whole number where scale = {scale}")

    def value(share: float) -> int | float:
        if share in (0, 1):  # the ends as they are written
            end = high if share else low
        elif "log" in scale:
            end = low * (high / low) ** share
        else:
            end = low + (high - low) * share
        if "integers" in scale:
            return round(end)
        return end if share in (0, 1) else float(f"{end:.{DIGITS[scale]}g}")

    # A value depends on its share of the way alone, and 2 / 10 is 1 / 5 to the last bit.
    values = [value(i / (points - 1)) for i in range(points)]
    if len({*values}) < points:
        raise ValueError(f"points = {points}: some of them are one value; write fewer")
    return values


def count(raw: Any) -> int:
    """Returns how many points a value of a grid stands for, at least 1, without expanding it."""
    if is_range(raw):
        points = raw.get("points")
        return max(1, points) if isinstance(points, int) else 1
    if isinstance(raw, dict):
        return math.prod(map(count, raw.values()))
    return max(1, sum(map(count, raw))) if isinstance(raw, list) else 1


RANGE_SCHEMA: dict[str, Any] = {
    "description": "a range: an axis of equally spaced values",
    "type": "object",
    "properties": {
        "from": {"type": "number"},
        "to": {"type": "number"},
        "points": {"type": "integer", "minimum": 2},
        "scale": {"enum": [*SCALES], "default": "linear"},
    },
    "required": ["from", "to", "points"],
    "additionalProperties": False,
}


def block_schema(fields: Fields, named: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON Schema of a mapping of these fields and of those in `named`, which are
    required. Each of these fields takes a value, or a list of them (an axis)."""
    properties, required = {**named}, [*named]
    for name, parameter in fields.items():
        scalars, rule = alternatives(parameter.type)
        one: dict[str, Any] = adapter(scalars).json_schema()
        if rule:
            one = {"anyOf": [one, block_schema(parameters(rule), {})]}
        one = {"anyOf": [one, RANGE_SCHEMA]}
        properties[name] = {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
        if parameter.default is REQUIRED:
            required.append(name)
        else:
            properties[name]["default"] = plain(parameter.default)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


@cache
def adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@cache
def alternatives(kind: Any) -> tuple[Any, type | None]:
    """Returns the scalar part of a field's type, and its rule (a dataclass), if it has one."""
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    members = typing.get_args(kind) if union else (kind,)
    rules = [member for member in members if dataclasses.is_dataclass(member)]
    scalars = tuple(member for member in members if member not in rules)
    return typing.Union[scalars], rules[0] if rules else None  # type: ignore[return-value]  # noqa: UP007
