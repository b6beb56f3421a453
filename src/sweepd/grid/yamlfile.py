"""YAML text as plain data that knows where each value is written.

Scalars are those of YAML 1.2's core schema: `5e-3` is a number; `yes`, `on`, `1:30` and dates are
text. Everything that is wrong with a file is collected as a `Problem` and raised at once.
"""

from __future__ import annotations

import copy
import json
import math
import re
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from sweepd.closest import closest
from sweepd.errors import UserError
from sweepd.limits import LARGEST_INT

if TYPE_CHECKING:
    from pydantic import ValidationError

Keys = tuple[str | int, ...]
"""The path of a value inside a file: `("model", "d", 1)` is model.d[1]."""

MOST_BYTES = 1_000_000
MOST_VALUES = 100_000
"""The most values of a file, aliases written out: with these a small file can be a huge one."""
DEEPEST = 20
MOST_SHOWN = 50
LONGEST_SHOWN = 1000

CORE_SCHEMA = {
    f"tag:yaml.org,2002:{tag}": re.compile(pattern)
    for tag, pattern in {
        "null": r"(?:~|null|Null|NULL|)\Z",
        "bool": r"(?:true|True|TRUE|false|False|FALSE)\Z",
        "int": r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z",
        "float": r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"
        r"|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z",
    }.items()
}
_NEARLY_A_NUMBER = re.compile(
    r"(?i)[-+]?(?:nan|inf(?:inity)?|0b[01_]+|0x[0-9a-f_]+|[0-9][0-9_]*\.?[0-9_]*(?:e[-+]?[0-9_]+)?)\Z"
)
"""What the core schema takes for text, and other readers of YAML or Python for a number."""
_RESOLVERS = {None: [*CORE_SCHEMA.items(), ("nearly a number", _NEARLY_A_NUMBER)]}
_STEP = re.compile(r"([^\s.=\[\]]+)((?:\[\d{1,9}\])*)\Z")


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = _RESOLVERS


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = _RESOLVERS

    def ignore_aliases(self, data: Any) -> bool:
        return True


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. place: `grid.yaml:4`, or the --set option that it came from."""

    place: str
    keys: Keys
    message: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.place, dotted(self.keys), self.message)))


class GridError(UserError):
    """Everything that is wrong with a grid, one `Problem` a line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        texts = map(str, self.problems[:MOST_SHOWN])
        lines = [text[:LONGEST_SHOWN] + "…" * (len(text) > LONGEST_SHOWN) for text in texts]
        if len(self.problems) > MOST_SHOWN:
            lines.append(f"… and {len(self.problems) - MOST_SHOWN} more problems")
        super().__init__("\n".join(lines))


def dotted(keys: Keys) -> str:
    """Returns a path of keys as text: `("model", "d", 1)` as `model.d[1]`."""
    steps = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return "".join(steps).removeprefix(".")


@dataclass
class Document:
    """Plain data (None, bool, int, float, str, list, dict with text keys), and its places."""

    data: Any
    source: str
    places: dict[Keys, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unread: set[Keys] = field(default_factory=set)
    """Where a value could not be read, which is among the problems. None stands in its place."""
    ranges: dict[Keys, list[int | float]] = field(default_factory=dict)
    """The values of each range that a grid has as an axis."""

    def place(self, keys: Keys) -> str:
        """Returns where a value is written, or where the nearest one around it is, if it is not."""
        while keys and keys not in self.places:
            keys = keys[:-1]
        return self.places.get(keys, self.source)

    def refuse(self, keys: Keys, message: str) -> None:
        if keys not in self.unread:
            self.problems.append(Problem(self.place(keys), keys, message))


SHAPES = ("literal_error", "dataclass_type", "model_type", "model_attributes_type", "tuple_type")
"""The types of pydantic's errors that say that a value has another shape than is needed."""


def refuse_invalid(document: Document, error: ValidationError, model: Any, at: Keys = ()) -> None:
    """Refuses all that pydantic found wrong with the data at `at`, which it read as `model`, where
    it is written."""
    raw = document.data
    for key in at:
        raw = raw[key]
    errors = error.errors(include_url=False)
    needed: dict[Keys, tuple[Any, list[str]]] = {}
    for one in errors:
        kind, given, loc = one["type"], one["input"], one["loc"]
        # A place in a union also names the member that was tried, which no file does.
        steps: list[str | int] = []
        node: Any = raw
        for step in loc:
            inside: Any = range(len(node)) if isinstance(node, list) else node
            if isinstance(node, dict | list) and step in inside:
                steps, node = [*steps, step], node[step]  # type: ignore[index]
        here = (*at, *(steps or loc[:1]))
        if kind == "missing":
            document.refuse((*at, *steps, loc[-1]), f"missing; write `{loc[-1]}: …`")
        elif kind in ("extra_forbidden", "unexpected_keyword_argument"):
            known = _fields(model, steps[:-1])
            hint = f"{closest(str(loc[-1]), known)}; there are {', '.join(known)}"
            document.refuse(here, f"no such key{hint}")
        elif kind == "value_error":
            inner, message = _blamed(given, str(one["ctx"]["error"]))
            document.refuse((*here, *inner), message)
        elif kind == "too_short":
            if not given:
                document.refuse(here, "an empty list; give it at least one value")
        elif kind not in SHAPES or not (
            # Of a union's members only that counts which has the shape of what is given.
            isinstance(given, dict | list)
            and any(e["loc"][0] == loc[0] and e["type"] not in SHAPES for e in errors)
        ):
            message = one["msg"].partition(" should ")[2] or one["msg"]
            if kind == "tuple_type":
                message = f"be a list, such as [{given}]" if given else "be a list"
            elif kind in SHAPES and kind != "literal_error":
                message = f"be a mapping of {', '.join(_fields(model, steps))}"
            if kind == "string_type" and not isinstance(given, list):
                message += "; put it in quotes"
            needed.setdefault(here, (given, []))[1].append(message)
    for here, (given, wanted) in needed.items():
        message = f"{shown(given)}: must {' or '.join(dict.fromkeys(wanted))}"
        message += "; one value is needed, for this is no axis" * isinstance(given, list)
        document.refuse(here, message)


def _blamed(given: Any, message: str) -> tuple[Keys, str]:
    """Returns which part of a value a validator's message is about, and the message with the value,
    if it does not name it."""
    if isinstance(given, dict):
        return tuple(word for word in re.findall(r"\w+", message) if word in given)[:1], message
    if isinstance(given, list):
        starts = [(f"{shown(item)} ", f"{shown(item)}: ") for item in given]
        return tuple(i for i, start in enumerate(starts) if message.startswith(start))[-1:], message
    return (), f"{shown(given)}: {message}"


def _fields(model: Any, path: Iterable[str | int]) -> dict[str, Any]:
    """Returns the fields of what a model has at a path, by the names that a file gives them."""
    if hasattr(model, "model_fields"):
        found = {one.alias or name: one.annotation for name, one in model.model_fields.items()}
    elif isinstance(model, type) and is_dataclass(model):
        found = typing.get_type_hints(model)
    else:  # a union or a container
        parts = [_fields(part, ()) for part in typing.get_args(model)]
        found = {name: kind for part in parts for name, kind in part.items()}
    for step in filter(lambda step: isinstance(step, str), path):
        found = _fields(found.get(step), ())
    return found


def shown(raw: Any) -> str:
    """Returns a value as it is written in YAML, shortened."""
    text = json.dumps(raw, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"


def read(path: Path) -> str:
    """Returns the text of a file. Raises GridError if it cannot be read, is too large or not
    UTF-8."""
    place = str(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        if len(content) <= MOST_BYTES:
            return content.decode("utf-8-sig")
        message = f"larger than {MOST_BYTES:,} bytes"
    except UnicodeDecodeError as error:
        place += ":" + str(1 + content[: error.start].count(b"\n"))
        message = "not UTF-8 text; save it as UTF-8"
    except OSError as error:
        like = (other.name for other in path.parent.glob(f"*{path.suffix}"))
        hint = closest(path.name, like) if isinstance(error, FileNotFoundError) else ""
        message = f"cannot be read: {error.strerror}{hint}"
    raise GridError([Problem(place, (), message)])


def parse(text: str, source: str) -> Document:
    """Returns the data of a YAML text whose top level is a mapping. Raises GridError if it is no
    such thing. What is wrong with single values is in the document's `problems`."""
    document = _parse(text, source, lambda line: f"{source}:{line}")
    if not isinstance(document.data, dict):
        raise GridError([Problem(document.place(()), (), "a mapping is needed, such as `name: …`")])
    return document


def override(document: Document, option: str) -> None:
    """Applies one `--set path=value` to a document. A name that meets a list goes into each of its
    mappings. Unknown keys are put in all the same: ordinary validation refuses them."""
    path, equals, text = option.partition("=")
    place = f"(--set {path})"
    steps: list[str | int] = []
    for step in path.split("."):
        if not (match := _STEP.match(step)) or not equals:
            message = "write --set path=value, such as --set model.d=[32,64]"
            document.problems.append(Problem(f"(--set {option})", (), message))
            return
        steps += [match[1], *map(int, re.findall(r"\d+", match[2]))]
    if len(steps) > DEEPEST:
        document.problems.append(Problem(place, (), f"nested more than {DEEPEST} deep"))
        return
    try:
        value = _parse(text, place, lambda _: place)
    except GridError as error:
        document.problems += error.problems
        return
    document.problems += value.problems

    def assign(node: Any, keys: Keys, steps: Sequence[str | int]) -> None:
        step, *rest = steps
        if isinstance(step, str) and isinstance(node, list):
            for i, item in enumerate(node):
                assign(item, (*keys, i), steps)
            return
        here = (*keys, step)
        if isinstance(step, str) and isinstance(node, dict):
            child = node.get(step)
        elif isinstance(step, int) and isinstance(node, list) and step < len(node):
            child = node[step]
        else:
            needed = f"list of more than {step}" if isinstance(step, int) else "mapping"
            message = f"is no {needed}, so there is no {dotted(here)} to set"
            document.problems.append(Problem(place, keys, message))
            return
        if rest and child is not None:
            assign(child, here, rest)
            return
        around = {k: where for k, where in document.places.items() if k[: len(here)] != here}
        document.places = around | {here: place}
        document.unread = {k for k in document.unread if k[: len(here)] != here}
        if rest:
            node[step] = {}
            assign(node[step], here, rest)
        else:
            # A later --set into one block leaves the others alone.
            node[step] = copy.deepcopy(value.data)
            document.unread |= {(*here, *k) for k in value.unread}

    assign(document.data, (), steps)


def dump(data: Any) -> str:
    """Returns plain data as YAML that `parse` reads back as it is."""
    # PyYAML escapes all but ASCII here. Unescaped, it would fold the line breaks of Unicode.
    text: str = yaml.dump(data, Dumper=_Dumper, default_flow_style=None, sort_keys=False, width=100)
    return text


def _parse(text: str, source: str, place: Callable[[int], str]) -> Document:
    try:
        node = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = place(mark.line + 1) if mark else source
        raise GridError([Problem(where, (), f"not YAML: {error.problem}")]) from None
    except RecursionError:
        raise GridError([Problem(source, (), "nested too deeply")]) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # \0 in the text, \U escapes
        reason = str(error).partition("\n")[0]
        raise GridError([Problem(source, (), f"not YAML: {reason}")]) from None
    document = Document(None, source)
    if node is not None:
        document.data = _Reader(document, place).value(node, ())
    return document


class _Reader:
    """Turns PyYAML's nodes into plain data, and notes each value's place."""

    def __init__(self, document: Document, place: Callable[[int], str]) -> None:
        self.document, self.place = document, place
        self.values = 0

    def value(self, node: yaml.Node, keys: Keys) -> Any:
        self.document.places[keys] = self.place(node.start_mark.line + 1)
        self.values += 1
        if self.values > MOST_VALUES or len(keys) > DEEPEST:
            many = f"more than {MOST_VALUES:,} values, aliases written out"
            message = many if self.values > MOST_VALUES else f"nested more than {DEEPEST} deep"
            raise GridError([Problem(self.document.place(keys), keys[:1], message)])
        match node.tag.removeprefix("tag:yaml.org,2002:"), node:
            case "map", yaml.MappingNode():
                return self.mapping(node, keys)
            case "seq", yaml.SequenceNode():
                return [self.value(item, (*keys, i)) for i, item in enumerate(node.value)]
            case ("null" | "bool" | "int" | "float" | "str") as tag, yaml.ScalarNode():
                try:
                    return _scalar(tag, node.value)
                except ValueError as error:
                    self.document.refuse(keys, str(error))
            case "nearly a number", _:
                message = f"{node.value} is no number here; write its digits alone, or quote it"
                self.document.refuse(keys, message)
            case tag, _:
                self.document.refuse(keys, f"the tag {tag} is not allowed; write a plain value")
        self.document.unread.add(keys)
        return None

    def mapping(self, node: yaml.MappingNode, keys: Keys) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line, key = self.place(key_node.start_mark.line + 1), key_node.value
            here, message = (*keys, key), ""
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.endswith(":str"):
                here, message = keys, "a key must be text; put it in quotes if it is meant so"
            elif key in data:
                message = f"written twice (first at {self.document.place(here)}); keep one"
            elif key == "<<":
                here, message = keys, "merge keys (<<) are not supported; write the keys out"
            if message:
                self.document.problems.append(Problem(line, here, message))
            else:
                data[key] = self.value(value_node, here)
                self.document.places[here] = line
        return data


def _scalar(tag: str, text: str) -> bool | int | float | str | None:
    """Returns a scalar. Raises ValueError for text not of its type, or that no result can hold."""
    if tag == "str":
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError("text with half a surrogate pair")
        return text
    if not CORE_SCHEMA[f"tag:yaml.org,2002:{tag}"].match(text):
        raise ValueError(f"{text!r} is not of the type {tag}")
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() == "true"
    if tag == "float":
        if not (text[-1] in ".0123456789" and math.isfinite(number := float(text))):
            raise ValueError(f"{text[:30]} is not a finite number")
        return number
    if len(text) > 30 or abs(integer := int(text, 0 if text[1:2] in "ox" else 10)) > LARGEST_INT:
        raise ValueError(f"{text[:30]} is too large; whole numbers go up to 2^53")
    return integer
