"""What one store has and another lacks, as steps that bring it there.

Launches of two stores have different numbers (`names.next_launch`), and so have their attempts. No
row of one store has the key of a different row of another's. So a merge copies what is not there
yet: files by their names, which their content determines, and endings row by row, since a sweep
may get another name. A merge that was cut off goes on where it was. `endings.counting` says which
ending of a trial counts.

Each step may be the last. So launches come before the rows that they number, metrics before the
checkpoints and the endings after them, and sweeps last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import pyarrow as pa

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.statuses import RAN
from sweepd.store.endings import statuses
from sweepd.store.names import Checkpoint, records
from sweepd.store.parquet import NAME, load
from sweepd.store.schema import BOOL, TEXT, TRIALS, column, with_column
from sweepd.store.storage import (
    DIGEST_LENGTH,
    READERS,
    Damaged,
    File,
    Folder,
    checked,
    digest,
    each,
    unsealed,
)
from sweepd.store.sweeps import SweepFolder, SweepInfo, accepting
from sweepd.store.tables import MOST_ROWS, Read, TableFolder, batches

JOINED = ("created", "base", "code_files", "own_classes", "sources", "accepted_for")
"""The fields of SweepInfo in which two versions of a sweep may differ: where it was launched, with
which files, and which earlier versions of the code were accepted. What both say is kept."""


@dataclass(frozen=True)
class MergeStep:
    """Something that a store lacks. kind: the word that people see for it. count: how many such
    things there are. bring: a function that brings them."""

    kind: str
    count: int
    bring: Callable[[], object]


@dataclass
class MergeSide:
    """The parts of a store that a merge needs. damaged: the files that could not be read."""

    folder: Folder
    trials: TableFolder
    metrics: TableFolder
    damaged: list[Damaged] = field(default_factory=list)

    def endings(self) -> pa.Table:
        found = self.trials.read()
        self.damaged += found.damaged
        return found.table


def steps(ours: MergeSide, theirs: MergeSide, renamed: Mapping[str, str]) -> Iterator[MergeStep]:
    """Yields what `theirs` has and `ours` lacks, except sweeps, in the order in which it must come.

    renamed: new names of their sweeps. Raises FileNotFoundError if a file of theirs disappears, and
    EnvironmentFailure where both stores have a launch of one number.
    """
    there = records(ours.folder)
    for number, name in sorted(records(theirs.folder).items()):
        record = theirs.folder.read(name)
        if number not in there:
            yield MergeStep("launches", 1, partial(ours.folder.put, name, record))
        elif ours.folder.read(name) != record:
            raise EnvironmentFailure(
                f"launch {number} of {ours.folder.address} is another one than that of "
                f"{theirs.folder.address}: both began in the same microsecond, or a record was "
                "changed; these stores cannot be merged"
            )
    yield from _files(ours.folder, theirs, "code", "files of code", is_whole=_is_source)
    yield from _files(ours.folder, theirs, "checked", "inspections")
    yield from _metrics(ours, theirs)

    our_endings, their_endings = ours.endings(), theirs.endings()
    names = [renamed.get(name, name) for name in their_endings["sweep"].to_pylist()]
    endings = with_column(their_endings, "sweep", column(names, TEXT))
    after = statuses(TRIALS.concat([our_endings, endings]))

    def trains_on(name: str) -> bool:
        """Whether a trial may still train on from a state: it is kept, or its trial did not run to
        its end."""
        checkpoint = Checkpoint.parse(name.rpartition("/")[2])
        return bool(checkpoint and (checkpoint.kept or after.get(checkpoint.trial) not in RAN))

    yield from _files(
        ours.folder, theirs, "checkpoints", "checkpoints", trains_on, is_whole=_is_sealed
    )
    yield from _logs(ours.folder, theirs.folder)
    lacking = _lacking(endings, our_endings)
    for start in range(0, lacking.num_rows, MOST_ROWS):
        part = lacking.slice(start, MOST_ROWS)
        add = partial(ours.trials.add, *ours.trials.pack(part))
        yield MergeStep("endings", part.num_rows, add)


def _metrics(ours: MergeSide, theirs: MergeSide) -> Iterator[MergeStep]:
    """Yields the steps that bring files of metrics. A damaged file of ours is replaced by theirs of
    the same name, which has the content that ours had."""
    _, our_damaged = ours.metrics.whole()
    contents, their_damaged = theirs.metrics.whole()
    theirs.damaged += their_damaged
    broken = {one.path.rpartition("/")[2]: one for one in our_damaged}
    there = ours.metrics.names(broken.keys())
    copied: dict[File, int] = {}
    for content in contents:
        file, held = content.file, content.replaces
        is_here = file.name in there or (held and there.issuperset(held))
        if is_here and file.name not in broken:
            continue
        broken.pop(file.name, None)
        # A file of ours by one of these names is the same if its content determines the name.
        if all(NAME.fullmatch(name) for name in (file.name, *held)):
            copied[file] = content.rows
            continue
        table = load(theirs.folder, f"metrics/{file.name}", theirs.metrics.layout)
        assert not isinstance(table, Damaged)
        name, data = ours.metrics.pack(ours.metrics.layout.unique(table))
        if name not in there:
            add = partial(ours.metrics.add, name, data)
            yield MergeStep("rows of metrics", table.num_rows, add)
    for batch in batches(copied):
        paths = [f"metrics/{file.name}" for file in batch]
        bring = partial(_move, ours.folder, theirs.folder, *paths)
        yield MergeStep("rows of metrics", sum(copied[file] for file in batch), bring)
    ours.damaged += broken.values()


def _lacking(table: pa.Table, mine: pa.Table) -> pa.Table:
    """Returns the endings whose key `mine` lacks, and those that count before its row of that key
    (`Layout.first_by`; null comes last)."""

    def keyed(rows: pa.Table) -> list[tuple[tuple[object, ...], Any]]:
        *key, first = (rows[name].to_pylist() for name in (*TRIALS.key, TRIALS.first_by))
        return list(zip(zip(*key, strict=True), first, strict=True))

    there = dict(keyed(mine))
    wanted = [
        key not in there or (first is not None and (there[key] is None or first < there[key]))
        for key, first in keyed(table)
    ]
    return table.filter(column(wanted, BOOL))


def _files(
    ours: Folder,
    theirs: MergeSide,
    below: str,
    kind: str,
    wanted: Callable[[str], bool] = lambda name: True,
    is_whole: Callable[[str, bytes], bool] = lambda name, data: True,
) -> Iterator[MergeStep]:
    """Yields the steps that bring the files of a folder that ours lacks, if their names are wanted.
    One that is not whole is noted as damaged."""
    there = {file.name for file in ours.files(below)}
    for file in theirs.folder.files(below):
        if file.name in there or not wanted(file.name):
            continue
        name = f"{below}/{file.name}"
        if is_whole(file.name, data := theirs.folder.read(name)):
            yield MergeStep(kind, 1, partial(ours.put, name, data))
        else:
            changed = "truncated or changed: its digest is another"
            theirs.damaged.append(Damaged(theirs.folder.where(name), changed))


def _is_source(name: str, data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == name.removesuffix(".py")


def _is_sealed(name: str, data: bytes) -> bool:
    try:
        unsealed(data)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class _Log:
    """What a trial logged in a store, joined from its parts, and what came from other stores, by
    file."""

    own: bytes
    brought: Mapping[str, bytes]


def _logs(ours: Folder, theirs: Folder) -> Iterator[MergeStep]:
    """Yields the steps that bring what logs hold and ours do not. Where our own text is how theirs
    begins, only the rest is new. A text that came before is replaced by one that begins with it."""
    mine = _texts(ours)
    for trial, log in _texts(theirs).items():
        here = mine.get(trial, _Log(b"", {}))
        for text in (log.own, *log.brought.values()):
            new = text.removeprefix(here.own)
            if not any(new in held for held in (here.own, *here.brought.values())):
                old = [name for name, held in here.brought.items() if new.startswith(held)]
                yield MergeStep("logs", 1, partial(_bring_log, ours, trial, new, old))


def _bring_log(folder: Folder, trial: str, text: bytes, replaced: Sequence[str]) -> None:
    folder.put(f"logs/{trial}/{digest(text)}.log", text)
    folder.delete([f"logs/{name}" for name in replaced])


def _texts(folder: Folder) -> dict[str, _Log]:
    """Returns the logs of a store, by trial."""
    own: dict[str, bytes] = {}
    brought: dict[str, dict[str, bytes]] = {}
    for file in folder.files("logs"):  # TRIAL.log, TRIAL/NNN.log or TRIAL/DIGEST.log (brought)
        trial, _, part = file.name.removesuffix(".log").partition("/")
        text = folder.read(f"logs/{file.name}")
        if len(part) == DIGEST_LENGTH:
            brought.setdefault(trial, {})[file.name] = text
        else:
            own[trial] = own.get(trial, b"") + text
    return {trial: _Log(own.get(trial, b""), brought.get(trial, {})) for trial in {*own, *brought}}


def _move(ours: Folder, theirs: Folder, *names: str) -> None:
    each(lambda name: ours.put(name, theirs.read(name)), names, READERS)


def sweeps(
    ours: SweepFolder, theirs: SweepFolder, renamed: Mapping[str, str], damaged: list[Damaged]
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
    steps: list[MergeStep] = []
    there, (readable, unreadable) = set(ours.sweeps()), ours.readable_sweeps()
    for name, info in infos.items():
        called = renamed.get(name, name)
        plan = theirs.read_plans([name])
        damaged += plan.damaged
        if plan.damaged:
            continue
        table = _called(plan.table, called)
        if called not in there:
            steps.append(_step(ours, called, theirs.load_grid(name), info, table))
            continue
        mine, my_plan = readable.get(called), ours.read_plans([called])
        if mine is None or my_plan.damaged:
            same = ours.load_grid(called) == (grid := theirs.load_grid(name))
            if same and _covers(info, table, mine, my_plan):
                kept = info if mine is None else _with_files_of(info, mine)
                steps.append(_step(ours, called, grid, kept, table))
            else:
                damaged += my_plan.damaged
                damaged += (one for one in unreadable if f"sweeps/{called}/" in one.path)
        elif _newer(mine, my_plan.table, info, table, called):
            grid, newer = theirs.load_grid(name), _with_files_of(mine, info)
            steps.append(_step(ours, called, grid, newer, table))
        elif (joined := _with_files_of(info, mine)) != mine:
            steps.append(_step(ours, called, ours.load_grid(called), joined, my_plan.table))
    return steps


def _covers(info: SweepInfo, plan: pa.Table, mine: SweepInfo | None, my_plan: Read) -> bool:
    """Returns whether a sweep of theirs is all that ours was before its `sweep.json` (`mine` is
    None) or its plan was damaged, as far as the other one of the two tells."""
    if mine is None:
        return not my_plan.damaged and _trials(my_plan.table) <= _trials(plan)
    same = mine.created == info.created and not _differing(mine, info)
    return same and mine.code_files.keys() <= info.code_files.keys()


def _step(ours: SweepFolder, name: str, grid: str, info: SweepInfo, plan: pa.Table) -> MergeStep:
    return MergeStep("sweeps", 1, partial(ours.write_sweep, name, grid, info, plan))


def _newer(mine: SweepInfo, my_plan: pa.Table, other: SweepInfo, plan: pa.Table, name: str) -> bool:
    """Returns whether the other version of a sweep is the one to keep. Raises UserError if that
    cannot be told."""
    my_trials, trials = _trials(my_plan), _trials(plan)
    differing = _differing(mine, other)
    if my_trials == trials and not differing:
        return False
    if mine.created == other.created and my_trials != trials:
        if my_trials <= trials:
            return True
        if trials <= my_trials:
            return False
    what = ", ".join([*differing, *(["trials"] if my_trials != trials else [])])
    raise UserError(
        f"sweep {name}: both stores have one of this name, and they differ in their {what}. "
        f"Bring theirs under another name: --rename {name}=NEW"
    )


def _differing(mine: SweepInfo, other: SweepInfo) -> list[str]:
    return [
        field.name
        for field in fields(SweepInfo)
        if field.name not in JOINED and getattr(mine, field.name) != getattr(other, field.name)
    ]


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


def _called(plan: pa.Table, name: str) -> pa.Table:
    return with_column(plan, "sweep", column([name] * plan.num_rows, TEXT))
