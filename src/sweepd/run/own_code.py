"""The user's own code in the store. It is kept at launch, and put back where the original is gone
or has changed since."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid.fingerprint import (
    KINDS,
    Class,
    called,
    current_code,
    fingerprint,
    is_program,
    source,
    trial_code,
    trial_files,
)
from sweepd.grid.options import column
from sweepd.grid.plan import Plan
from sweepd.grid.registry import hold, is_own
from sweepd.grid.spec import Grid
from sweepd.grid.user_classes import own_blocks, own_files
from sweepd.limits import text_in_column
from sweepd.provenance import ORIGIN
from sweepd.store.store import Store, SweepInfo
from sweepd.trial.workplace import LaunchCopy, name_of

MOST_BYTES = 2**20
"""The largest size of a file of code, in bytes. A larger file holds data, not code."""

Sources = dict[str, dict[str, dict[str, str]]]
LIKE_ANOTHER = re.compile(r"true|false|[-+]?\.?\d.*", re.DOTALL)
"""A pattern of texts that a number or a bool may also have in a column of several types."""


def keep_sources(plan: Plan, store: Store) -> Sources:
    """Writes the user's own files to the store. Returns what `SweepInfo.sources` says of this plan.
    Raises UserError for a file above MOST_BYTES, or one that has changed since it was planned."""
    sources: Sources = {}
    base = plan.grid.base
    for classes in dict.fromkeys(trial.classes for trial in plan.trials):
        beside, packages = own_files(classes, base)
        if not (beside or packages):
            continue
        code = trial_code(classes, base).digest
        if code not in plan.codes:
            names = " or ".join(called(where) for _, where in classes)
            raise UserError(f"a file of {names} was changed meanwhile; launch again")
        of_code = sources.setdefault(code, {"beside": {}, "packages": {}})
        for place, paths in (("beside", beside), ("packages", packages)):
            for name, file in paths.items():
                data = file.read_bytes()
                if len(data) > MOST_BYTES and not is_program(classes[0][1]):
                    raise UserError(
                        f"{file}: {len(data):,} bytes are too many for code, of which results keep "
                        f"a copy; move its data to a file of its own (at most {MOST_BYTES:,})"
                    )
                of_code[place][name] = store.keep_source(data)
    return sources


@contextmanager
def folder_of(
    sweep: str, info: SweepInfo, store: Store, say: Callable[[str], None]
) -> Iterator[Path]:
    """Yields the folder of a sweep's grid. Where the user's classes are no longer found there, it
    is a temporary folder with the files that the store keeps, and `say` is told so."""
    gone = ""
    for kind in KINDS:
        for own in info.own_classes.get(kind, {}).values():
            try:
                source(kind, own["where"], Path(info.base))
            except FileNotFoundError:
                gone = gone or own["where"]
    if not (gone and info.sources):
        yield Path(info.base)
        return
    # The folder says where the code comes from: its own folder, and the commit and the uncommitted
    # changes (`diff`) as it was last launched.
    launch = [one for one in store.launches() if one.get("sweep") == sweep][-1:]
    origin = {name: launch[0].get(name) if launch else None for name in ("commit", "diff")}
    with _restored(info, store) as base:
        base.joinpath(ORIGIN).write_text(json.dumps({**origin, "base": info.base}))
        keeps = f"going on with the code that {store.address} keeps, without data beside it"
        say(
            f"{info.base} lacks {called(gone)}: {keeps} (`sweepd launch` of the grid where it lies "
            "now finds that)"
        )
        yield base


def as_launched(
    sweep: str,
    every: Iterable[tuple[Class, ...]],
    base: Path,
    codes: Collection[str],
    store: Store,
    stack: ExitStack,
) -> tuple[Path, str | None]:
    """Loads the user's classes among these as the launch found them, once for this process.

    Returns the folder where their paths start, and what to note about it or None. The folder is
    that of the grid, `base`. Where the code of a class is none of the launch's versions, `codes`,
    it is a temporary folder with the files that the store keeps. That one lasts as long as `stack`.
    """
    own = [
        classes
        for classes in every
        if any(is_own(where) and not is_program(where) for _, where in classes)
    ]
    note = None
    for classes in own:
        code = current_code(classes, base)
        if code is None or code.digest not in codes:
            names = " or ".join(called(where) for _, where in classes)
            note = f"the code of {names} was changed since the launch: running the "
            note += f"launch's, which {store.address} keeps"
    if note:
        base = stack.enter_context(_restored(store.load_sweep(sweep), store))
    for classes in own:
        for kind, where in classes:
            if is_own(where):
                with suppress(UserError):  # the trial will raise it again, and record it
                    hold(kind, where, base)
    return base, note


def launch_copy(
    sweep: str, base: Path, codes: Collection[str], store: Store, launch: int
) -> LaunchCopy:
    """Returns this machine's copy of the grid's folder for the programs of a launch, with the files
    of these versions of the code as the store keeps them."""

    def pinned() -> dict[str, bytes]:
        sources = store.load_sweep(sweep).sources
        files = (sources[code]["beside"] for code in sources if code in codes)
        return {name: store.read_source(kept) for of in files for name, kept in of.items()}

    return LaunchCopy.of(base, name_of(store.address, launch), pinned)


@contextmanager
def _restored(info: SweepInfo, store: Store) -> Iterator[Path]:
    """Writes the kept files to a temporary folder for the block, each as the latest launch had it.
    Yields the grid's folder there. What lies beside the originals or the grid and is no code, as
    data does, is linked to. Packages in the folder can be imported, here and in processes that this
    one starts. Raises EnvironmentFailure for a file that would lie outside of the folder."""
    beside: dict[str, str] = {}
    packages: dict[str, str] = {}
    for files in info.sources.values():
        beside |= files["beside"]
        packages |= files["packages"]
    outside = max((Path(name).parts.count("..") for name in beside), default=0)
    with TemporaryDirectory(prefix="sweepd-code-") as temporary:
        folder = Path(temporary)
        base = folder.joinpath("grid", *("below" for _ in range(outside)))
        base.mkdir(parents=True)
        for start, names in ((base, beside), (folder, packages)):
            for name, kept in names.items():
                target = Path(os.path.normpath(start / name))
                if not target.is_relative_to(folder):
                    raise EnvironmentFailure(f"{store.address}: {name} lies outside of its grid")
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(store.read_source(kept))
                target.chmod(0o755)  # a program may be run
        for place in {Path(), *(Path(name).parent for name in beside)}:
            origin, copy = (Path(os.path.normpath(root / place)) for root in (info.base, base))
            for path in origin.iterdir() if origin.is_dir() else ():
                if path.suffix != ".py" and not (copy / path.name).exists():
                    (copy / path.name).symlink_to(path)
        before = os.environ.get("PYTHONPATH")
        sys.path.insert(0, temporary)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (temporary, before)))
        importlib.invalidate_caches()
        try:
            yield base
        finally:
            sys.path.remove(temporary)
            if before is None:
                del os.environ["PYTHONPATH"]
            else:
                os.environ["PYTHONPATH"] = before


def refuse_namesakes(grid: Grid, sweeps: Mapping[str, SweepInfo]) -> None:
    """Raises UserError where another sweep of the store calls another class by a name of this grid,
    since no answer could tell the two apart."""
    for kind, block in own_blocks(grid):
        ours = source(kind, block.where, grid.base)
        for sweep, info in sweeps.items():
            where = info.class_of(kind, block.name)
            if sweep == grid.name or block.name not in info.own_classes.get(kind, {}):
                continue
            try:
                theirs = source(kind, where, Path(info.base))
            except FileNotFoundError:
                continue  # it has moved, or was on another machine
            if is_program(block.where) or is_program(where):
                mine = current_code([(kind, block.where)], grid.base)
                same = mine == current_code([(kind, where)], Path(info.base))
                same = same or (is_program(where) and ours.samefile(theirs))
            else:
                same = where.rpartition(":")[2] == block.where.rpartition(":")[2]
                if same and not ours.samefile(theirs):
                    codes = (fingerprint(trial_files(f, f), f.parent) for f in (ours, theirs))
                    same = len({code.digest for code in codes}) == 1
            if not same:
                what = "program" if is_program(block.where) else "class"
                raise UserError(
                    f"{grid.document.place(block.keys)}: in sweep {sweep}, {block.name} is "
                    f"another {what}, that of {theirs}; tell them apart by an alias (`as: …`), "
                    "or by another results folder"
                )


def refuse_other_spellings(grid: Grid, columns: Collection[str]) -> None:
    """Raises UserError where a field of the user's own differs from a column of the results in its
    capitals alone: SQL takes the two for one, so that no question could be asked over both."""
    known = {name.lower(): name for name in columns}
    for kind, block in own_blocks(grid):
        for field in block.axes:
            name = column(kind, field)
            if name not in columns and (other := known.get(name.lower())):
                raise UserError(
                    f"{grid.document.place(block.keys)}: {block.name} has a field {name}, and "
                    f"these results have a column {other}, which SQL takes for the same; rename "
                    "the field, or use another results folder"
                )


def refuse_twins(plan: Plan, ended: pa.Table) -> None:
    """Raises UserError where a trial that has ended differs from a planned one in the type of a
    value alone, such as '1' and 1. A column of several types holds texts, so that the two would be
    counted as seeds of one cell."""
    for kind, block in own_blocks(plan.grid):
        mixed = [
            field
            for field, values in block.axes.items()
            if (name := column(kind, field)) in ended.column_names
            for value in values
            if value is not None
            and (
                pa.scalar(value).type != ended.schema.field(name).type
                or (isinstance(value, str) and LIKE_ANOTHER.fullmatch(value))
            )
        ]
        trials = [t for t in plan.trials if block.name in (t.task_name, t.model_name)]
        if not mixed or not trials:
            continue
        from pyarrow import compute  # which takes a while

        axes = {name for trial in trials for name in trial.axes}
        names = sorted({"task", "model", "seed", "code", *axes}.intersection(ended.column_names))
        of_block = compute.equal(ended["task" if kind == "task" else "model"], block.name)
        rows = ended.filter(of_block).select([*names, "id", "sweep"]).to_pylist()

        def texts(row: Mapping[str, Any], names: Iterable[str] = names) -> tuple[str | None, ...]:
            given = map(row.get, names)
            return tuple(None if value is None else text_in_column(value) for value in given)

        theirs: dict[tuple[str | None, ...], dict[str, str]] = {}
        for row in rows:
            theirs.setdefault(texts(row), {})[row["id"]] = row["sweep"]
        for trial in trials:
            found = theirs.get(texts(trial.row()), {trial.id: ""})
            if trial.id not in found:
                named = " or ".join(dict.fromkeys(mixed))
                raise UserError(
                    f"{plan.grid.document.place(block.keys)}: sweep {next(iter(found.values()))} "
                    f"has a trial that differs from one of these in the type of {named} alone "
                    "(a number, a text, or true or false), and results cannot tell the two apart; "
                    "write the value as there, or use another results folder"
                )
