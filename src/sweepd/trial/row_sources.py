"""The rows of a program from where it tells them (`grid.rows`): lines of text or JSON, a CSV file,
TensorBoard's files, or the calls of `wandb.log`.

A source gives raw rows: mappings with our names of the metrics, and with a `step` where the program
told one.
"""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

from sweepd.errors import UserError
from sweepd.grid.rows import Rows, number
from sweepd.trial.output import CONTROLS, MOST_SHOWN, json_objects, python_objects
from sweepd.trial.workplace import matches

Row = dict[str, Any]
Written = Callable[[], Iterable[tuple[str, Path]]]
"""Gives the files that a program has written: the name of each, and where it lies."""
EVENTS = "events.out.tfevents."
"""What the names of TensorBoard's files hold."""
STAND_INS = Path(__file__).parent / "stand_ins"
"""The folder of what stands in for packages in a program: `wandb`."""
MOST_NAMED = 20
"""The most names that a message lists."""
FIRST = 3
"""How many of the first rows are remembered with what they come from."""
LOOK_SECONDS = 1.0
"""The seconds after which files are looked at again."""


class Taken:
    """What a program has told: its rows, how many names the grid does not ask for, and a line that
    could be a row and is none."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.final: Row = {}
        """The scores that were told once, at the end or of held-out data. They count."""
        self.left_alone: set[str] = set()
        self.other_files: set[str] = set()
        """The files that were written and have another name than `from`."""
        self.unlike = ""
        self.first: list[tuple[Row, str]] = []
        """The first rows, each with the line, or the values, that it comes from."""

    def of_line(self, line: str) -> Iterator[Row]:
        """Yields the rows of a line of text, wherever on it they stand."""
        plain = CONTROLS.sub("", line)
        if not self.rows.patterns:
            objects = [*json_objects(plain)] or [*python_objects(plain)]
            for values in objects:
                yield from self.of_values(flat(values), plain)
            names = self.rows.theirs.values()
            if not objects and any(f"{q}{name}{q}:" in plain for name in names for q in "\"'"):
                self._looks_like_a_row(plain)
            return
        for rows in zip_longest(*(pattern.rows(plain) for pattern in self.rows.patterns)):
            for row in _joined(filter(None, rows)):
                yield self._told(row, plain)
        if any(pattern.looks_like(plain) for pattern in self.rows.patterns):
            self._looks_like_a_row(plain)

    def of_values(self, values: Mapping[str, Any], source: str = "") -> Iterator[Row]:
        """Yields the row of a mapping with the program's own names, if it has a metric. source: the
        line that it stands in."""
        row = self.rows.ours(values)
        theirs = {*self.rows.theirs.values(), self.rows.step or "step", "_step", "test"}
        self.left_alone |= values.keys() - theirs
        if row is None:
            return
        source = source or json.dumps(dict(values), default=str)
        try:
            row = {n: number(v) if isinstance(v, str) else v for n, v in row.items()}
        except ValueError:
            self._looks_like_a_row(source)
            return
        if values.get("test") is True:
            self.final |= {name: value for name, value in row.items() if name != "step"}
        else:
            yield self._told(row, source)

    def _told(self, row: Row, source: str) -> Row:
        if len(self.first) < FIRST:
            self.first.append((row, source[:MOST_SHOWN]))
        return row

    def _looks_like_a_row(self, text: str) -> None:
        self.unlike = self.unlike or text[:MOST_SHOWN]

    def silent(self, missing: Sequence[str]) -> str:
        """Returns why a trial without some metrics has failed, in words."""
        what = f"nothing told {' and '.join(missing)}: `rows` looks in {self.rows.source}"
        if names := [self.rows.theirs[n] for n in missing if self.rows.theirs.get(n, n) != n]:
            what += f" for {', '.join(names)}"
        if self.other_files and not self.left_alone:
            what += f"; it wrote {', '.join(sorted(self.other_files)[:MOST_NAMED])}"
        if self.left_alone:
            what += f"; there are {', '.join(sorted(self.left_alone)[:MOST_NAMED])}"
        if self.unlike:
            what += f"; a line looks like a row and is none: {self.unlike}"
        return what

    def end_of(self, line: str) -> None:
        """Looks for the numbers that are told once, at the end: the last one counts."""
        plain = CONTROLS.sub("", line)
        for name, pattern in self.rows.final.items():
            for row in pattern.rows(plain):
                self.final[name] = row[name]
            if pattern.looks_like(plain):
                self._looks_like_a_row(plain)


def _joined(rows: Iterable[Row]) -> Iterator[Row]:
    """Yields rows of one line, those that do not contradict each other as one."""
    whole: Row = {}
    for row in rows:
        if any(name in whole and whole[name] != value for name, value in row.items()):
            yield whole
            whole = {}
        whole = {**whole, **row}
    yield whole


def flat(values: Mapping[str, Any], before: str = "") -> Row:
    """Returns nested mappings as one, with names such as `valid/acc`."""
    row: Row = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            row |= flat(value, f"{before}{name}/")
        else:
            row[f"{before}{name}"] = value
    return row


class Files:
    """Files that a program writes while it runs, with a name that the grid's `rows` describe. Only
    what has come since the last look is taken. A file may be written anew, also with more columns,
    as Lightning's logger does: its rows count from the first that is another one than before."""

    def __init__(self, taken: Taken, written: Written) -> None:
        self.taken, self.written = taken, written
        self.seen: dict[Path, tuple[int, int]] = {}
        """The time and the size of each file as it was looked at last."""
        self.items: dict[Path, list[Row | str]] = {}
        """The rows, or lines, of each file."""

    def news(self, ended: bool = False) -> Iterator[Row]:
        """Yields the rows that have come. ended: whether a last line may lack its end. Raises
        UserError for a file that is no CSV."""
        for name, path in sorted(self.written()):
            if not matches(name, self.taken.rows.source):
                self.taken.other_files.add(name)
                continue
            try:
                status = path.stat()
                state = status.st_mtime_ns, status.st_size
                if not ended and self.seen.get(path) == state:
                    continue
                now = items(path, name, ended)
            except FileNotFoundError:  # it is being replaced
                continue
            self.seen[path] = state
            before, self.items[path] = self.items.get(path, []), now
            pairs = enumerate(zip(before, now, strict=False))
            same = (i for i, (old, new) in pairs if not _holds(new, old))
            for item in now[next(same, min(len(before), len(now))) :]:
                if isinstance(item, str):
                    yield from self.taken.of_line(item)
                else:
                    yield from self.taken.of_values(item, f"{name}: {json.dumps(item)}")


def _holds(new: Row | str, old: Row | str) -> bool:
    """Returns whether a row of a file is as before, maybe with more columns."""
    if isinstance(new, str) or isinstance(old, str):
        return new == old
    return all(str(new.get(key)) == str(value) for key, value in old.items() if value != "")


def items(path: Path, name: str, ended: bool) -> list[Row | str]:
    """Returns the rows of a file of CSV, or of one that is JSON as a whole, or else its lines.
    ended: whether the last line may lack its end. Raises UserError for a file that is no CSV."""
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    if name.endswith(".json"):
        with suppress(ValueError):
            value = json.loads(text)
            return [flat(row) for row in (value if isinstance(value, list) else [value])]
    lines = re.split("\r?\n|\r", text)
    if not ended:
        lines.pop()  # it is still being written
    return [*csv_rows(name, lines)] if name.endswith((".csv", ".tsv")) else [*lines]


def csv_rows(name: str, lines: Sequence[str]) -> Iterator[Row]:
    """Yields the rows of a CSV file with a header; `,`, `;` or a tab is between its cells. What is
    a number is one. Raises UserError for a row that has more cells than the header."""
    header = lines[0] if lines else ""
    between = max(",;\t", key=header.count)
    try:
        rows = [*csv.DictReader(lines, delimiter=between, skipinitialspace=True, restval="")]
    except csv.Error as error:
        raise UserError(f"{name} cannot be read as CSV: {error}") from None
    for row in rows:
        if None in row:
            raise UserError(f"{name} cannot be read as CSV: a row has more cells than {header}")
        # A program that goes on may write the header again.
        if any(key.strip() != cell.strip() for key, cell in row.items()):
            yield {key.strip(): _cell(cell.strip(), between) for key, cell in row.items()}


def _cell(text: str, between: str) -> float | str:
    # Where `;` is between the cells, `0,5` is a number.
    plain = text.replace(",", ".") if between == ";" else text
    try:
        return number(plain)
    except ValueError:
        return text


class TensorBoard:
    """TensorBoard's event files below some folders, read with TensorBoard's own reader. A step is
    given once each metric has gone beyond it, or at the end."""

    def __init__(self, taken: Taken, written: Written) -> None:
        try:
            from tensorboard.backend.event_processing import event_accumulator
        except ImportError:
            raise UserError(
                "rows: {from: tensorboard} is read with the package tensorboard, which is not "
                "installed here: pip install tensorboard"
            ) from None
        self.accumulator = event_accumulator.EventAccumulator
        self.taken, self.written = taken, written
        self.open: dict[Path, Any] = {}
        """What reads each file."""
        self.told: dict[tuple[Path, str], int] = {}
        """How many events of each metric were taken, by file."""
        self.waiting: dict[int, Row] = {}
        self.latest: dict[str, int] = {}

    def news(self, ended: bool = False) -> Iterator[Row]:
        """Yields the rows that are complete, in the order of their steps."""
        for name, path in sorted(self.written()):
            if EVENTS in name and path not in self.open:
                self.open[path] = self.accumulator(str(path), size_guidance={"scalars": 0})
        for path, events in self.open.items():
            events.Reload()
            tags = events.Tags()["scalars"]
            self.taken.left_alone |= {*tags} - {*self.taken.rows.theirs.values()}
            for name, tag in self.taken.rows.theirs.items():
                every = events.Scalars(tag) if tag in tags else []
                before = self.told.get((path, name), 0)
                self.told[path, name] = len(every)
                for event in every[before:]:
                    self.waiting.setdefault(event.step, {"step": event.step})[name] = event.value
                    self.latest[name] = event.step
        complete = min(self.latest.values(), default=-1)
        if len(self.latest) < len(self.taken.rows.theirs):
            complete = -1
        for step in sorted(self.waiting):
            if ended or step <= complete:
                yield self.waiting.pop(step)


class Steps:
    """Puts together what was told of one step in several rows. A step is given once a later one has
    begun, or at the end."""

    def __init__(self) -> None:
        self.waiting: Row = {}
        self.step: float | None = None
        """The step that was told last."""
        self.count = 0
        """How many rows there were before any step was told."""

    def add(self, row: Row) -> Iterator[Row]:
        """Takes a row. Without a step, it belongs to the step that was told last, or counts as the
        n-th where none was. Yields the step that is over now, if one is."""
        self.step = row.get("step", self.step)
        self.count += self.step is None
        row = {"step": self.count if self.step is None else self.step, **row}
        if self.waiting.get("step") != row["step"]:
            yield from self.end()
        if len(row) > 1:
            self.waiting |= row

    def end(self) -> Iterator[Row]:
        """Yields the step that waits, if one does."""
        row, self.waiting = self.waiting, {}
        if row:
            yield row


class Source:
    """All that a program tells by the `rows` of its grid, put together to one row a step."""

    def __init__(self, rows: Rows, written: Written) -> None:
        """written: gives the files that the program has written."""
        self.rows, self.taken, self.steps = rows, Taken(rows), Steps()
        self.looked = 0.0
        self.ended = False
        self.files: Files | TensorBoard | None = None
        if rows.source == "tensorboard":
            self.files = TensorBoard(self.taken, written)
        elif not rows.outputs and rows.source != "wandb":
            self.files = Files(self.taken, written)

    def of_line(self, output: str, line: str) -> Iterator[Row]:
        """Yields the rows that are complete with a line of an output, `stdout` or `stderr`."""
        if output in self.rows.outputs:
            for row in self.taken.of_line(line):
                yield from self.steps.add(row)
        self.taken.end_of(line)

    def of_values(self, values: Mapping[str, Any]) -> Iterator[Row]:
        """Yields the rows that are complete with what `wandb.log` or `sweepd.report` told."""
        for row in self.taken.of_values(values):
            yield from self.steps.add(row)

    def of_files(self) -> Iterator[Row]:
        """Yields the rows that have come in files, if it is time to look."""
        if self.files and time.monotonic() - self.looked >= LOOK_SECONDS:
            self.looked = time.monotonic()
            for row in self.files.news():
                yield from self.steps.add(row)

    def end(self, reached: int, budget: int) -> Iterator[Row]:
        """Yields the last rows, once the program has ended, and nothing after that. What it told
        once at the end stands at the step that it has reached, or else at its budget of steps."""
        if self.ended:
            return
        self.ended = True
        if self.files:
            for row in self.files.news(ended=True):
                yield from self.steps.add(row)
        last = self.steps.waiting.get("step", 0)
        yield from self.steps.end()
        if self.taken.final:
            yield {"step": max(reached, last) or budget or 1, "test": True, **self.taken.final}
