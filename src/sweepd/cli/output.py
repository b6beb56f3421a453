"""How answers leave the program: data on stdout, everything else on stderr. Besides, the store and
the form that a command's options name."""

from __future__ import annotations

import codecs
import errno
import io
import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.listing import Row, listing, shown

if TYPE_CHECKING:
    from sweepd.query.readable import StyledLine, Tone
    from sweepd.store.storage import Damaged
    from sweepd.store.store import Store

Form = Literal["table", "json", "csv"]
MOST_NAMED = 8
"""How many columns are named at most, where a table leaves some out."""
NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What the system says where a file, but no path, cannot be written."""
STYLES: dict[Tone, str] = {
    "plain": "",
    "title": "bold",
    "sure": "green",
    "open": "yellow",
    "warning": "red",
    "quiet": "dim",
}


def results_address(given: str | None) -> str:
    """Returns the --results option, else $SWEEPD_RESULTS, else ./sweepd-results. Raises UserError
    for an empty option, which a variable without a value may have left."""
    if given == "":
        raise UserError("--results is empty: name a folder, s3://… or gs://…")
    return given or os.environ.get("SWEEPD_RESULTS") or "sweepd-results"


def stored(results: str | None) -> Store:
    """Returns the store that --results names. Raises UserError if there is none."""
    from sweepd.store.store import Store

    return Store.open(results_address(results))


def command(*words: str, results: str) -> str:
    """Returns a command of sweepd about these results, as a shell takes it. The default results
    need no option."""
    same = Path(results).resolve() == Path(results_address(None)).resolve()
    return shlex.join(["sweepd", *words, *([] if same else ["--results", results])])


def say(text: str) -> None:
    """Prints a message for the person at the terminal, on stderr."""
    print(readable(text), file=sys.stderr, flush=True)


def put(text: str) -> None:
    """Prints a text on stdout."""
    print(readable(text), flush=True)


def readable(text: str) -> str:
    """Returns a text of several lines with all that a terminal would obey as its escape. The text
    may come from somebody else's store. Where a line began anew (a carriage return), it ends."""
    return shown(text.replace("\r\n", "\n").replace("\r", "\n"), kept="\n\t")


class Lossy(io.FileIO):
    """Drops what cannot be written, as to a full disk or a terminal that is gone."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError:
            return len(data)


def say_everything() -> None:
    """Makes stdout and stderr take every character, and stderr also what it cannot write.

    One that was closed before the program began (`>&-`) is opened again: what goes to stderr is
    lost, and stdout cannot be written, which `stdout_may_end` tells. Else the next file that is
    opened would take its place. Where the locale knows ASCII alone they write UTF-8, as Python
    itself does unless it is told not to. In any other encoding, a `?` stands for each character
    that it lacks.
    """
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            file = os.open(os.devnull, flags)
            setattr(sys, name, open(file, "r" if name == "stdin" else "w"))  # noqa: PTH123, SIM115
    if sys.stderr is sys.__stderr__ and sys.stderr is not None:
        lossy = io.BufferedWriter(Lossy(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(lossy, sys.stderr.encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding="utf-8" if is_ascii else None, errors="replace")


@contextmanager
def stdout_may_end() -> Iterator[None]:
    """Within this block, if the program that reads stdout ends (`| head`), this program ends
    quietly with exit code 0. Raises EnvironmentFailure if stdout cannot be written, as when it goes
    to a file on a full disk."""
    try:
        try:
            yield
        except SystemExit as end:
            if isinstance(end.__context__, BrokenPipeError):  # click has made it an exit code
                raise end.__context__ from None
            raise
        finally:
            sys.stdout.flush()
    except OSError as error:
        gone = isinstance(error, BrokenPipeError)
        if not gone and (error.errno not in NOT_WRITTEN or error.filename is not None):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        if gone:
            sys.exit(0)
        raise EnvironmentFailure(f"the output cannot be written: {error.strerror}") from error


def confirmed(question: str, yes: bool) -> bool:
    """Returns whether --yes or the person at the terminal agrees. Raises UserError without
    either."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(f"{question} Without a terminal, confirm with --yes")
    if typer.confirm(f"sweepd: {question}", err=True):
        return True
    say("nothing was done")
    return False


def say_left_out(damaged: Iterable[Damaged], notes: Iterable[str] = ()) -> None:
    """Prints notes on what an answer does not show, and the damaged files that were skipped."""
    for note in notes:
        say(note)
    for file in damaged:
        say(f"skipped a damaged file: {file}")


def form_of(as_json: bool | None) -> Form:
    """Returns the form that --json or --csv asks for: the last of them, if any."""
    return "table" if as_json is None else "json" if as_json else "csv"


def emit(columns: Sequence[str], rows: Sequence[Row], form: Form = "table") -> None:
    """Prints rows: as an aligned table, as one JSON array of objects or as CSV with a header."""
    match form:
        case "json":
            objects = [{name: _plain(row.get(name)) for name in columns} for row in rows]
            print(json.dumps(objects, indent=None if len(objects) > 1000 else 1))
        case "csv":
            print(",".join(map(_csv, columns)))
            for row in rows:
                print(",".join(_csv(_plain(row.get(name))) for name in columns))
        case "table":
            text, left_out = listing(columns, rows, width())
            print(text)
            if left_out:
                named, more = ", ".join(left_out[:MOST_NAMED]), len(left_out) - MOST_NAMED
                rest = f" and {more} more" if more > 0 else ""
                say(f"left out, as the terminal is too narrow: {named}{rest}")


def show(lines: Iterable[StyledLine]) -> None:
    """Prints lines for people, in colours on a terminal."""
    lines = [[(readable(text), tone) for text, tone in line] for line in lines]
    if not (sys.stdout.isatty() or "FORCE_COLOR" in os.environ):  # rich takes a while to import
        for line in lines:
            print("".join(text for text, _ in line))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((text, STYLES[tone]) for text, tone in line)))


def width() -> int | None:
    """Returns how many characters a line may have: as many as the terminal has, or None where the
    output goes into a file or to a program."""
    # Off a terminal $COLUMNS says nothing: programs that use readline set it for all they start.
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _csv(value: Any) -> str:
    """Returns a value as CSV. Null is nothing, and a text without letters is `""`, which Python's
    own writer tells apart from 3.12 on."""
    text = "" if value is None else shown(str(value), kept="\n\t")
    return '"' + text.replace('"', '""') + '"' if value == "" or set(text) & {*',"\r\n'} else text


def _plain(value: Any) -> Any:
    """Returns a value that JSON can hold: None for NaN and infinity, times as ISO text, bytes in
    hex."""
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            return float(value) if math.isfinite(value) else None
        case date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case _:
            return str(value)
