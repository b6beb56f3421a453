"""Two stores made one: merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from sweepd.cli.output import (
    AsCsv,
    AsJson,
    Results,
    emit,
    form_of,
    report_damage,
    results_address,
    say,
)
from sweepd.errors import UserError

if TYPE_CHECKING:
    from sweepd.store.storage import Damaged

COLUMNS = ("what", "count")


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: sweepd merge ../cluster-results --dry-run")(merge)


def merge(
    other: Annotated[
        str, typer.Argument(metavar="OTHER", help="A folder, s3:// or gs://. It is only read.")
    ],
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="S=NEW", help="Bring sweep S under another name (repeatable)."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be brought.")
    ] = False,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Bring all that OTHER has into the store of --results, without loss or double.

    A trial that ran to its end in either store has ended afterwards. The same command again brings
    what is new since, and goes on where it was interrupted.
    """
    from sweepd.store.store import Store

    form, renamed = form_of(as_json, as_csv), _renamed(rename or ())
    damaged: list[Damaged] = []
    theirs = Store.open(other)
    address = results_address(results)
    ours = Store.prospect(address) if dry_run else Store.create(address)
    if waiting := theirs.spilled():
        say(f"not merged: {waiting} holds what could not be written to {theirs.address} yet")
    brought: Counter[str] = Counter()
    for step in (ours.lacks if dry_run else ours.merge)(theirs, renamed, damaged):
        brought[step.kind] += step.count
    report_damage(damaged)
    emit(COLUMNS, [{"what": what, "count": count} for what, count in brought.items()], form)
    told = "would be brought" if dry_run else "brought"
    amount = "the above" if brought else "nothing"
    say(f"{told} from {theirs.address} to {ours.address}: {amount}")


def _renamed(options: Iterable[str]) -> dict[str, str]:
    """Returns the new names of sweeps, by the old ones. Raises UserError for an option that is not
    S=NEW."""
    renamed = {}
    for option in options:
        name, equals, new = option.partition("=")
        if not (name and equals and new):
            raise UserError(f"--rename {option}: give the old and the new name, S=NEW")
        renamed[name] = new
    return renamed
