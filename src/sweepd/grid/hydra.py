"""The sweep of a Hydra config (`hydra.sweeper.params`) as a grid of a program (`sweepd init
--from-hydra`). Values are those of Hydra's basic sweeper; of what only other sweepers know, such as
`interval(1, 5)` of Optuna's, a grid has points."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import yaml

from sweepd.errors import UserError
from sweepd.grid.foreign import Draft, Parameter, of_range, span
from sweepd.grid.options import MOST_TRIALS

CALL = re.compile(r"([a-z_]+)\s*\((.*)\)\Z", re.DOTALL)
"""A call of one of Hydra's functions: its name and its arguments."""
PAIRS = {"(": ")", "[": "]", "{": "}"}


class _Loader(yaml.SafeLoader):
    """Reads numbers as OmegaConf does, to which `1e-4` is one, and dates as texts."""


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if not pair[0].endswith((":timestamp", ":float"))]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)(?:[eE][-+]?[0-9]+)?\Z"),
    list("-+0123456789."),
)


class _Unsaid(ValueError):
    """What a grid cannot say of a parameter, for the user."""


def grid_of(text: str, path: Path, program: str, out: Path) -> tuple[str, list[str]]:
    """Returns the text of a grid of the same trials, and what a user has to know of it, a sentence
    each. program: the script, from the folder `out`, where the grid is to be. Raises UserError for
    a config without a sweep."""
    try:
        config = _Loader(text).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    config = config if isinstance(config, dict) else {}
    hydra = config["hydra"] if isinstance(config.get("hydra"), dict) else {}
    sweeper = hydra.get("sweeper", config)  # a file of the group hydra/sweeper has only params
    sweeper = sweeper if isinstance(sweeper, dict) else {}
    params = sweeper.get("params") or sweeper.get("search_space")
    if not isinstance(params, dict) or not params:
        raise UserError(f"{path}: there is no `hydra.sweeper.params` with a sweep")
    notes: list[str] = []
    parameters: dict[str, Parameter] = {}
    for key, written in params.items():
        try:
            parameters[str(key)] = _parameter(str(key), written, path.absolute().parent)
        except (_Unsaid, ValueError, InvalidOperation) as error:
            notes.append(f"{key} is left out: {written}: {error}; write its values as a list")
    if any(parameter.range for parameter in parameters.values()):
        notes.append("of intervals some points are tried, evenly spaced, and no random ones")
    chosen, top = _chosen(text, path, out / program)
    words: list[list[Any]] = [["python"], [program], *([word] for word in chosen)]
    words += [[(key, lambda value, key=key: f"{key}={_word(value)}")] for key in parameters]
    if hydra.get("mode") == "MULTIRUN":
        words.append(["hydra.mode=RUN"])
    metric = config.get("optimized_metric")
    direction = sweeper.get("direction")
    draft = Draft(
        parameters,
        words,
        program,
        [program, *_configs(top, path, out)],
        "",
        str(metric or "loss"),
        {"maximize": True, "minimize": False}.get(str(direction)),
        notes,
        ["hydra.run.dir={dir}", "hydra.output_subdir=null"],
    )
    return draft.text(), notes


def _chosen(text: str, path: Path, script: Path) -> tuple[list[str], Path]:
    """Returns the words with which the script reads this config, and the folder of its configs."""
    folder = path.absolute().parent
    if re.search(r"(?m)^#\s*@package\s+_global_", text):  # a file of a group, such as experiment
        top = folder.parent
        primary = (other.read_text("utf-8", "replace") for other in top.glob("*.yaml"))
        listed = any(re.search(rf"(?m)^\s*-.*\b{folder.name}\b", other) for other in primary)
        return [f"{'' if listed else '+'}{folder.name}={path.stem}"], top
    if folder.name == "sweeper" and folder.parent.name == "hydra":
        return [], folder.parent.parent
    source = script.read_text("utf-8", "replace") if script.is_file() else ""
    named = re.search(r"config_name\s*=\s*[\"']([^\"']+?)(?:\.yaml)?[\"']", source)
    return [f"--config-name={path.stem}"] if named and named[1] != path.stem else [], folder


def _configs(top: Path, path: Path, out: Path) -> list[str]:
    """Returns the configs that the result depends on, from the folder of the grid."""
    base = out.absolute()
    if base.is_relative_to(top):
        groups = {file.parent for file in top.glob("*/*.yaml") if file.parent.name[0] not in "._"}
        paths = [path.absolute(), *sorted(groups - {path.absolute().parent})]
    else:
        paths = [top]
    return [Path(os.path.relpath(one, base)).as_posix() for one in paths]


def _parameter(key: str, written: Any, folder: Path) -> Parameter:
    """Returns a parameter with its values, or raises _Unsaid. folder: that of the config."""
    if isinstance(written, dict):  # as the sweepers of Ax, and of Optuna before 1.2, write it
        low, high = written.get("bounds") or (written.get("low"), written.get("high"))
        if choices := written.get("choices") or written.get("values"):
            return Parameter(key, list(choices))
        if "value" in written:
            return Parameter(key, [written["value"]])
        if low is None or high is None:
            raise _Unsaid("it has no `choices` and no ends")
        whole = written.get("type") == "int" or type(low) is type(high) is int
        log = bool(written.get("log") or written.get("log_scale"))
        return _spread(key, float(low), float(high), whole=whole, log=log)
    if not isinstance(written, str):
        return Parameter(key, [written if _is_scalar(written) else str(written)])
    return _read(key, written.strip(), folder)


def _read(
    key: str, text: str, folder: Path, *, log: bool = False, whole: bool = False
) -> Parameter:
    """Returns the parameter that a text in Hydra's language of overrides is."""
    call = CALL.fullmatch(text)
    if not call:
        return Parameter(key, [_element(part) for part in _split(text)])
    name, parts = call[1], [*_split(call[2])]
    named = dict(filter(None, map(_named, parts)))
    plain = [part for part in parts if not _named(part)]
    match name:
        case "choice":
            return Parameter(key, [_element(part) for part in plain])
        case "range":
            ends = [*plain, *(named[one] for one in ("start", "stop", "step") if one in named)]
            if log:
                low, high = map(float, ends[:2])
                return _spread(key, low, high - 1, whole=True, log=True)
            return Parameter(key, [*_range(ends)])
        case "interval":
            ends = [*plain, *(named[one] for one in ("start", "end") if one in named)]
            low, high = map(float, ends)
            return _spread(key, low, high, whole=whole, log=log)
        case "tag":
            tags, inner = (plain, named["sweep"]) if "sweep" in named else (plain[:-1], plain[-1])
            return _read(key, inner, folder, log=log or "log" in tags, whole=whole)
        case "sort" | "shuffle" if plain:  # the order changes nothing
            inner = named.get("sweep") or ",".join(plain)
            return _read(key, inner, folder, log=log, whole=whole)
        case "glob":
            return Parameter(key, _glob(key, plain, named, folder))
        case "int" | "float" | "str" | "bool" if len(parts) == 1:
            found = _read(key, parts[0], folder, log=log, whole=whole or name == "int")
            if found.range:
                return found
            return Parameter(key, [_cast(name, value) for value in found.values])
    raise _Unsaid(f"{name}(…) cannot be read here")


def _spread(key: str, low: float, high: float, *, whole: bool, log: bool) -> Parameter:
    scale = {(0, 0): "linear", (0, 1): "log", (1, 0): "integers", (1, 1): "log_integers"}
    told = f"from {low:g} to {high:g} in the config; twice the points less one keep these values"
    return of_range(key, span(low, high, scale[whole, log]), told)


def _range(ends: list[str]) -> Iterator[int | float]:
    """Yields the numbers of `range(start, stop, step)`, the end left out, as Hydra counts them."""
    numbers = [_element(end) for end in ends]
    if not 1 <= len(numbers) <= 3 or any(type(one) not in (int, float) for one in numbers):
        raise _Unsaid("a range has one to three numbers")
    start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    if not step or abs((stop - start) / step) > MOST_TRIALS:
        raise _Unsaid("a range has a step, and not so many values")
    if all(type(one) is int for one in (start, stop, step)):
        yield from range(start, stop, step)
        return
    here, end, by = map(Decimal, (start, stop, step))
    while here < end if by > 0 else here > end:
        yield float(here)
        here += by


def _glob(key: str, plain: list[str], named: Mapping[str, str], folder: Path) -> list[Any]:
    """Returns the configs of a group that a pattern names, in the folder of the config or, where
    the config is one of a group itself, above it."""

    def patterns(text: str | None) -> list[str]:
        inner = text[1:-1] if text and text[0] == "[" else text or ""
        return [part.strip("'\"") for part in _split(inner)] if inner else []

    group = key.lstrip("+~").partition("@")[0]
    there = next((one / group for one in (folder, *folder.parents) if (one / group).is_dir()), None)
    if not there or not (plain or "include" in named):
        raise _Unsaid(f"there is no folder {group} beside the config")
    include = patterns(plain[0] if plain else named["include"])
    exclude = patterns(plain[1] if len(plain) > 1 else named.get("exclude"))
    names = sorted(file.stem for end in ("yaml", "yml") for file in there.glob(f"*.{end}"))
    names = [name for name in names if any(fnmatch.fnmatch(name, one) for one in include)]
    names = [name for name in names if not any(fnmatch.fnmatch(name, one) for one in exclude)]
    if not names:
        raise _Unsaid(f"no config in {there} has such a name")
    return names


def _split(text: str) -> Iterator[str]:
    """Yields the parts between the commas that stand in no quotes and no brackets."""
    part, waiting, quote = "", [], ""
    for character in text:
        escaped = part.endswith("\\") and not part.endswith("\\\\")
        if quote:
            quote = "" if character == quote and not escaped else quote
        elif character in "'\"" and not escaped:
            quote = character
        elif character in PAIRS and not escaped:
            waiting.append(PAIRS[character])
        elif waiting and character == waiting[-1] and not escaped:
            waiting.pop()
        elif character == "," and not waiting and not escaped:
            yield part.strip()
            part = ""
            continue
        part += character
    if quote or waiting:
        raise _Unsaid(f"{quote or waiting[-1]} is missing")
    yield part.strip()


def _named(part: str) -> tuple[str, str] | None:
    """Returns the name and the value of an argument that is given by its name."""
    match = re.fullmatch(r"(start|stop|step|end|sweep|include|exclude|reverse|seed)\s*=(.*)", part)
    return (match[1], match[2].strip()) if match else None


def _element(text: str) -> Any:
    """Returns what Hydra reads as a value. A text stays as it is written, with its quotes."""
    if re.fullmatch(r"[-+]?(0|[1-9][0-9_]*)", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\d[\d_]*\.?[\d_]*|\.[\d_]+)([eE][-+]?\d+)?", text):
        return float(text)
    if CALL.fullmatch(text):
        raise _Unsaid(f"{text} inside a list cannot be read here")
    return {"true": True, "false": False, "null": None}.get(text.lower(), text)


def _cast(name: str, value: Any) -> Any:
    """Returns a value as `int(…)` and the like make it."""
    if name == "str":
        return value if isinstance(value, str) else str(value)
    if name == "bool":
        return value if isinstance(value, str) else bool(value)
    return {"int": int, "float": float}[name](value)


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float)


def _word(value: Any) -> str:
    """Returns a value as Hydra reads it from the command line."""
    return value if isinstance(value, str) else json.dumps(value)
