"""What one store has and another lacks, as steps that bring it there.

Launches of two stores have different numbers (`Store.new_launch`), and so have their attempts. No
row of one store has the key of a different row of another's. So a merge copies what is not there
yet: files by their names, which their content determines, and endings row by row, since a sweep
may get another name. A merge that was cut off goes on where it was. `endings.counting` says which
ending of a trial counts.

Each step may be the last. So launches come before the rows that they number, metrics before the
checkpoints and the endings after them, and sweeps last.
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import pyarrow as pa

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.statuses import RAN
from sweepd.store.endings import statuses
from sweepd.store.names import Checkpoint
from sweepd.store.schema import BOOL, METRICS, TEXT, TRIALS, column
from sweepd.store.storage import (
    DIGEST_LENGTH,
    Damaged,
    File,
    Folder,
    Unfit,
    checked,
    digest,
    each,
    unsealed,
)
from sweepd.store.store import MOST_STATE, Store, record_of, sweep_lock
from sweepd.store.sweeps import GRID, SweepInfo, accepting
from sweepd.store.tables import MOST_ROWS, NAME, batches, look, replaced_by

JOINED = ("created", "base", "code_files", "own_classes", "sources", "accepted_for", "neutral")
"""The fields of SweepInfo in which two versions of a sweep may differ: where it was launched, with
which files, and which earlier versions of the code were accepted. What both say is kept."""


@dataclass(frozen=True)
class MergeStep:
    """Something that a store lacks. kind: the word that people see for it. bring: brings it."""

    kind: str
    count: int
    bring: Callable[[], object]


def merge(
    ours: Store, theirs: Store, renamed: Mapping[str, str], damaged: list[Damaged]
) -> Iterator[MergeStep]:
    """Brings what `lacks` tells. Yields each step once it is done.

    A merge that was cut off goes on when it is called again. Raises EnvironmentFailure while
    a driver runs one of these sweeps here, since it may not know what the merge brings.
    """
    names = {*ours.sweeps(), *(renamed.get(name, name) for name in theirs.sweeps())}
    taken = ours.locks.acquire([sweep_lock(name) for name in names])
    try:
        if driven := sorted(name for name in names if sweep_lock(name) not in taken):
            raise EnvironmentFailure(
                f"{ours.address}: a driver runs {', '.join(driven)}; merge when it has ended, "
                "or end it with `sweepd cancel`"
            )
        for step in lacks(ours, theirs, renamed, damaged):
            ours.locks.confirm()
            step.bring()
            yield step
    finally:
        ours.locks.release(taken)


def lacks(
    ours: Store, theirs: Store, renamed: Mapping[str, str], damaged: list[Damaged]
) -> Iterator[MergeStep]:
    """Yields what `theirs` has and `ours` lacks, as steps in the order in which it must come.

    renamed: new names of their sweeps. `damaged` gets what could not be read. Raises UserError for
    two sweeps of one name that differ, where a name stands for another class or program in each,
    and if both stores are the same. Raises EnvironmentFailure if a file of theirs is deleted
    meanwhile, and where both have a launch of one number.
    """
    if os.path.realpath(theirs.address) == os.path.realpath(ours.address):
        raise UserError(f"{ours.address}: a store cannot be merged into itself")
    try:
        sweeps = _sweeps(ours, theirs, renamed, damaged)  # refuses before anything is written
        there = ours.launch_numbers()
        for number in theirs.launch_numbers():
            name, record = record_of(number), theirs.launch(number)
            mine = ours.launch(number) if number in there else {"damaged": "missing"}
            if "damaged" in record:
                damaged.append(Damaged(theirs.folder.where(name), record["damaged"]))
            elif "damaged" in mine:
                put = partial(ours.folder.put, name, theirs.folder.read(name))
                yield MergeStep("launches", 1, put)
            elif mine != record:
                raise EnvironmentFailure(
                    f"launch {number} of {ours.address} is another one than that of "
                    f"{theirs.address}: both began in the same microsecond, or a record was "
                    "changed; these stores cannot be merged"
                )
        yield from _files(ours, theirs, "code", "files of code", damaged)
        yield from _files(ours, theirs, "checked", "inspections", damaged)
        yield from _files(ours, theirs, "files", "files that programs wrote", damaged)
        yield from _metrics(ours, theirs, damaged)

        our_endings, their_endings = ours.read_trials(), theirs.read_trials()
        damaged += our_endings.damaged + their_endings.damaged
        mine, endings = our_endings.table, their_endings.table
        names = [renamed.get(name, name) for name in endings["sweep"].to_pylist()]
        endings = _of_sweeps(endings, names)
        after = statuses(TRIALS.concat([mine, endings]))

        def trains_on(name: str) -> bool:
            # The state is kept for longer trials, or its trial did not run to its end.
            checkpoint = Checkpoint.parse(name.rpartition("/")[2])
            return bool(checkpoint and (checkpoint.kept or after.get(checkpoint.trial) not in RAN))

        yield from _files(ours, theirs, "checkpoints", "checkpoints", damaged, trains_on)
        yield from _logs(ours.folder, theirs.folder, damaged)

        # The endings whose key we lack, and those that count before our row of that key
        # (`Layout.first_by`; null comes last).
        def keyed(rows: pa.Table) -> Iterator[tuple[tuple[object, ...], Any]]:
            *key, first = (rows[name].to_pylist() for name in (*TRIALS.key, TRIALS.first_by))
            return zip(zip(*key, strict=True), first, strict=True)

        here = dict(keyed(mine))
        wanted = [
            key not in here or (first is not None and (here[key] is None or first < here[key]))
            for key, first in keyed(endings)
        ]
        lacking = endings.filter(column(wanted, BOOL))
        for start in range(0, lacking.num_rows, MOST_ROWS):
            part = lacking.slice(start, MOST_ROWS)
            add = partial(ours.trials.add, *ours.trials.pack(part))
            yield MergeStep("endings", part.num_rows, add)
    except FileNotFoundError as error:
        raise EnvironmentFailure(
            f"{error.filename or theirs.address}: deleted meanwhile; merge again"
        ) from error
    yield from sweeps


def _metrics(ours: Store, theirs: Store, damaged: list[Damaged]) -> Iterator[MergeStep]:
    """Yields the steps that bring files of metrics. A damaged file of ours is replaced by theirs of
    the same name, which has the content that ours had."""
    our_contents, our_damaged = ours.metrics.whole()
    contents, their_damaged = theirs.metrics.whole()
    damaged += their_damaged
    broken = {one.path.rpartition("/")[2]: one for one in our_damaged}
    there = {content.file.name for content in our_contents} | replaced_by(our_contents)
    replaced, copied = replaced_by(contents), dict[File, int]()
    for content in contents:
        file, held = content.file, content.replaces
        is_here = file.name in there or (held and there.issuperset(held))
        if file.name in replaced or (is_here and file.name not in broken):
            continue
        broken.pop(file.name, None)
        # A file of ours by one of these names is the same if its content determines the name.
        if all(NAME.fullmatch(name) for name in (file.name, *held)):
            copied[file] = content.rows
            continue
        read = look(theirs.folder, "metrics", file, METRICS, whole=True)
        assert not isinstance(read, Damaged)
        name, data = ours.metrics.pack(METRICS.unique(read.table))
        if name not in there:
            add = partial(ours.metrics.add, name, data)
            yield MergeStep("rows of metrics", read.rows, add)
    for batch in batches(copied):
        paths = [f"metrics/{file.name}" for file in batch]
        bring = partial(each, lambda name: ours.folder.put(name, theirs.folder.read(name)), paths)
        yield MergeStep("rows of metrics", sum(copied[file] for file in batch), bring)
    damaged += broken.values()


def _files(
    ours: Store,
    theirs: Store,
    below: str,
    kind: str,
    damaged: list[Damaged],
    wanted: Callable[[str], bool] = lambda name: True,
) -> Iterator[MergeStep]:
    """Yields the steps that bring the wanted files of a folder that ours lacks and are whole."""
    there = {file.name for file in ours.folder.files(below)}
    for file in theirs.folder.files(below):
        if file.name in there or not wanted(file.name):
            continue
        name = f"{below}/{file.name}"
        try:
            data = theirs.folder.read(name, most=MOST_STATE)
            if below == "checkpoints":
                unsealed(data)
            if below == "code" and hashlib.sha256(data).hexdigest() != file.name[:-3]:
                raise ValueError("truncated or changed: its digest is another")
        except ValueError as error:
            damaged.append(Damaged(theirs.folder.where(name), str(error)))
        else:
            yield MergeStep(kind, 1, partial(ours.folder.put, name, data))


def _logs(ours: Folder, theirs: Folder, damaged: list[Damaged]) -> Iterator[MergeStep]:
    """Yields the steps that bring what logs hold and ours do not. Where our own text is how theirs
    begins, only the rest is new. A text that came before is replaced by one that begins with it."""
    mine = _texts(ours, damaged)
    for trial, texts in _texts(theirs, damaged).items():
        here = mine.get(trial, {})
        for text in texts.values():
            new = text.removeprefix(here.get("", b""))
            if new and not any(new in held for held in here.values()):
                old = [name for name, held in here.items() if name and new.startswith(held)]
                yield MergeStep("logs", 1, partial(_bring_log, ours, trial, new, old))


def _bring_log(folder: Folder, trial: str, text: bytes, replaced: Sequence[str]) -> None:
    folder.put(f"logs/{trial}/{digest(text)}.log", text)
    folder.delete([f"logs/{name}" for name in replaced])


def _texts(folder: Folder, damaged: list[Damaged]) -> dict[str, dict[str, bytes]]:
    """Returns, by trial, what came to its log from other stores, by file, and what it logged here,
    joined from its parts, as the file ""."""
    texts: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
    for file in folder.files("logs"):  # TRIAL.log, TRIAL/NNN.log or TRIAL/DIGEST.log (brought)
        trial, _, part = file.name.removesuffix(".log").partition("/")
        name = file.name if len(part) == DIGEST_LENGTH else ""
        try:
            text = folder.read(f"logs/{file.name}")
        except Unfit as error:
            damaged.append(Damaged(folder.where(f"logs/{file.name}"), str(error)))
            continue
        texts[trial][name] = texts[trial].get(name, b"") + text
    return texts


def _sweeps(
    ours: Store, theirs: Store, renamed: Mapping[str, str], damaged: list[Damaged]
) -> list[MergeStep]:
    """Returns the steps that bring sweeps of theirs here. `damaged` gets those that cannot be read.

    A sweep that both stores have under one name is the same if it differs in JOINED alone. If one
    store went on with the other's sweep, the version that plans all trials of the other is kept.
    Where our `sweep.json` or our plan is damaged, theirs of the same grid is brought if it has all
    that is left of ours. Raises UserError where they differ otherwise, where two sweeps would get
    one name, and for a new name of a sweep that is not there.
    """
    infos, unreadable = theirs.readable_sweeps()
    damaged += unreadable
    if unknown := set(renamed).difference(infos):
        theirs.load_sweep(min(unknown))  # raises, and says which sweeps there are
    names = [checked(renamed.get(name, name)) for name in infos]
    if clashing := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"--rename: two sweeps would be called {clashing[0]}; choose another name")
    compared = [field.name for field in fields(SweepInfo) if field.name not in JOINED]
    steps: list[MergeStep] = []
    there, (readable, unreadable) = set(ours.sweeps()), ours.readable_sweeps()
    _refuse_namesakes(_named(ours, readable), _named(theirs, infos), renamed)
    _refuse_other_spellings(ours, theirs)
    for name, info in infos.items():
        called = renamed.get(name, name)
        read = theirs.read_plans([name])
        if read.damaged:
            damaged += read.damaged
            continue
        plan = _of_sweeps(read.table, [called] * read.table.num_rows)
        try:
            grid = theirs.read_grid(name)
        except (FileNotFoundError, ValueError) as error:
            damaged.append(Damaged(theirs.folder.where(f"sweeps/{name}/{GRID}"), str(error)))
            continue
        if called not in there:
            steps.append(_sweep(ours, called, grid, info, plan))
            continue
        mine, my_plan = readable.get(called), ours.read_plans([called])
        trials, my_trials = _trials(plan), _trials(my_plan.table)
        differing = [n for n in compared if mine and getattr(mine, n) != getattr(info, n)]
        if mine is None or my_plan.damaged:
            # As far as the one of the two that is whole tells, theirs must have all that ours had.
            if mine is None:
                covered = not my_plan.damaged and my_trials <= trials
            else:
                same_sweep = mine.created == info.created and not differing
                covered = same_sweep and mine.code_files.keys() <= info.code_files.keys()
            if covered and ours.load_grid(called) == grid:
                kept = info if mine is None else _with_files_of(info, mine)
                steps.append(_sweep(ours, called, grid, kept, plan))
            else:
                damaged += my_plan.damaged
                damaged += (one for one in unreadable if f"sweeps/{called}/" in one.path)
            continue
        goes_on = mine.created == info.created and (my_trials < trials or trials < my_trials)
        if not goes_on and (differing or my_trials != trials):
            what = ", ".join([*differing, *(["trials"] if my_trials != trials else [])])
            raise UserError(
                f"sweep {called}: both stores have one of this name, and they differ in their "
                f"{what}. Bring theirs under another name: --rename {called}=NEW"
            )
        if my_trials < trials:
            steps.append(_sweep(ours, called, grid, _with_files_of(mine, info), plan))
        elif (joined := _with_files_of(info, mine)) != mine:
            steps.append(_sweep(ours, called, ours.load_grid(called), joined, my_plan.table))
    return steps


@dataclass(frozen=True)
class _Named:
    """A class or program of a user's, as a sweep names it in results. files: the digests of its
    files, by code and by their path from `base`."""

    where: str
    base: str
    files: Mapping[str, Mapping[str, str]]

    def own_files(self) -> dict[str, set[str]]:
        """Returns, by path, the digests of the file of a class, or of all files of a program."""
        file, colon, _ = self.where.rpartition(":")
        file = file if file.endswith(".py") else file.replace(".", "/") + ".py"
        is_class = bool(colon) and not self.where.startswith("{")
        digests = defaultdict[str, set[str]](set)
        for paths in self.files.values():
            for path, text in paths.items():
                if "`" not in path and (not is_class or path.endswith(file)):
                    digests[path].add(text)
        return digests

    def is_same(self, other: _Named) -> bool:
        """Returns whether both are one: the same code, a file at the same place, which may have
        been edited, or, of a class, a file of the same content."""
        if self.files.keys() & other.files.keys():
            return True
        ours, theirs = self.own_files(), other.own_files()
        if self.base == other.base and ours.keys() & theirs.keys():
            return True
        classes = {one.where.rpartition(":")[2] for one in (self, other)}
        contents = (set().union(*files.values()) for files in (ours, theirs))
        is_program = self.where.startswith("{") or other.where.startswith("{")
        return not is_program and len(classes) == 1 and bool(set.intersection(*contents))


def _named(
    store: Store, infos: Mapping[str, SweepInfo]
) -> dict[tuple[str, str], dict[str, _Named]]:
    """Returns, by kind and by name in results, what the sweeps of a store call so."""
    named: defaultdict[tuple[str, str], dict[str, _Named]] = defaultdict(dict)
    for sweep, info in infos.items():
        if not any(info.own_classes.values()):
            continue
        plan = store.read_plans([sweep]).table
        for kind, classes in info.own_classes.items():
            called = plan["task" if kind == "task" else "model"].to_pylist()
            for name, own in classes.items():
                codes = zip(plan["code"].to_pylist(), called, strict=True)
                files = {c: info.code_files.get(c, {}) for c, model in codes if model == name}
                named[kind, name][sweep] = _Named(own["where"], info.base, files)
    return named


def _refuse_namesakes(
    ours: Mapping[tuple[str, str], Mapping[str, _Named]],
    theirs: Mapping[tuple[str, str], Mapping[str, _Named]],
    renamed: Mapping[str, str],
) -> None:
    """Raises UserError where both stores call two different classes or programs by one name, as
    `run.own_code.refuse_namesakes` does at a launch: no answer could tell the two apart."""
    for (kind, name), sweeps in theirs.items():
        for sweep, their in sweeps.items():
            for other, our in ours.get((kind, name), {}).items():
                if renamed.get(sweep, sweep) != other and not our.is_same(their):
                    what = "program" if their.where.startswith("{") else "class"
                    raise UserError(
                        f"sweep {sweep}: {name} is another {what} ({their.base}) than that of "
                        f"sweep {other} here ({our.base}), and answers could not tell the two "
                        f"apart. Launch one of them under an alias of its own (`as: …`), or keep "
                        "two stores"
                    )


def _refuse_other_spellings(ours: Store, theirs: Store) -> None:
    """Raises UserError where fields of the two stores differ in their capitals alone, which SQL
    takes for one column."""
    here, there = (
        {*store.read_plans().table.column_names, *store.read_trials().table.column_names}
        for store in (ours, theirs)
    )
    spelled = {name.lower(): name for name in here}
    for name in sorted(there - here):
        if (other := spelled.get(name.lower(), name)) != name:
            raise UserError(
                f"{theirs.address} has a field or metric {name}, and {ours.address} has {other}, "
                "which SQL takes for one column; keep two stores"
            )


def _sweep(ours: Store, name: str, grid: str, info: SweepInfo, plan: pa.Table) -> MergeStep:
    return MergeStep("sweeps", 1, partial(ours.write_sweep, name, grid, info, plan))


def _of_sweeps(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Returns the table with these sweeps, one a row."""
    at = table.column_names.index("sweep")
    return table.set_column(at, "sweep", column(names, TEXT))


def _trials(plan: pa.Table) -> set[tuple[str, bool]]:
    """Returns the ids of the planned trials, each with whether the trial runs on demand."""
    on_demand = (bool(value) for value in plan["on_demand"].to_pylist())
    return set(zip(plan["id"].to_pylist(), on_demand, strict=True))


def _with_files_of(earlier: SweepInfo, info: SweepInfo) -> SweepInfo:
    """Returns a sweep that also knows the files and classes of an earlier version of it, and
    accepts what that one did."""
    kinds = {*earlier.own_classes, *info.own_classes}
    return replace(
        info,
        code_files={**earlier.code_files, **info.code_files},
        sources={**earlier.sources, **info.sources},
        accepted_for=accepting(earlier.accepted_for, info.accepted_for),
        own_classes={
            kind: {**earlier.own_classes.get(kind, {}), **info.own_classes.get(kind, {})}
            for kind in sorted(kinds)
        },
    )
