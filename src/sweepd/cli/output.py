"""How answers leave the program: data on stdout, everything else on stderr."""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sweepd.errors import UserError
from sweepd.listing import Row, listing

if TYPE_CHECKING:
    from sweepd.store.tables import Damaged

Form = Literal["table", "json", "csv"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON array of flat objects.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV with a header line.")]
Results = Annotated[
    str | None,
    typer.Option(
        "--results",
        metavar="DIR",
        help="Results: a folder, s3:// or gs://. Default: $SWEEPD_RESULTS, else ./sweepd-results.",
    ),
]


def results_address(given: str | None) -> str:
    """Returns the --results option, else $SWEEPD_RESULTS, else ./sweepd-results."""
    return given or os.environ.get("SWEEPD_RESULTS") or "sweepd-results"


def say(text: str) -> None:
    """Print a message for the person at the terminal, on stderr."""
    print(text, file=sys.stderr, flush=True)


def confirmed(question: str, yes: bool) -> bool:
    """Returns whether --yes or the person at the terminal agrees. UserError without either."""
    if yes:
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UserError(f"{question} Without a terminal, confirm with --yes")
    if typer.confirm(f"sweepd: {question}", err=True):
        return True
    say("nothing was done")
    return False


def report_damage(damaged: Iterable[Damaged]) -> None:
    """Name the files that were skipped: they are left where they are."""
    for file in damaged:
        say(f"skipped a damaged file: {file.path}: {file.reason}")


def form_of(as_json: bool, as_csv: bool) -> Form:
    """The form that --json and --csv ask for. UserError if both are given."""
    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other: choose one")
    return "json" if as_json else "csv" if as_csv else "table"


def emit(columns: Sequence[str], rows: Sequence[Row], form: Form = "table") -> None:
    """Print rows: as an aligned table, as one JSON array of objects or as CSV with a header."""
    match form:
        case "json":
            objects = [{name: _plain(row.get(name)) for name in columns} for row in rows]
            print(json.dumps(objects, indent=None if len(objects) > 1000 else 1))
        case "csv":
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([_plain(row.get(name)) for name in columns] for row in rows)
        case "table":
            print(listing(columns, rows)[0])


def _plain(value: Any) -> Any:
    """A value that JSON can hold: no NaN, no infinity, times as ISO text, bytes in hex."""
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
