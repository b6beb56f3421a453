"""What one store has and another lacks, as steps that bring it there.

An attempt is known by its launch and its try. A launch is known by its record, and by how many
equal records come before it. A launch that is new here gets a number of its own, and its attempts
with it. So no row of one store has the key of another's. The second merge finds what the first
has brought, and one that was cut off goes on where it was. `endings.counting` says which ending
of a trial counts.

Each step may be the last. So launches come before the rows that they number, metrics before the
checkpoints and the endings after them, and sweeps last.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from sweepd.errors import EnvironmentFailure
from sweepd.statuses import RAN
from sweepd.store.arrays import BOOL, TEXT, column, whole_numbers
from sweepd.store.checkpoints import Checkpoint
from sweepd.store.endings import statuses
from sweepd.store.launches import TRIES, record_of, records
from sweepd.store.parquet import NAME, load, replaces
from sweepd.store.schema import TRIALS, Layout, with_column
from sweepd.store.storage import DIGEST_LENGTH, Damaged, Folder, digest, to_json, unsealed
from sweepd.store.tables import MOST_ROWS, TableFolder

LAUNCHES, ROWS, ENDINGS = "launches", "rows of metrics", "endings"
Attempts = set[tuple[str, int]]
"""The ids of trials, each with the number of an attempt."""


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

    A large file of ours that is damaged is replaced by theirs of the same name, which has the same
    content. renamed: new names of their sweeps. Raises FileNotFoundError if a file of theirs
    disappears.
    """
    our_endings, their_endings = ours.endings(), theirs.endings()
    live = theirs.metrics.live()
    theirs.damaged += live.damaged
    our_live = ours.metrics.live()
    broken = {one.path.rpartition("/")[2]: one for one in our_live.damaged}
    ours.damaged += (one for name, one in broken.items() if name not in live.scanned)
    their_runs, our_attempts = live.runs(), _attempts(our_live.runs())
    numbered = {*_launches(_attempts(their_endings)), *_launches(_attempts(their_runs))}
    taken = {*_launches(_attempts(our_endings)), *_launches(our_attempts)}
    numbers: dict[int, int] = {}
    for theirs_is, ours_is, record in _numbers(ours.folder, theirs, numbered, taken):
        numbers[theirs_is] = ours_is
        if record is not None:
            yield MergeStep(LAUNCHES, 1, partial(_bring_launch, ours.folder, ours_is, record))
    yield from _files(ours.folder, theirs, "code", "files of code", _is_source)
    yield from _files(ours.folder, theirs, "checked", "inspections", lambda name, data: True)

    if live.table.num_rows:
        yield from _rows(ours.metrics, _renumbered(live.table, numbers), our_attempts)
    there = ours.metrics.names().difference(broken) if live.scanned else set()
    for name in sorted(live.scanned.keys() - there):
        bring = partial(_move, ours.folder, theirs.folder, f"metrics/{name}")
        table = load(theirs.folder, f"metrics/{name}", theirs.metrics.layout)
        if isinstance(table, Damaged):
            theirs.damaged.append(table)
            ours.damaged += [broken[name]] if name in broken else []
            continue
        if name in broken and NAME.fullmatch(name):  # the same content, before it was damaged
            yield MergeStep(ROWS, table.num_rows, bring)
            continue
        renumbered = _renumbered(table, numbers)
        same = renumbered["attempt"].equals(table["attempt"])
        if same and _may_move(table) and our_attempts.isdisjoint(_attempts(table)):
            yield MergeStep(ROWS, table.num_rows, bring)
        else:
            yield from _rows(ours.metrics, renumbered, our_attempts, there)

    endings = _resweeped(_renumbered(their_endings, numbers), renamed)
    after = statuses(TRIALS.concat([our_endings, endings]))
    yield from _checkpoints(ours.folder, theirs, after)
    yield from _logs(ours.folder, theirs.folder)
    yield from _rows(ours.trials, endings, _attempts(our_endings))


def _numbers(
    ours: Folder, theirs: MergeSide, numbered: Iterable[int], taken: Iterable[int]
) -> Iterator[tuple[int, int, bytes | None]]:
    """Yields, for each launch of theirs, its number there and here, and its record if that is new
    here.

    A new launch keeps its number if that is above all of ours. Otherwise it gets the next one.
    numbered, taken: the launches that attempts of theirs and of ours name.
    """
    known = {record: number for number, record in _told_apart(_records(ours))}
    last = max([0, *known.values(), *taken])
    records = _records(theirs.folder)
    for number in numbered:
        lost = {"lost": f"the record of launch {number} of {theirs.folder.address}"}
        records.setdefault(number, to_json(lost))
    for number, record in _told_apart(records):
        if record in known:
            yield number, known[record], None
        else:
            last = max(number, last + 1)
            yield number, last, record[0]


def _told_apart(records: Mapping[int, bytes]) -> Iterator[tuple[int, tuple[bytes, int]]]:
    """Yields each launch's number and its record, with how many equal records came before. One
    process may launch twice in a second, which makes equal records."""
    before: Counter[bytes] = Counter()
    for number in sorted(records):
        yield number, (records[number], before[records[number]])
        before[records[number]] += 1


def _records(folder: Folder) -> dict[int, bytes]:
    return {number: folder.read(path) for number, path in records(folder).items()}


def _bring_launch(folder: Folder, number: int, record: bytes) -> None:
    if not folder.create(record_of(number), record):
        raise EnvironmentFailure(
            f"{folder.address}: a launch began meanwhile; merge again when it has ended"
        )


def _rows(
    ours: TableFolder, table: pa.Table, known: Attempts, there: Iterable[str] = ()
) -> Iterator[MergeStep]:
    """Yields the steps that bring the rows of a table that our folder lacks. known: attempts of
    which it has rows. there: names of files whose rows it has."""
    table = ours.layout.unique(table)
    for start in range(0, table.num_rows, MOST_ROWS):
        part = table.slice(start, MOST_ROWS)
        packed = ours.pack(part)
        if packed.name in there:
            continue
        if not known.isdisjoint(_attempts(part)):
            mine = ours.read(set(part[ours.layout.filed_by].to_pylist())).table
            lacking = _lacking(ours.layout, part, mine)
            part, packed = lacking, ours.pack(lacking)
        if part.num_rows:
            kind = ENDINGS if ours.layout is TRIALS else ROWS
            yield MergeStep(kind, part.num_rows, partial(ours.add, packed))


def _lacking(layout: Layout, table: pa.Table, mine: pa.Table) -> pa.Table:
    """Returns the rows whose key `mine` lacks, and those that count before its row of that key."""
    names = (*layout.key, layout.first_by)

    def keyed(rows: pa.Table) -> Iterator[tuple[tuple[object, ...], object]]:
        for *key, first in zip(*(rows[name].to_pylist() for name in names), strict=True):
            yield tuple(key), first

    there = dict(keyed(mine))
    wanted = [key not in there or _before(first, there[key]) for key, first in keyed(table)]
    return table.filter(column(wanted, BOOL))


def _before(value: object, other: object) -> bool:
    """Returns whether a row with this value of `Layout.first_by` counts before one with the
    other."""
    return value is not None and (other is None or value < other)  # type: ignore[operator]


def _renumbered(table: pa.Table, numbers: Mapping[int, int]) -> pa.Table:
    """Returns the rows with the attempts renumbered as in our store."""
    attempts = table["attempt"].to_numpy()
    launches, where = np.unique(attempts // TRIES, return_inverse=True)
    ours = np.array([numbers[int(launch)] for launch in launches], dtype=np.int64)
    return with_column(table, "attempt", whole_numbers(ours[where] * TRIES + attempts % TRIES))


def _resweeped(endings: pa.Table, renamed: Mapping[str, str]) -> pa.Table:
    names = [renamed.get(name, name) for name in endings["sweep"].to_pylist()]
    return with_column(endings, "sweep", column(names, TEXT))


def _may_move(table: pa.Table) -> bool:
    """Returns whether a file of theirs may be copied as it is. It may if all that it replaces is
    named by its content, so that a file of ours by one of these names is the same."""
    return all(NAME.fullmatch(name) for name in replaces(table.schema))


def _attempts(rows: pa.Table) -> Attempts:
    pairs = rows.select(["id", "attempt"]).group_by(["id", "attempt"]).aggregate([])
    return set(zip(pairs["id"].to_pylist(), pairs["attempt"].to_pylist(), strict=True))


def _launches(attempts: Attempts) -> set[int]:
    return {attempt // TRIES for _, attempt in attempts}


def _files(
    ours: Folder,
    theirs: MergeSide,
    below: str,
    kind: str,
    is_whole: Callable[[str, bytes], bool],
) -> Iterator[MergeStep]:
    """Yields the steps that bring the files of a folder that ours lacks. They are named by their
    content. One that is not whole is noted as damaged."""
    there = {file.name for file in ours.files(below)}
    for file in theirs.folder.files(below):
        name = f"{below}/{file.name}"
        if file.name not in there:
            if is_whole(file.name, theirs.folder.read(name)):
                yield MergeStep(kind, 1, partial(_move, ours, theirs.folder, name))
            else:
                theirs.damaged.append(_changed(theirs.folder, name))


def _is_source(name: str, data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == name.removesuffix(".py")


def _checkpoints(
    ours: Folder, theirs: MergeSide, status_of: Mapping[str, str]
) -> Iterator[MergeStep]:
    """Yields the steps that bring states from which a trial may still train on. They are kept
    ones, and those of trials that have not run to their end."""
    there = {file.name for file in ours.files("checkpoints")}
    for file in theirs.folder.files("checkpoints"):
        checkpoint = Checkpoint.parse(file.name.rpartition("/")[2])
        if checkpoint is None or file.name in there:
            continue
        if checkpoint.kept or status_of.get(checkpoint.trial) not in RAN:
            name = f"checkpoints/{file.name}"
            stored = theirs.folder.read(name)
            try:
                unsealed(stored)
            except ValueError as error:
                theirs.damaged.append(Damaged(theirs.folder.where(name), str(error)))
            else:
                yield MergeStep("checkpoints", 1, partial(ours.put, name, stored))


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


def _move(ours: Folder, theirs: Folder, name: str) -> None:
    ours.put(name, theirs.read(name))


def _changed(folder: Folder, name: str) -> Damaged:
    return Damaged(folder.where(name), "truncated or changed: its digest is another")
