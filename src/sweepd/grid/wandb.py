"""A sweep file of Weights & Biases as a grid of a program (`sweepd init --from-wandb`)."""

from __future__ import annotations

import keyword
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweepd.errors import UserError
from sweepd.grid.options import OF_CELLS, OF_SQL, RESERVED
from sweepd.grid.program import GIVEN, KEYS
from sweepd.grid.yamlfile import dump, parse

READ = ("program", "command", "parameters", "metric", "method", "name")
"""The keys of a sweep file that a grid has a place for."""
COMMAND = ("${env}", "${interpreter}", "${program}", "${args}")
"""The command of a sweep file that names none."""
ARGUMENTS = {
    "${args}": "--{0}={{{1}}}",
    "${args_no_hyphens}": "{0}={{{1}}}",
    "${args_no_boolean_flags}": "--{0}={{{1}}}",
}
"""How the words of a command stand for all parameters: the parameter and the field."""
TAKEN = (*KEYS, *GIVEN, *RESERVED, *OF_CELLS, *OF_SQL, *keyword.kwlist, "cost")
"""The names that no field may have. A parameter of such a name gets `p_` in front."""
FLAGS = "${args_no_boolean_flags}"
"""The one in which a parameter that is true is `--name` alone, and one that is false is nothing."""


def grid_of(text: str, source: str) -> tuple[str, list[str]]:
    """Returns the text of a grid of the same trials, and what it leaves out, a sentence each.
    Raises UserError or GridError for what is no sweep file with a program."""
    sweep = parse(text, source).data
    if not isinstance(sweep.get("parameters"), dict) or not isinstance(sweep.get("program"), str):
        raise UserError(f"{source}: a sweep file has `program` and `parameters`")
    left_out = [f"{name} is left out" for name in sweep if name not in READ]
    if (method := sweep.get("method")) != "grid":
        left_out.append(f"method: {method}: all values are tried; `search: staircase` tries fewer")
    fields: dict[str, Any] = {}
    arguments: dict[str, str] = {}
    seeds: list[Any] = [0]
    command = sweep.get("command") or COMMAND
    command = shlex.split(command) if isinstance(command, str) else command
    taken = {name.lower() for name in TAKEN}
    flags: dict[str, str] = {}
    for name, values in _parameters(sweep["parameters"]):
        field = re.sub(r"\W", "_", name)
        while name != "seed" and (field.lower() in taken or not field.isidentifier()):
            field = f"p_{field}"
        taken.add(field.lower())
        if values is None:
            left_out.append(f"{name} has no `value` and no `values`, so it is left out: write some")
        elif name == "seed":
            seeds, arguments[name] = values, field
        else:
            if FLAGS in command and all(isinstance(value, bool) for value in values):
                flags[name] = f"{{{field}}}"
                values = [f"--{name}" if value else None for value in values]
            else:  # as W&B writes them
                values = [str(v) if isinstance(v, bool | list | None) else v for v in values]
            fields[field] = values[0] if len(values) == 1 else values
            arguments[name] = field
    words: list[str] = []
    for word in command:
        if form := ARGUMENTS.get(word):
            alone = flags if word == FLAGS else {}
            words += [alone.get(name) or form.format(name, arguments[name]) for name in arguments]
        elif word in ("${env}", "/usr/bin/env"):
            continue
        elif re.search(r"\$\{args_json\w*\}|\$\{envvar:", str(word)):
            left_out.append(f"{word} of the command is left out: name fields in braces")
        else:
            known = {"${interpreter}": "python", "${program}": sweep["program"]}
            words.append(known.get(word, str(word).replace("{", "{{").replace("}", "}}")))
    metric = sweep.get("metric") or {}
    measured = re.sub(r"\W", "_", str(metric.get("name", "loss"))).lower()
    better = "up" if metric.get("goal") == "maximize" or measured == "acc" else "down"
    stem = re.sub(r"[^\w.-]", "_", str(sweep.get("name") or Path(sweep["program"]).stem))
    grid = {
        "name": stem,
        "loop": {
            "program": " ".join(
                shlex.quote(word) if re.search(r"[\s'\"\\]", word) else word for word in words
            ),
            "as": re.sub(r"\W", "_", f"{Path(sweep['program']).stem}"),
            "task": stem,
            "metrics": {measured: better},
            "files": [sweep["program"]],
            **fields,
        },
        "seeds": seeds,
        "goal": f"{measured} {'>' if better == 'up' else '<'} 0.5",
    }
    left_out.append(f"its goal is a guess: when does a trial pass, by {measured}?")
    left_out.append(
        f"nothing reads wandb.log: call sweepd.report(step=…, {measured}=…) beside it "
        "(docs/program.md)"
    )
    return dump(grid), left_out


def _parameters(
    written: Mapping[str, Any], before: str = ""
) -> Iterator[tuple[str, list[Any] | None]]:
    """Yields each parameter by its name with its values, or None where it has none. Nested
    parameters have the names of those around them in front."""
    for name, about in written.items():
        about = about if isinstance(about, dict) else {"value": about}
        if isinstance(about.get("parameters"), dict):
            yield from _parameters(about["parameters"], f"{before}{name}.")
        elif "value" in about:
            yield f"{before}{name}", [about["value"]]
        else:
            yield f"{before}{name}", about.get("values") or None
