"""The user's own part of a grid: classes, their defaults, and the files that they run."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from os.path import normpath
from pathlib import Path
from typing import Any

from sweepd.grid.axes import Block
from sweepd.grid.fingerprint import (
    KINDS,
    PACKAGE,
    Kind,
    is_program,
    program_files,
    source,
    trial_files,
)
from sweepd.grid.registry import REQUIRED, is_own, parameters
from sweepd.grid.spec import Grid

RecordedClasses = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""The result of `own_classes`, as it is read back from a store."""


def own_blocks(grid: Grid) -> Iterator[tuple[Kind, Block]]:
    """Yields the blocks of the user's own classes, each with its kind."""
    for kind in KINDS:
        yield from ((kind, block) for block in grid.blocks[kind] if is_own(block.where))


def own_files(
    classes: Iterable[tuple[Kind, str]], base: Path
) -> tuple[dict[str, Path], dict[str, Path]]:
    """Returns those files of these classes that are the user's, with all of theirs that they
    import: by their paths from the grid's folder, and those of packages by their paths from the
    folder from which these are imported. Raises as `fingerprint.trial_code` does."""
    beside: dict[str, Path] = {}
    packages: dict[str, Path] = {}
    for kind, where in classes:
        if is_program(where):
            beside |= program_files(where, base)
            continue
        if not is_own(where):
            continue
        module, _, _ = where.rpartition(":")
        path = source(kind, where, base)
        if module.endswith(".py"):
            for file in _imported(path, path.parent):
                beside[Path(os.path.relpath(file, base)).as_posix()] = file
        else:
            root = path.parents[module.count(".") + (path.name == "__init__.py")]
            for file in _imported(path, root):
                packages[file.relative_to(root).as_posix()] = file
    return beside, packages


def imports_of_others(grid: Grid) -> dict[str, Path]:
    """Returns the modules that the user's files import as soon as they are loaded, and that come
    with neither Python, sweepd nor these files, each with a file that imports it. What an `if` or a
    `try` guards does not count. A program may run in a Python of its own."""
    classes = [(kind, block.where) for kind, block in own_blocks(grid)]
    own, packages = own_files([one for one in classes if not is_program(one[1])], grid.base)
    packed = {name.split("/")[0] for name in packages}
    return _imports_of({*own.values(), *packages.values()}, packed)


def imported_modules(where: str, base: Path) -> dict[str, Path] | None:
    """Returns the same of a program. It is None where one of its files says by itself where modules
    are looked for, so that these are not known."""
    files = {path for path in program_files(where, base).values() if path.suffix == ".py"}
    if any(re.search(rb"sys\.path|addsitedir", path.read_bytes()) for path in files):
        return None
    return _imports_of(files, {path.name for path in base.iterdir()})


def _imports_of(files: set[Path], more: set[str]) -> dict[str, Path]:
    """Returns the modules that these files import, without their own and those named `more`."""
    ours = {*sys.stdlib_module_names, PACKAGE.name, *(file.stem for file in files), *more}
    ours |= {file.parent.name for file in files}
    found: dict[str, Path] = {}
    for file in sorted(files):
        for statement in ast.parse(file.read_bytes()).body:
            if isinstance(statement, ast.Import):
                names = [alias.name for alias in statement.names]
            elif isinstance(statement, ast.ImportFrom) and not statement.level:
                names = [statement.module or ""]
            else:
                continue
            found |= {top: file for top in (n.partition(".")[0] for n in names) if top not in ours}
    return found


def _imported(path: Path, root: Path) -> Iterator[Path]:
    """Yields a file of the user's, and all of theirs that run when it is imported from `root`."""
    waiting, found = [path], set()
    while waiting:
        file = Path(normpath(waiting.pop()))
        if file in found or file.is_relative_to(PACKAGE):
            continue
        found.add(file)
        yield file
        waiting += trial_files(file, file)
        packages = (parent for parent in file.parents if parent.is_relative_to(root))
        waiting += filter(Path.is_file, (parent / "__init__.py" for parent in packages))


def own_classes(grid: Grid, past: RecordedClasses) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns what is saved of the user's own classes, by kind and name: `where` each is, and its
    `defaults`. past: what was saved before. A default that has changed since, while the grid still
    uses the former one, stays as it was: whoever continues the sweep is told each time."""
    found: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in KINDS}
    for kind, block in own_blocks(grid):
        defaults, saved = _defaults(block), past.get(kind, {}).get(block.name, {})
        for name, former in saved.get("defaults", {}).items():
            if name in defaults and block.axes[name] == (former,):
                defaults[name] = former
        found[kind][block.name] = {"where": block.where, "defaults": defaults}
    return found


def changed_defaults(grid: Grid, past: RecordedClasses) -> Iterator[str]:
    """Yields a line on each default that differs from the saved one, with the value that is used.
    1 is not True, nor is it 1.0."""
    lines: dict[str, None] = {}
    for kind, block in own_blocks(grid):
        if block.name not in past.get(kind, {}):
            continue
        then, now = past[kind][block.name].get("defaults", {}), _defaults(block)
        for name in dict.fromkeys((*now, *then)):
            both = name in then and name in now
            if both and type(then[name]) is type(now[name]) and then[name] == now[name]:
                continue
            if name not in block.axes:
                gone = f"the field {name}, whose default was {then[name]}, is gone"
                lines[f"{block.name}: {gone}"] = None
                continue
            used = " and ".join(map(str, block.axes[name]))
            before = f"was {then[name]}" if name in then else "did not exist"
            after = f"is {now[name]} now" if name in now else "is gone"
            lines[
                f"{block.name}: the default of {name} {before} when the sweep was launched and "
                f"{after}; used is {used}"
            ] = None
    yield from lines


def _defaults(block: Block) -> dict[str, Any]:
    fields = parameters(block.kind).items()
    return {name: field.default for name, field in fields if field.default is not REQUIRED}
