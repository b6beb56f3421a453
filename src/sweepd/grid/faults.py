"""Why a user's class cannot be swept, as far as the class itself shows it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from sweepd.grid import loops, metrics
from sweepd.grid.fingerprint import Kind
from sweepd.grid.parameters import Parameter, is_scalar, parameters

NO_FIELDS = ("size_field", "vocab", "metrics")
"""The attributes that a class states about itself. They must not be fields, since no grid sets
them."""


def fault(kind: Kind, found: type) -> str | None:
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
    for name, parameter in fields.items():
        if wrong := _field_fault(found, name, parameter):
            return wrong
    match kind:
        case "loop":
            return loops.fault(found, fields)
        case "task":
            return _task_fault(found, fields)
        case "model":
            return None


def _field_fault(found: type, name: str, parameter: Parameter) -> str | None:
    """Returns why a class can't have this field, or None."""
    if name == "name":
        return "has a field `name`, which a grid uses for the class; rename it"
    if name in NO_FIELDS:
        return f"gives {name} a type, which makes it a field; write `{name} = …` without one"
    if hidden := _hidden_method(found, name):
        return f"has a field {name}, which hides the method {hidden}; rename it"
    if not is_scalar(parameter.type):
        return (
            f"has a field {name} that is no int, float, str, bool, None or Literal of these; "
            "what is no parameter of a grid has no type, or is a property"
        )
    return None


def _hidden_method(found: type, name: str) -> str | None:
    """Returns the method of one of sweepd's classes that a field of the user's class hides, or
    None."""
    ours = (base for base in found.__mro__ if base.__module__.startswith("sweepd."))
    return next((f"{one.__name__}.{name}" for one in ours if callable(vars(one).get(name))), None)


def _task_fault(found: Any, fields: Mapping[str, Parameter]) -> str | None:
    """Returns why a class with these fields can't be a task, or None."""
    if not hasattr(found, "size_field"):
        return "lacks `size_field`, the name of the field that is its size"
    if found.size_field not in fields:
        return f"lacks the field {found.size_field!r}, which its `size_field` names"
    if not getattr(found, "metrics", None):
        return "lacks `metrics`, the names of what its evaluation reports"
    if wrong := metrics.fault(found.metrics):
        return wrong
    from sweepd.tasks.base import Task  # late: NumPy and numba take seconds

    own = ", ".join(metrics.own(found.metrics))
    if own and found.scores is Task.scores:
        return f"has the metric {own}, and no `scores(self, found, wanted)` that reports it"
    return None
