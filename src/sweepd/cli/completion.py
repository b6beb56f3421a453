"""What a shell offers for a word that is being typed: sweeps, grids, tasks, models and columns.

Nothing heavy is imported, and nothing is printed. What cannot be read offers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from sweepd.cli.output import results_address
from sweepd.errors import SweepdError


def complete_tasks(incomplete: str) -> list[str]:
    """Returns the shipped tasks that begin with the typed word."""
    from sweepd.grid.fingerprint import FOLDERS

    return _beginning(incomplete, _files(FOLDERS["task"]))


def complete_models(incomplete: str) -> list[str]:
    """Returns the shipped models that begin with the typed word."""
    from sweepd.grid.fingerprint import FOLDERS

    return _beginning(incomplete, _files(FOLDERS["model"]))


def complete_grids(incomplete: str) -> list[str]:
    """Returns the shipped grids that begin with the typed word."""
    from sweepd.grid.starters import shipped_grids

    return _beginning(incomplete, shipped_grids())


def complete_grid_files(incomplete: str) -> list[str]:
    """Returns the YAML files that begin with the typed word, and folders to look for them in."""
    folder = Path(incomplete).parent if not incomplete.endswith("/") else Path(incomplete)
    with suppress(OSError):
        found = sorted(folder.iterdir())
        files = [str(path) for path in found if path.suffix in (".yaml", ".yml")]
        folders = [f"{path}/" for path in found if path.is_dir() and path.name[0] != "."]
        return _beginning(incomplete.removeprefix("./"), [*files, *folders])
    return []


def complete_sweeps(incomplete: str) -> list[str]:
    """Returns the sweeps of the results folder that begin with the typed word."""
    from sweepd.store.store import Store

    with suppress(SweepdError):
        store = Store.find(results_address(None))
        return _beginning(incomplete, store.sweeps() if store else [])
    return []


def complete_question(incomplete: str) -> list[str]:
    """Returns the question with its last word completed. The first word becomes a verb, a later one
    a column of this store, `by` or `where`."""
    from sweepd.query.database import connect
    from sweepd.query.parser import VERBS
    from sweepd.store.store import Store

    word = re.findall(r"\w*$", incomplete)[0]
    start = incomplete.removesuffix(word)
    if not start.strip():
        return _beginning(word, VERBS)
    with suppress(SweepdError):
        if store := Store.find(results_address(None)):
            columns = connect(store, code="all").columns
            return [start + name for name in _beginning(word, [*columns, "by", "where"])]
    return []


def _files(folder: Path) -> list[str]:
    """Returns the names of the files that define a task or model. Files that only help begin with
    _, or are the base."""
    return sorted(path.stem for path in folder.glob("[!_]*.py") if path.stem != "base")


def _beginning(start: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(start)]


SweepName = Annotated[
    str | None,
    typer.Argument(metavar="[SWEEP]", show_default=False, autocompletion=complete_sweeps),
]
