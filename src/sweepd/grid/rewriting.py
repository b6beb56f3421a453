"""Files of a program that each trial gets with its own values (`set:` and `template:`), where the
program takes no flags."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sweepd.closest import closest

IN_TEMPLATE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
"""A pattern of a field in a template: `{{ width }}`."""


def faults(sets: object, templates: object, base: Path) -> Iterator[tuple[str, str]]:
    """Yields the keys `set` and `template` of a program's block with what is wrong with them."""
    if not isinstance(sets, dict) or not all(isinstance(names, dict) for names in sets.values()):
        yield "set", "write a mapping by file, such as {train.py: {DEPTH: depth}}"
        return
    if not isinstance(templates, dict) or not all(map(_is_text, templates.values())):
        yield "template", "write a mapping, such as {conf.yaml: conf.yaml.in}"
        return
    for name, constants in sets.items():
        try:
            places = _constants((base / name).read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError) as error:
            yield "set", f"{name} cannot be read as Python: {error}"
            continue
        for constant, field in constants.items():
            if constant not in places:
                near = closest(str(constant), places)
                yield "set", f"{name} sets no {constant} at its top level, and once{near}"
            if not _is_text(field):
                yield "set", f"{name}: {constant}: name the field whose value it gets"
    for target, source in templates.items():
        if not (base / source).is_file():
            yield "template", f"there is no {source}, of which {target} is to be made"


def fields_of(sets: Mapping[str, Any], templates: Mapping[str, str], base: Path) -> set[str]:
    """Returns the fields that files are written with."""
    texts = ((base / source).read_text(encoding="utf-8") for source in templates.values())
    named = {field for text in texts for field in IN_TEMPLATE.findall(text)}
    return named | {field for constants in sets.values() for field in constants.values()}


def rewritten(
    sets: Mapping[str, Any], templates: Mapping[str, str], values: Mapping[str, Any], base: Path
) -> dict[str, bytes]:
    """Returns the files with the values of one trial, by their paths from `base`."""
    files = {}
    for name, constants in sets.items():
        text = (base / name).read_text(encoding="utf-8")
        places = _constants(text)
        for constant in sorted(constants, key=lambda name: places[name], reverse=True):
            start, end = places[constant]
            text = f"{text[:start]}{values[constants[constant]]!r}{text[end:]}"
        files[name] = text.encode()
    for target, source in templates.items():
        text = (base / source).read_text(encoding="utf-8")
        files[target] = IN_TEMPLATE.sub(lambda field: _plain(values[field[1]]), text).encode()
    return files


def _constants(text: str) -> dict[str, tuple[int, int]]:
    """Returns where the value of each constant stands that a Python file sets once at its top
    level: its first character and the one behind it."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines))]

    def place(line: int, column: int) -> int:  # of an AST, whose columns count bytes
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    places: dict[str, tuple[int, int]] = {}
    twice = set()
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                pass
            case _:
                continue
        twice |= {name} & places.keys()
        assert value.end_lineno is not None and value.end_col_offset is not None
        places[name] = (
            place(value.lineno, value.col_offset),
            place(value.end_lineno, value.end_col_offset),
        )
    return {name: where for name, where in places.items() if name not in twice}


def _plain(value: Any) -> str:
    """Returns a value as a config file has it."""
    return value if isinstance(value, str) else json.dumps(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)
