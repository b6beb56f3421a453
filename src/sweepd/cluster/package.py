"""The folder that travels to a cluster: sweepd's own code as it is here, the grid, the user's own
tasks and models with all that they import beside them, and a note of where it all comes from."""

import json
import shutil
from dataclasses import asdict
from os.path import commonpath
from pathlib import Path

from sweepd.cluster.base import Remote
from sweepd.errors import UserError
from sweepd.grid.fingerprint import PACKAGE
from sweepd.grid.spec import Grid
from sweepd.grid.user_classes import imports_of_others, own_blocks, own_files
from sweepd.grid.yamlfile import dump
from sweepd.provenance import ORIGIN, home, provenance

PLACE = "cluster.yaml"
"""The name of the cluster file in the folder. The driver reads it, and joins the Ray cluster that
it finds."""
MOST_BYTES = 20_000_000
"""The most bytes of code that are sent. Only source text is sent, so more than this is a
mistake."""


def pack(grid: Grid, cluster: Remote, folder: Path) -> str:
    """Fills an empty folder with what a sweep needs to run elsewhere. Returns the path of the grid
    in it.

    Raises UserError for a task or model that is named by an absolute path, for one that imports
    what the nodes will not have, or for too much code.
    """
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    classes = [(kind, block.where) for kind, block in own_blocks(grid)]
    for _, where in classes:
        if Path(where).is_absolute():
            raise UserError(
                f"{where}: another machine has no such path; name it relative to the grid"
            )
    cluster.check_imports(imports_of_others(grid))
    beside, packages = own_files(classes, grid.base)
    top = Path(commonpath([grid.base, *beside.values()]))
    for file in beside.values():
        _copy(file, folder / "grid" / file.relative_to(top))
    for name, file in packages.items():
        _copy(file, folder / name)
    base = folder / "grid" / grid.base.relative_to(top)
    base.mkdir(parents=True, exist_ok=True)
    (base / "grid.yaml").write_text(grid.resolved_text())
    origin = {**provenance(grid.base), "base": home(grid.base)}
    (base / ORIGIN).write_text(json.dumps(origin))
    nodes = {name: asdict(one) for name, one in cluster.types().items()}
    place = {"kind": "local", "ray": "auto", "per_trial": asdict(cluster.per_trial), "nodes": nodes}
    for name in ("start_seconds", "max_dollars", "max_hours"):
        if (limit := getattr(cluster, name)) is not None:
            place[name] = limit
    (folder / PLACE).write_text(dump(place))
    sizes = {file: file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    if sum(sizes.values()) > MOST_BYTES:
        largest = max(sizes, key=sizes.__getitem__).relative_to(folder)
        raise UserError(f"the code to send is larger than {MOST_BYTES:,} bytes; see {largest}")
    return str((base / "grid.yaml").relative_to(folder))


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
