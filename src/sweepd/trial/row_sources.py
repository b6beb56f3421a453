"""The rows of a program from where it tells them (`grid.rows`): lines of text or JSON, a CSV file,
TensorBoard's files, or the calls of `wandb.log`.

A source gives raw rows: mappings with our names of the metrics, and with a `step` where the program
told one.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from sweepd.errors import UserError
from sweepd.grid.rows import Rows, number
from sweepd.trial.output import CONTROLS, MOST_SHOWN, json_objects
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
        self.unlike = ""

    def of_line(self, line: str) -> Iterator[Row]:
        """Yields the rows of a line of text, wherever on it they stand."""
        plain = CONTROLS.sub("", line)
        if not self.rows.patterns:
            for values in json_objects(plain):
                yield from self.of_values(flat(values))
            return
        for pattern in self.rows.patterns:
            yield from pattern.rows(plain)
            if not self.unlike and pattern.looks_like(plain):
                self.unlike = plain[:MOST_SHOWN]

    def of_values(self, values: Mapping[str, Any]) -> Iterator[Row]:
        """Yields the row of a mapping with the program's own names, if it has a metric."""
        row = self.rows.ours(values)
        theirs = {*self.rows.theirs.values(), self.rows.step or "step", "_step", "test"}
        self.left_alone |= values.keys() - theirs
        if row is None:
            return
        try:
            row = {n: number(v) if isinstance(v, str) else v for n, v in row.items()}
        except ValueError:
            self.unlike = self.unlike or json.dumps(dict(values), default=str)[:MOST_SHOWN]
            return
        if values.get("test") is True:
            self.final |= {name: value for name, value in row.items() if name != "step"}
        else:
            yield row

    def silent(self, missing: Sequence[str]) -> str:
        """Returns why a trial without some metrics has failed, in words."""
        what = f"nothing told {' and '.join(missing)}: `rows` looks in {self.rows.source}"
        if names := [self.rows.theirs[n] for n in missing if self.rows.theirs.get(n, n) != n]:
            what += f" for {', '.join(names)}"
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
            if not self.unlike and pattern.looks_like(plain):
                self.unlike = plain[:MOST_SHOWN]


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
    what has come since the last look is taken. A file may be written anew with more columns, as
    Lightning's logger does, as long as its rows stay."""

    def __init__(self, taken: Taken, written: Written) -> None:
        self.taken, self.written = taken, written
        self.seen: dict[Path, tuple[int, int]] = {}
        """The time and the size of each file as it was looked at last."""
        self.rows: dict[Path, int] = {}
        """How many of the rows, or lines, of each file were taken."""

    def news(self, ended: bool = False) -> Iterator[Row]:
        """Yields the rows that have come. ended: whether a last line may lack its end. Raises
        UserError for a file that is no CSV."""
        for name, path in sorted(self.written()):
            if not matches(name, self.taken.rows.source):
                continue
            status = path.stat()
            state = status.st_mtime_ns, status.st_size
            if ended or self.seen.get(path) != state:
                self.seen[path] = state
                whole = path.read_bytes()
                yield from self._read(path, whole if ended else whole[: whole.rfind(b"\n") + 1])

    def _read(self, path: Path, text: bytes) -> Iterator[Row]:
        before = self.rows.get(path, 0)
        if path.suffix in (".csv", ".tsv"):
            every = csv_rows(path, text)
            self.rows[path] = len(every)
            for values in every[before:]:
                yield from self.taken.of_values(values)
            return
        lines = text.decode(errors="replace").splitlines()
        self.rows[path] = len(lines)
        for line in lines[before:]:
            yield from self.taken.of_line(line)


def csv_rows(path: Path, text: bytes) -> list[Row]:
    """Returns the rows of a CSV file with a header. Raises UserError where it is none."""
    if text.strip().count(b"\n") < 1:
        return []
    options = pa.csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
    try:
        table = pa.csv.read_csv(io.BytesIO(text), parse_options=options)
    except pa.ArrowInvalid as error:
        raise UserError(f"{path} cannot be read as CSV: {error}") from None
    rows: list[Row] = table.to_pylist()
    return rows


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
        self.count = 0

    def add(self, row: Row) -> Iterator[Row]:
        """Takes a row, which counts as the n-th where it has no step. Yields the step that is over
        now, if one is."""
        self.count += 1
        row = {"step": self.count, **row}
        if self.waiting and self.waiting["step"] == row["step"]:
            self.waiting |= row
            return
        yield from self.end()
        self.waiting = row

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
