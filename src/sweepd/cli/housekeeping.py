"""Housekeeping: merge makes two stores one, gc deletes what is no longer needed."""

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from sweepd.cli.options import AsJson, DryRun, Results, Yes
from sweepd.cli.output import confirmed, emit, form_of, results_address, say, say_left_out, stored
from sweepd.errors import UserError

if TYPE_CHECKING:
    from sweepd.store.storage import Damaged


def merge(
    other: Annotated[
        str, typer.Argument(metavar="OTHER", help="A folder, s3:// or gs://. It is only read.")
    ],
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="S=NEW", help="Bring sweep S under another name (repeatable)."),
    ] = None,
    dry_run: DryRun = False,
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Bring all that OTHER has into the store of --results, without loss or double.

    A trial that ran to its end in either store has ended afterwards. The same command again brings
    what is new since, and goes on where it was interrupted.
    """
    from sweepd.store import merging
    from sweepd.store.store import Store

    form, renamed = form_of(as_json), {}
    for option in rename or ():
        name, equals, new = option.partition("=")
        if not (name and equals and new):
            raise UserError(f"--rename {option}: give the old and the new name, S=NEW")
        renamed[name] = new
    damaged: list[Damaged] = []
    theirs = Store.open(other)
    address = results_address(results)
    ours = Store.prospect(address) if dry_run else Store.create(address)
    if waiting := theirs.spilled():
        say(f"not merged: {waiting} holds what could not be written to {theirs.address} yet")
    brought: Counter[str] = Counter()
    bring = merging.lacks if dry_run else merging.merge
    for step in bring(ours, theirs, renamed, damaged):
        brought[step.kind] += step.count
    say_left_out(damaged)
    emit(("what", "count"), [{"what": kind, "count": n} for kind, n in brought.items()], form)
    amount = "the above" if brought else "nothing"
    brings = "would be brought" if dry_run else "brought"
    say(f"{brings} from {theirs.address} to {ours.address}: {amount}")


UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def gc(
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Only what is older than this: 90s, 12h, 30d.")
    ] = "1h",
    dry_run: DryRun = False,
    yes: Yes = False,
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Delete what is no longer needed: replaced files, leftovers, checkpoints of ended trials.

    This includes the checkpoints that were kept for longer trials: a trial with more steps then
    starts anew. Metrics and endings are never deleted, nor anything that a running sweep may use.
    """
    from sweepd.store import garbage

    form, store = form_of(as_json), stored(results)
    age = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", older_than)
    if not age:
        raise UserError(f"--older-than {older_than}: a number and s, m, h or d, e.g. 12h")
    seconds = float(age[1]) * UNITS[age[2]]
    found = garbage.find(store, seconds)
    rows = []
    for kind, what in garbage.KINDS.items():
        if sizes := [one.size for one in found if one.kind == kind]:
            rows.append({"kind": kind, "files": len(sizes), "bytes": sum(sizes), "what": what})
    emit(("kind", "files", "bytes", "what"), rows, form)
    if not found:
        say(f"nothing to delete in {store.address}")
        return
    amount = f"{len(found)} files, {sum(one.size for one in found) / 2**20:.1f} MiB"
    if dry_run:
        say(f"would delete {amount}")
    elif confirmed(f"delete {amount}?", yes):
        deleted = garbage.delete(store, found, seconds)
        say(f"deleted {len(deleted)} files, {sum(one.size for one in deleted) / 2**20:.1f} MiB")
