"""A program as a run (`loop: {program: …}`): a process of its own, which is told by its arguments
what to do and tells by rows what it has reached. docs/program.md says what a program may rely on.

A row is a line of its standard output that is a JSON object with a `step`, or a call of
`sweepd.report`. Everything else that it prints goes to the trial's log.
"""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from sweepd.errors import UserError
from sweepd.grid.fingerprint import program_files
from sweepd.grid.metrics import RANGES
from sweepd.grid.placement import Resources
from sweepd.grid.program import Value
from sweepd.grid.trials import Trial
from sweepd.limits import LARGEST_INT
from sweepd.trial import guard
from sweepd.trial.output import LIKE_PYTHON, MOST_SHOWN, Output, json_rows
from sweepd.trial.runs import Check, Result, StepRow
from sweepd.trial.user_values import TOTAL, Unusable, numbers, shown
from sweepd.trial.workplace import LaunchCopy, Workplace, guarded, matches, name_of

VERSION = 1
"""The version of how a program is run, which is part of the code of its trials."""
ROWS = "SWEEPD_ROWS"
"""The environment variable with the file to which `sweepd.report` writes rows."""
MARKS = ("done", "checkpoint")
"""The files by which a program says that its folder may be kept: that it has finished so that a
longer run can go on from there, and that a run that is cut off can."""
GRACE_SECONDS = 30.0
"""The seconds from SIGTERM to SIGKILL."""
LOOK_SECONDS = 0.1
"""The seconds after which it is looked again for a row, a mark or the end of the program."""
STILL_SECONDS = 0.3
"""The seconds for which a mark, which may be being written, must not change."""
LAST_LINES = 50
"""The number of lines of output that tell why a program failed."""
KEPT_BYTES = 2**20
"""The largest file that is kept where a grid does not say what to keep, in bytes."""
MOST_NAMES = 10
"""The most files that the log names of those that are kept, and of those that are deleted."""
ROUNDING = 1e-5
"""How far beyond the end of its range a number may lie that was rounded. It is taken as the end."""
MOST_TOLD = 8_000
"""The most characters of its last lines that an error tells."""


def note(line: str) -> None:
    """Writes a line to the trial's log, to which an attempt leads what is printed."""
    sys.stdout.write(f"{line}\n")


class ProgramRun:
    """One process of a trial's program (see `runs.Run`). It starts with the first step, in its
    `Workplace`. hang_seconds: how long it may print nothing; 0 means for ever. Raises UserError
    where the program fails, hangs, or prints a row that cannot be used."""

    def __init__(
        self,
        trial: Trial,
        base: Path,
        resources: Resources,
        hang_seconds: float,
        address: str = "",
        launch_copy: LaunchCopy | None = None,
    ) -> None:
        """address: the store's, since each store may run the trial. launch_copy: the launch's copy
        of the grid's folder, or None to make one."""
        assert trial.program is not None
        self.trial, self.program = trial, trial.program
        self.resources, self.hang_seconds = resources, hang_seconds
        self.own_copy: LaunchCopy | None = None
        if not (launch_copy or self.program.in_place):
            self.own_copy = launch_copy = LaunchCopy.of(base, name_of(address, trial.id))
        name = f"{trial.id}-{name_of(address)}"
        self.place = Workplace(name, base, None if self.program.in_place else launch_copy)
        self.folder = self.place.dir
        """`{dir}`: what the program keeps. Beside it is the file of `sweepd.report`."""
        self.reports: IO[bytes] | None = None
        self.guard: subprocess.Popen[bytes] | None = None
        self.output = Output({})
        self.rows: deque[dict[str, Any]] = deque()
        """The rows of lines that were read, which nobody has taken yet."""
        self.last: deque[str] = deque(maxlen=LAST_LINES)
        self.checks: list[Check] = []
        self.step, self.seconds, self.tokens = 0, 0.0, None
        self.parent: str | None = None
        self.result: Result | None = None
        self.score: dict[str, float] = {}
        """The scores that count: those of the last row, or of the last that is marked as a test."""
        self.tested = False
        """Whether these are those of a test."""
        self.fresh = True
        """Whether this process has given no row yet. The first may go back to an earlier step."""
        self.marked = False
        """Whether the folder has a mark of which no snapshot was made yet."""
        self.marks = False
        """Whether the program has ever made a mark. Then no other state of its folder is kept."""
        self.seen: tuple[Any, ...] = ()
        self.looked = self.seen_at = 0.0
        """The marks as they were looked at last, when that was, and since when they are so."""
        self.kept: tuple[Any, ...] = ()
        """The marks as they were at the last snapshot, or at the start."""
        self.began = time.time_ns()
        self.stopped_itself = False
        """Whether the program has ended without being asked to."""
        self.unlike = ""
        """A line that looks like a row and is none."""

    @property
    def train_flops(self) -> float | None:
        """The training FLOPs so far, as a share of the whole budget's; None where unknown."""
        flops, steps = self.trial.train_flops, self.trial.train.steps
        if flops is None or not (steps or self.result):
            return None
        return flops * (self.step / steps if steps else 1.0)

    @property
    def done(self) -> bool:
        """Whether the program has ended and has left what a longer run can go on from."""
        return self.result is not None and (self.folder / "done").exists()

    def advance(self) -> Iterator[StepRow | None]:
        """Waits for what the program tells. Yields each row, and None where none comes at once."""
        if self.guard is None:
            self._start()
        while self.result is None:
            news = self._news()
            if news is None and not (self.output.open or self.rows):
                self._ended()
            elif self.result is None:
                now = time.monotonic()
                # A mark is looked at once all rows are read, so that those before it belong to the
                # snapshot.
                if now - self.looked >= LOOK_SECONDS and self.output.empty:
                    self.looked, marks = now, self._marks()
                    if marks != self.seen:
                        self.seen, self.seen_at = marks, now
                    elif marks and marks != self.kept and now - self.seen_at > STILL_SECONDS:
                        self.marked = True
                if (
                    self.hang_seconds
                    and now - max(self.heard, self.output.heard) > self.hang_seconds
                ):
                    self.stop()
                    raise self._failure(
                        f"it printed nothing for {self.hang_seconds:g} s (hang_seconds), so it was "
                        "ended; the last that it printed was"
                    )
            if self.result is None and self.score and self.trial.values.stop.spent(0, self.seconds):
                self.result = self._completed()
            if self.result:
                self.stop()
            yield news if isinstance(news, StepRow) else None

    def _start(self) -> None:
        given: dict[str, Value] = {
            "seed": self.trial.seed,
            "dir": str(self.folder),
            "cpus": max(1, int(self.resources.cpus)),
            "gpus": math.ceil(self.resources.gpus),
        }
        command = self.program.arguments(self.trial.values.loop, given)
        rows = self.place.folder / "rows"
        rows.touch()
        self.reports = rows.open("rb")
        # Ray's own settings are not the program's, which may use a Ray of its own. Programs of
        # Python print each row at once. `python` and `torchrun` are those beside this interpreter.
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "TUNE_"))}
        paths = (str(Path(sys.executable).parent), os.environ.get("PATH"))
        path = os.pathsep.join(filter(None, paths))
        environment = {**ours, ROWS: str(rows), "PYTHONUNBUFFERED": "1", "PATH": path}
        environment["PWD"] = str(self.place.cwd)
        if environment.get("PYTHONBREAKPOINT", "").startswith("ray."):  # which would wait for ever
            del environment["PYTHONBREAKPOINT"]
        if not self.resources.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ""
        self.kept = self.seen = self._marks()
        self.before, self.started = self.seconds, time.monotonic()
        self.heard = self.started
        place = self.place
        locks = [place.lock, *([place.copy.lock] if place.copy else [])]
        self.guard = subprocess.Popen(
            guarded(GRACE_SECONDS, place.folder, place.cwd, locks, place.overlays, command),
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            pass_fds=locks,
        )
        assert self.guard.stdout and self.guard.stderr
        self.output = Output({"stdout": self.guard.stdout, "stderr": self.guard.stderr})

    def _news(self) -> StepRow | str | None:
        """Returns the next row, or a line of other output, which is printed; None if none came."""
        assert self.reports is not None
        self.seconds = self.before + time.monotonic() - self.started
        at = self.reports.tell()
        line = self.reports.readline()
        if line.endswith(b"\n"):
            self.heard = time.monotonic()
            return self._row(json.loads(line))
        self.reports.seek(at)  # a row may be being written
        if self.rows:
            return self._row(self.rows.popleft())
        printed = self.output.next(LOOK_SECONDS)
        if printed is None:
            return None
        if printed.source == "stdout":
            self.rows += json_rows(printed.text)
            if not self.unlike and LIKE_PYTHON.search(printed.text):
                self.unlike = printed.text
        if self.rows:
            return self._row(self.rows.popleft())
        if printed.logged is not None:
            self.last.append(printed.logged)
            note(printed.logged)
        return printed.text

    def _row(self, row: dict[str, Any]) -> StepRow | str:
        """Takes in a row. Returns it, or a text where it adds no step."""
        the_row = f"the row {json.dumps(row)[:200]}"
        step, test = row.pop("step"), row.pop("test", False)
        if isinstance(step, bool) or not isinstance(step, int | float) or step != step // 1:
            raise UserError(f"{the_row} has step = {shown(step)}; it must be a whole number")
        if not 0 <= step <= LARGEST_INT:
            raise UserError(f"{the_row} has step = {step}; it must be 0 or more")
        if not isinstance(test, bool):
            raise UserError(f"{the_row} has test = {shown(test)}; it must be true or false")
        # An infinite share is out of its range, too. What is not finite has diverged all the same.
        nearer = {k: math.nan if v in (math.inf, -math.inf) else v for k, v in row.items()}
        for name, (low, high) in RANGES.items():
            value = nearer.get(name)
            if isinstance(value, float) and low - ROUNDING <= value <= high + ROUNDING:
                nearer[name] = min(max(value, low), high)
        try:
            scores = numbers(self, "row", nearer, self.trial.metrics, [TOTAL])
        except Unusable as error:
            raise UserError(f"{the_row} {error.message.partition(' ')[2]}") from None
        step, last = int(step), self.step
        if self.fresh:  # it goes on from what it has kept
            self.checks = [check for check in self.checks if check.step < step]
            last = self.checks[-1].step if self.checks else -1
            self.fresh = False
        if step < last or (step == last and not test):
            raise UserError(
                f"{the_row} comes after step {last}; of several processes let one report"
            )
        if test or not self.tested:
            self.score, self.tested = scores, test
        self.step = step
        if bad := [name for name, value in scores.items() if not math.isfinite(value)]:
            good = self.checks[-1] if self.checks else None
            told = ", ".join(f"{k} {v:.4g}" for k, v in good.scores.items()) if good else ""
            before = f"the last good row: step {good.step}: {told}" if good else "no row before it"
            message = f"reported {bad[0]} = {row[bad[0]]} at step {step}; {before}"
            self.result = Result("diverged", error=f"{self.program.command}: {message}")
        if step == last:
            return ""
        measured = {name: value for name, value in scores.items() if name != TOTAL}
        if not test:
            self.checks.append(Check(step, measured))
        costs = {"seconds": self.seconds, "train_flops": self.train_flops}
        return StepRow(step, {**measured, "step": step, **costs}, measured)

    def _ended(self) -> None:
        """Takes in the end of the program. Raises UserError where it failed."""
        assert self.guard is not None
        if code := self.guard.wait():
            code = code if code > 0 else 128 - code
            by = f"exit code {code}"
            if code > 128 and code - 128 in list(signal.Signals):
                by += f", by {signal.Signals(code - 128).name}"
                by += ": memory may have run out" if code == guard.KILLED else ""
            raise self._failure(f"it ended with {by}")
        if not self.score:
            metrics = ", ".join(f'"{name}": …' for name in self.trial.metrics)
            raise self._failure(
                f'it printed no row; print one a line on stdout, as {{"step": 1, {metrics}}}, or '
                "call sweepd.report"
            )
        self.stopped_itself = True
        self.result = self._completed()

    def _failure(self, what: str) -> UserError:
        lines = [line for line in self.last if line.strip()]
        last = f": {lines[-1].strip()}" if lines else ""
        told = "\n".join(self.last)[-MOST_TOLD:]
        return UserError(f"{what}{last}\n{told}" if told else what)

    def _completed(self) -> Result:
        scores = dict(self.score)
        total = int(scores.pop(TOTAL)) if TOTAL in scores else None
        acc = scores.get("acc")
        correct = round(acc * total) if total and acc is not None else None
        return Result("completed", {**scores, "total": total, "correct": correct})

    def _marks(self) -> tuple[Any, ...]:
        """Returns the marks that are there, with what tells a new one from the last."""
        marks = []
        for name in MARKS:
            with suppress(OSError):
                stat = (self.folder / name).stat()
                marks.append((name, stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(marks)

    @property
    def has_marked(self) -> bool:
        """Whether the program has made a mark since the last snapshot, maybe just now."""
        return self._marks() != self.kept

    def snapshot(self) -> bytes | None:
        """Returns a line of JSON with the run's own state, followed by a tar of the program's
        folder. Returns None where the program has not said that its folder may be kept."""
        if self.guard is None:
            return None
        marks = self._marks()
        stopped = self.guard.poll() is not None
        self.marks = self.marks or bool(marks)
        due = self.marked or self.done or (stopped and self.has_marked)
        if stopped and not self.marks:  # it knows no marks, and has had its time to save
            due = any(self.folder.iterdir()) and self.guard.poll() != guard.KILLED
        if not due:
            return None
        self.marked, self.kept = False, marks
        head = {
            "rows": [[check.step, check.scores] for check in self.checks],
            "score": self.score,
            "tested": self.tested,
            "seconds": self.seconds,
            "parent": self.parent,
            "marks": self.marks,
        }
        buffer = io.BytesIO(json.dumps(head).encode() + b"\n")
        buffer.seek(0, io.SEEK_END)
        try:
            with tarfile.open(fileobj=buffer, mode="w") as tar:
                tar.add(self.folder, ".")
        except OSError as error:  # the program has just deleted or cut a file
            note(f"its folder is not kept at step {self.step}: {error}")
            return None
        return buffer.getvalue()

    def read(self, snapshot: bytes) -> dict[str, Any]:
        head, _, saved = snapshot.partition(b"\n")
        with tarfile.open(fileobj=io.BytesIO(saved)) as tar:
            tar.getmembers()  # raises where it is damaged
        return {**json.loads(head), "saved": saved}

    def passes(self, state: dict[str, Any]) -> bool:
        return not self.trial.values.stop.spent(0, state["seconds"])

    def restore(self, state: dict[str, Any]) -> None:
        """Puts back the folder. The program starts there and goes on from what it finds."""
        with tarfile.open(fileobj=io.BytesIO(state["saved"])) as tar:
            tar.extractall(self.folder, filter="tar")
        (self.folder / "done").unlink(missing_ok=True)  # it is not done with what is asked now
        self.checks = [Check(step, scores) for step, scores in state["rows"]]
        self.step = self.checks[-1].step if self.checks else 0
        self.score, self.tested = state["score"], state["tested"]
        self.seconds, self.parent, self.marks = state["seconds"], state["parent"], state["marks"]

    def written(self) -> tuple[dict[str, Path], dict[str, int]]:
        """Returns what the program has written by relative paths, by these: the files that are kept
        with where they lie, and the sizes of those that are deleted, in bytes."""
        kept, deleted = {}, {}
        for name, path in self.place.written():
            size = path.stat().st_size
            if self.program.keep is None:
                keeps = size <= KEPT_BYTES
            else:
                keeps = any(matches(name, pattern) for pattern in self.program.keep)
            if keeps:
                kept[name] = path
            else:
                deleted[name] = size
        return kept, deleted

    def conclude(self) -> dict[str, Path]:
        """Adds to the result what people should know of how it came about. Returns the files that
        are kept, as `written` does."""
        assert self.result is not None
        notes, steps = [self.result.error] if self.result.error else [], self.trial.train.steps
        if self.result.status == "completed" and self.stopped_itself and steps > self.step:
            notes.append(f"it ended with exit code 0 at step {self.step:g} of {steps:g}")
        if self.unlike:
            notes.append(
                f"a line of its output looks like a row and is no JSON: {self.unlike[:MOST_SHOWN]}"
            )
        if self.place.copy:
            changed = self.place.copy.changed(self.began)
            code = program_files(self.program.where, self.place.base) if changed else {}
            if names := [name for name in changed if name not in code]:
                more = f" and {len(names) - 1} more" if len(names) > 1 else ""
                notes.append(
                    f"{self.place.base / names[0]}{more} changed while it ran: where the program "
                    "wrote there, by an absolute path or a link, its trials share the file"
                )
        kept, deleted = self.written()
        for what, names in (("kept", [*kept]), ("deleted", [*deleted])):
            if names:
                more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
                note(f"{what} of what it wrote: {', '.join(names[:MOST_NAMES])}{more}")
        self.result = replace(self.result, error="; ".join(notes) or None)
        return kept

    def stop(self) -> list[StepRow]:
        """Ends the program, by force in the end. Returns the rows that it still had to tell."""
        if self.guard is None or self.guard.poll() is not None:
            return []
        assert self.guard.stdin is not None
        with suppress(BrokenPipeError):  # it has just ended
            self.guard.stdin.write(b"t")
            self.guard.stdin.flush()
        rows = []
        while self.output.open or self.rows:
            try:
                news = self._news()
            except UserError as error:
                note(str(error))
            else:
                rows += [news] if isinstance(news, StepRow) else []
        self.guard.wait()
        return rows

    def close(self) -> None:
        """Ends the program if it still runs, and deletes its folder."""
        self.stop()
        if self.reports:
            self.reports.close()
        self.place.close()
        if self.own_copy:
            self.own_copy.close()
