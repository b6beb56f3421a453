"""Housekeeping: gc."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from sweepd.cli.output import AsCsv, AsJson, Results, confirmed, emit, form_of, results_address, say
from sweepd.errors import UserError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
COLUMNS = ("kind", "files", "bytes", "what")


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: sweepd gc --older-than 30d --dry-run")(gc)


def gc(
    older_than: Annotated[
        str,
        typer.Option(metavar="AGE", help="Only what is older than this: 90s, 12h, 30d."),
    ] = "1h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be deleted.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Delete what is no longer needed: replaced files, leftovers, checkpoints of ended trials.

    This includes the checkpoints that were kept for longer trials: a trial with more steps then
    starts anew. Metrics and endings are never deleted, nor anything that a running sweep may use.
    """
    from sweepd.store.garbage import KINDS
    from sweepd.store.store import Store

    form, seconds = form_of(as_json, as_csv), _seconds(older_than)
    store = Store.open(results_address(results))
    found = store.garbage(seconds)
    rows = []
    for kind, what in KINDS.items():
        sizes = [one.size for one in found if one.kind == kind]
        if sizes:
            rows.append({"kind": kind, "files": len(sizes), "bytes": sum(sizes), "what": what})
    emit(COLUMNS, rows, form)
    if not found:
        say(f"nothing to delete in {store.address}")
        return
    amount = f"{len(found)} files, {_mebibytes(sum(one.size for one in found))}"
    if dry_run:
        say(f"would delete {amount}")
        return
    if not confirmed(f"delete {amount}?", yes):
        return
    deleted = store.delete(found, seconds)
    say(f"deleted {len(deleted)} files, {_mebibytes(sum(one.size for one in deleted))}")


def _seconds(age: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", age)
    if not match:
        raise UserError(f"--older-than {age}: a number and s, m, h or d, e.g. 12h")
    return float(match[1]) * UNITS[match[2]]


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
