"""What a trial was: show."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweepd.cli.output import AsCsv, AsJson, Results, emit, form_of, naming, results_address, say
from sweepd.listing import SHORT_ID, Row

if TYPE_CHECKING:
    from sweepd.trial.account import Account

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 48
"""The most characters in the line of a drawn curve."""
MOST_CHECKS = 12
"""How many checks people see at most, besides the last one. --json has all of them."""
COLUMNS = ("part", "name", "value", "against")


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: sweepd show 3f2a --against 9c01")(show)


def show(
    trial: Annotated[str, typer.Argument(metavar="TRIAL", help="A trial's id, or its start.")],
    against: Annotated[
        str | None,
        typer.Option(metavar="TRIAL", help="Another trial: show what differs from it."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write its grid and your files to a new folder."),
    ] = None,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show what a trial was: settings, curve, source, and the command that runs it again."""
    from sweepd.store.store import Store
    from sweepd.trial.account import account_of, write_out

    form, store = form_of(as_json, as_csv), Store.open(results_address(results))
    account = account_of(store, trial)
    other = account_of(store, against) if against else None
    if out:
        write_out(account, out)
        say(f"its grid and {len(account.sources)} of your files are in {out}")
    if form != "table":
        emit(COLUMNS, list(_rows(account, other)), form)
    elif other:
        _show_difference(account, other)
    else:
        _show(account, naming(results_address(results)))


def _rows(account: Account, other: Account | None) -> Iterator[Row]:
    """Yields all that is known of a trial as flat rows. `against` has the other trial's value."""
    from sweepd.trial.account import changed_code

    def parts(of: Account) -> Iterator[tuple[str, str, Any]]:
        told: dict[str, Any] = {"id": of.id, "sweep": of.sweep, "status": of.status}
        told |= {"code": of.code, "seed": of.seed}
        told |= {"lengths": of.lengths} if of.lengths else {}
        yield from (("trial", *item) for item in {**told, **of.outcome}.items())
        for block, fields in of.settings.items():
            yield from ((block, *item) for item in fields.items())
        yield from (("check", f"step {row['step']}", row["acc"]) for row in of.checks())
        yield from (("source", *item) for item in of.sources.items())
        yield "command", "", of.command

    theirs = {(part, name): value for part, name, value in parts(other)} if other else {}
    for part, name, value in parts(account):
        yield {
            "part": part,
            "name": name,
            "value": value,
            "against": theirs.pop((part, name), None),
        }
    for (part, name), value in theirs.items():
        yield {"part": part, "name": name, "value": None, "against": value}
    if other:
        yield {"part": "difference", "value": "\n".join(changed_code(account, other))}


def _show(account: Account, where: Sequence[str]) -> None:
    """Prints a trial for people. where: the words of the option that names its results."""
    print(f"trial {account.id} of sweep {account.sweep}: {account.status}, seed {account.seed}")
    told = {name: value for name, value in account.outcome.items() if value is not None}
    print("  " + ", ".join(f"{name} {_short(value)}" for name, value in told.items()))
    for block, fields in account.settings.items():
        given = {name: value for name, value in fields.items() if value is not None}
        print(f"{block}: " + ", ".join(f"{name} {_short(value)}" for name, value in given.items()))
    if account.lengths:
        print(f"lengths: {account.lengths}")
    if account.curve:
        print()
        _show_curve(account)
    for name, text in account.sources.items():
        print(f"\n{name}\n" + "\n".join(f"  {line}" for line in text.splitlines()))
    changed = f"; changed since: {', '.join(account.changed)}" if account.changed else ""
    print(f"\ncode {account.code}{changed}")
    if account.changed and account.sources:
        print("to run it again with its own code, write that out and launch it there:")
        print(shlex.join(["sweepd", "show", account.id[:SHORT_ID], *where, "--out", "again"]))
        print("sweepd launch again/grid.yaml")
    else:
        print(f"to run it again in another results folder:\n{account.command} --results again")


def _show_curve(account: Account) -> None:
    checks = account.checks()
    scores = ("acc", *account.metrics)
    for name, rows in (("loss", account.curve), *((score, checks) for score in scores)):
        steps = [row["step"] for row in rows if row.get(name) is not None]
        values = [row[name] for row in rows if row.get(name) is not None]
        if values:
            spans = (
                f"{_short(min(values))} to {_short(max(values))}, steps {steps[0]} to {steps[-1]}"
            )
            print(f"{name:<5} {sparkline(values)}  {spans}")
    shown = checks[:: max(1, -(-len(checks) // MOST_CHECKS))]
    shown += [] if shown[-1] is checks[-1] else [checks[-1]]
    emit(("step", "loss", *scores, "lr", "seconds"), shown)


def _show_difference(account: Account, other: Account) -> None:
    """Prints what differs between two trials."""
    from sweepd.trial.account import changed_code, changed_settings

    mine, theirs = account.id[:SHORT_ID], other.id[:SHORT_ID]
    was = {"status": other.status, **other.outcome}
    rows = [
        {"field": f"{block}.{name}".strip("."), mine: _short(a), theirs: _short(b)}
        for block, name, a, b in changed_settings(account, other)
    ]
    rows += [
        {"field": name, mine: _short(value), theirs: _short(was[name])}
        for name, value in {"status": account.status, **account.outcome}.items()
        if value != was[name]
    ]
    emit(("field", mine, theirs), rows)
    if code := list(changed_code(account, other)):
        print("\n" + "\n".join(code))
    else:
        print("\nthe code is the same")


def sparkline(values: Sequence[float]) -> str:
    """Returns numbers as a line of at most WIDTH bars. Each bar is the mean of about as many
    numbers."""
    count = min(WIDTH, len(values))
    cuts = [len(values) * i // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)]
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((mean - low) * scale)] for mean in means)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
