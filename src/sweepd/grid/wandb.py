"""A sweep file of Weights & Biases as a grid of a program (`sweepd init --from-wandb`).

The words of a trial are those that `wandb agent` would run (`wandb/sdk/launch/sweeps/utils.py` of
wandb 0.31).
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from sweepd.errors import UserError
from sweepd.grid.foreign import Draft, Encode, Parameter, Piece, of_range, span

READ = ("program", "command", "parameters", "metric", "method", "name")
"""The keys of a sweep file that a grid has a place for."""
COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
"""The command of a sweep file that names none."""
SCRIPTS = (".py", ".sh", ".jl", ".R")
"""The endings of the word that names the script, where a sweep file has no `program`."""
Tree = dict[str, "str | Tree"]
"""Parameters by name: that of a `Parameter`, or those that are nested in one."""


def grid_of(text: str, source: str) -> tuple[str, list[str]]:
    """Returns the text of a grid of the same trials, and what a user has to know of it, a sentence
    each. Raises UserError for what is no sweep file of a command."""
    try:
        sweep = yaml.safe_load(text)  # as W&B reads it: to YAML 1.1 `1e-4` is a text
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{source}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(sweep, dict) or not isinstance(sweep.get("parameters"), dict):
        raise UserError(f"{source}: a sweep file has `parameters`, and a `program` or a `command`")
    command = sweep.get("command") or COMMAND
    chunks = [str(c) for c in (shlex.split(command) if isinstance(command, str) else command)]
    program = sweep.get("program")
    if not isinstance(program, str):
        if "command" not in sweep or "${program}" in chunks:
            raise UserError(f"{source}: no `program`; write `program: train.py`")
        program = next((chunk for chunk in chunks if chunk.endswith(SCRIPTS)), "")
    notes = [f"{name} is left out" for name in sweep if name not in READ]
    parameters: dict[str, Parameter] = {}
    tree = _tree(sweep["parameters"], "", parameters, notes)
    words = _words(chunks, program, tree, parameters, notes)
    if (method := sweep.get("method")) != "grid":
        ranges = any(parameter.range for parameter in parameters.values())
        tried = "all values, and of ranges all points," if ranges else "all values"
        notes.append(f"method: {method}: {tried} are tried; `search: staircase` tries fewer")
    metric: dict[str, Any] = sweep["metric"] if isinstance(sweep.get("metric"), dict) else {}
    goal = metric.get("goal")
    draft = Draft(
        parameters,
        words,
        program or source,
        [program] if program else [],
        str(sweep.get("name") or ""),
        str(metric.get("name", "loss")),
        goal == "maximize" if goal else None,
        notes,
        logger="wandb",
    )
    return draft.text(), notes


def _tree(
    written: Mapping[Any, Any], before: str, parameters: dict[str, Parameter], notes: list[str]
) -> Tree:
    """Returns the parameters as they are nested, and puts each into `parameters` by its name with
    those around it in front."""
    tree: Tree = {}
    for key, about in written.items():
        name = f"{before}{key}"
        about = about if isinstance(about, dict) else {"value": about}
        if isinstance(about.get("parameters"), dict):
            tree[str(key)] = _tree(about["parameters"], f"{name}.", parameters, notes)
        elif parameter := _parameter(name, about, notes):
            parameters[name] = parameter
            tree[str(key)] = name
    return tree


def _parameter(name: str, about: Mapping[str, Any], notes: list[str]) -> Parameter | None:
    """Returns a parameter with its values. Notes why there is none."""
    if "value" in about:
        return Parameter(name, [about["value"]])
    if values := about.get("values"):
        return Parameter(name, values if isinstance(values, list) else [values])
    kind = str(about.get("distribution") or "")
    try:
        low, high = float(about["min"]), float(about["max"])
        if re.fullmatch("(q_|inv_)?log_uniform", kind):  # its ends are exponents of e
            low, high = (float(f"{math.exp(end):.6g}") for end in (low, high))
        q = float(about.get("q", 1 if kind.startswith("q_") else 0))
        whole = kind == "int_uniform" or (
            not kind and all(type(about[end]) is int for end in ("min", "max"))
        )
        spread = span(low, high, "integers" if whole else "log" if "log" in kind else "linear")
        told = f"{kind or 'a range'} from {about['min']} to {about['max']} in the sweep file"
        found = of_range(name, spread, f"{told}; twice the points less one keep these values")
    except (KeyError, TypeError, ValueError, OverflowError):
        why = f"has no finite range ({kind})" if kind else "has no `value`, `values` or range"
        notes.append(f"{name} {why}, so it is left out: write some values")
        return None
    if q > 0:  # as W&B rounds them
        multiples = dict.fromkeys(round(value / q) * q for value in found.values)
        digits = max(0, -math.floor(math.log10(q)) + 2)
        values = [int(m) if q.is_integer() else round(m, digits) for m in multiples]
        return Parameter(name, values, None, f"{told}, in steps of {q:g}")
    return found


def _words(
    chunks: list[str],
    program: str,
    tree: Tree,
    parameters: Mapping[str, Parameter],
    notes: list[str],
) -> list[list[Piece]]:
    """Returns the words of the command, as `wandb agent` expands it."""
    words: list[list[Piece]] = []
    for i, chunk in enumerate(chunks):
        for name in re.findall(r"\$\{envvar:([A-Z0-9_]*)\}", chunk):
            value = os.environ.get(name, name)
            chunk = chunk.replace(f"${{envvar:{name}}}", value)
            notes.append(f"${{envvar:{name}}} of the command is written as it is now: {value}")
        following = chunks[i + 1] if i + 1 < len(chunks) else ""
        if chunk in ("${env}", "/usr/bin/env") and not re.match(r"-|\w+=", following):
            continue  # it only looks for the next word in PATH, as sweepd does
        if not (chunk.startswith("${") and chunk.endswith("}")):
            words.append([chunk])
            continue
        macro = chunk[2:-1]
        known = {"env": "env", "interpreter": "python", "program": program}
        if macro in known:
            words.append([known[macro]])
        elif macro == "args_json":
            words.append(_json(tree))
        elif macro == "args_json_file":
            notes.append(f"{chunk} of the command is left out: sweepd writes no such file")
        elif macro in FORMS or macro in ("args_no_equals", "args_no_boolean_flags"):
            for name, inner in tree.items():
                words += _argument(macro, name, inner, parameters)
        else:
            notes.append(f"{chunk} of the command is nothing to W&B either, so it is left out")
    return words


FORMS = {
    "args": "--",
    "args_no_hyphens": "",
    "args_append_hydra": "+",
    "args_override_hydra": "++",
}
"""What stands before the name of a parameter, by the macro."""


def _argument(
    macro: str, name: str, inner: str | Tree, parameters: Mapping[str, Parameter]
) -> Iterator[list[Piece]]:
    """Yields the words of one parameter. One with others nested in it is a dict of Python's."""
    if macro == "args_no_equals":
        yield [f"--{name}"]
        yield [(inner, str)] if isinstance(inner, str) else _nested(inner, repr)
        return
    before = f"{FORMS.get(macro, '--')}{name}="
    if isinstance(inner, str):
        flags = macro == "args_no_boolean_flags"

        def word(value: Any) -> str | None:
            if flags and isinstance(value, bool):
                return f"--{name}" if value else None
            return f"{before}{value}"

        yield [(inner, word)]
    else:
        yield [before, *_nested(inner, repr)]


def _nested(tree: Tree, encode: Encode) -> list[Piece]:
    """Returns the pieces of a dict, written as Python or JSON writes it."""
    pieces: list[Piece] = []
    for name, inner in tree.items():
        pieces.append(f"{', ' if pieces else '{'}{encode(name)}: ")
        pieces += [(inner, encode)] if isinstance(inner, str) else _nested(inner, encode)
    return [*pieces, "}"] if pieces else ["{}"]


def _json(tree: Tree) -> list[Piece]:
    return _nested(tree, lambda value: json.dumps(value, default=str))
