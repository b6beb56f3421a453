"""What a shell offers for a word that is being typed: sweeps, grids, tasks, models and columns.

Each function returns what may stand there; Typer offers what begins with the typed word. Nothing
heavy is imported, and nothing is printed. What cannot be read offers nothing.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Literal

from sweepd.cli.output import results_address
from sweepd.errors import SweepdError


def complete_tasks() -> list[str]:
    return _defined("task")


def complete_models() -> list[str]:
    return _defined("model")


def _defined(kind: Literal["task", "model"]) -> list[str]:
    """Returns the names of the files that define a task or a model. Files that only help begin
    with _, or are the base."""
    from sweepd.grid.fingerprint import FOLDERS

    return sorted(path.stem for path in FOLDERS[kind].glob("[!_]*.py") if path.stem != "base")


def complete_grids() -> list[str]:
    from sweepd.grid.starters import shipped_grids

    return list(shipped_grids())


def complete_grid_files(incomplete: str) -> list[str]:
    """Returns the YAML files beside the typed word, and the folders to look for more in."""
    folder = Path(incomplete).parent if not incomplete.endswith("/") else Path(incomplete)
    with suppress(OSError):
        paths = sorted(folder.iterdir())
        files = [str(path) for path in paths if path.suffix in (".yaml", ".yml")]
        folders = [f"{path}/" for path in paths if path.is_dir() and path.name[0] != "."]
        return [("./" if incomplete[:2] == "./" else "") + path for path in (*files, *folders)]
    return []


def complete_sweeps() -> list[str]:
    from sweepd.store.store import Store

    with suppress(SweepdError):
        store = Store.find(results_address(None))
        return store.sweeps() if store else []
    return []


def complete_question(incomplete: str) -> list[str]:
    """Returns the question with its last word completed. The first word becomes a verb, a later one
    a column of this store, `by` or `where`."""
    from sweepd.query.database import connect
    from sweepd.query.parser import VERBS
    from sweepd.store.store import Store

    start = incomplete.removesuffix(re.findall(r"\w*$", incomplete)[0])
    if not start.strip():
        return [start + verb for verb in VERBS]
    with suppress(SweepdError):
        if store := Store.find(results_address(None)):
            columns = connect(store, code="all").columns
            return [start + name for name in (*columns, "by", "where")]
    return []
