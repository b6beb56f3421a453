"""The fields of a class as parameters of a grid: their types and defaults."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

REQUIRED: Any = object()
SCALARS = (int, float, str, bool, types.NoneType)


@dataclass(frozen=True)
class Parameter:
    """A field of a task, a model or a settings block. `default` is REQUIRED if it has none."""

    type: Any
    default: Any = REQUIRED


def parameters(found: type) -> dict[str, Parameter]:
    """Returns the fields of a dataclass, in order, with their types resolved."""
    hints = _types(found)
    fields = [field for field in dataclasses.fields(found) if field.init]
    return {field.name: Parameter(hints[field.name], _default(field)) for field in fields}


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


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED if field.default is dataclasses.MISSING else field.default


def is_scalar(kind: Any) -> bool:
    """Returns whether values of a type can stand in a grid, and in a column."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return all(map(is_scalar, arguments))
    return origin is Literal or kind in SCALARS
