"""The folder that travels to a cluster: sweepd's own code as it is here, the grid, the user's own
tasks and models with all that they import beside them, and a note of where it all comes from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from os.path import commonpath, normpath
from pathlib import Path

from sweepd.cluster.base import Remote
from sweepd.errors import UserError
from sweepd.grid.fingerprint import PACKAGE, Kind, source, trial_files
from sweepd.grid.spec import Grid
from sweepd.grid.yamlfile import dump
from sweepd.provenance import ORIGIN, home, provenance

PLACE = "cluster.yaml"
"""The cluster file in the folder, for the driver: it joins the Ray that it finds."""
MOST_BYTES = 20_000_000
"""Only source text travels: more than this is a mistake."""


def pack(grid: Grid, cluster: Remote, folder: Path) -> str:
    """Fill an empty folder: the path in it of the grid, which is run from there.

    UserError for a task or model that is named by an absolute path, or for too much code.
    """
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    beside, packaged = _own_files(grid)
    top = Path(commonpath([grid.base, *beside]))
    for file in beside:
        _copy(file, folder / "grid" / file.relative_to(top))
    for file, root in packaged.items():
        _copy(file, folder / file.relative_to(root))
    base = folder / "grid" / grid.base.relative_to(top)
    base.mkdir(parents=True, exist_ok=True)
    (base / "grid.yaml").write_text(grid.resolved_text())
    origin = {**provenance(grid.base), "base": home(grid.base)}
    (base / ORIGIN).write_text(json.dumps(origin))
    nodes = {name: asdict(one) for name, one in cluster.types().items()}
    place = {"kind": "local", "ray": "auto", "per_trial": asdict(cluster.per_trial), "nodes": nodes}
    (folder / PLACE).write_text(dump(place))
    sizes = {file: file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    if sum(sizes.values()) > MOST_BYTES:
        largest = max(sizes, key=sizes.__getitem__).relative_to(folder)
        raise UserError(f"the code to send is larger than {MOST_BYTES:,} bytes; see {largest}")
    return str((base / "grid.yaml").relative_to(folder))


def _own_files(grid: Grid) -> tuple[list[Path], dict[Path, Path]]:
    """The user's files: those that keep their place relative to the grid, and those of importable
    packages, each with the folder from which it is imported."""
    beside: list[Path] = []
    packaged: dict[Path, Path] = {}
    kinds: tuple[Kind, ...] = ("task", "model")
    for kind in kinds:
        for block in grid.blocks[kind]:
            where, colon, _ = block.name.rpartition(":")
            if not colon:
                continue
            if Path(where).is_absolute():
                raise UserError(
                    f"{block.name}: another machine has no such path; name it relative to the grid"
                )
            path = source(kind, block.name, grid.base)
            if where.endswith(".py"):
                beside += _imported(path, path.parent)
            else:
                depth = where.count(".") + (path.name == "__init__.py")
                root = path.parents[depth]
                packaged |= dict.fromkeys(_imported(path, root), root)
    return beside, packaged


def _imported(path: Path, root: Path) -> Iterator[Path]:
    """A file of the user's and all of theirs that importing it from `root` runs."""
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


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
