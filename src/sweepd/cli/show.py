"""What a trial was: show."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweepd.cli.options import AsJson, Results, TrialId
from sweepd.cli.output import command, emit, form_of, put, results_address, say, stored
from sweepd.listing import SHORT_ID, Row

if TYPE_CHECKING:
    from sweepd.trial.record import TrialRecord

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 48
"""The most characters in the line of a drawn curve."""
MOST_CHECKS = 12
"""How many checks people see at most, besides the last one. --json has all of them."""
COLUMNS = ("part", "name", "value", "against")


def show(
    trial: TrialId,
    against: Annotated[
        str | None, typer.Option(metavar="TRIAL", help="Another trial: show what differs from it.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write its grid and your files to a new folder."),
    ] = None,
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Show what a trial was: settings, curve, source, and the command that runs it again."""
    from sweepd.trial.record import record_of, write_out

    form, store = form_of(as_json), stored(results)
    record = record_of(store, trial)
    other = record_of(store, against) if against else None
    if out:
        write_out(record, out)
        say(f"its grid and {len(record.sources)} of your files are in {out}")
    again = command("show", record.id[:SHORT_ID], results=results_address(results))
    repeat = f"{again} --out again && sweepd launch again/grid.yaml --results again/results"
    if form != "table":
        emit(COLUMNS, list(_rows(record, other, repeat)), form)
    elif other:
        _show_difference(record, other)
    else:
        _show(record, repeat)


def _rows(record: TrialRecord, other: TrialRecord | None, repeat: str) -> Iterator[Row]:
    """Yields all that is known of a trial. `against` has the other trial's value."""
    from sweepd.trial.record import changed_code

    def parts(of: TrialRecord) -> dict[tuple[str, str], Any]:
        about = ["id", "sweep", "status", "code", "seed", *(["lengths"] if of.lengths else [])]
        trial: dict[str, Any] = {name: getattr(of, name) for name in about}
        checks = {f"step {row['step']}": row["acc"] for row in of.checks()}
        groups = {"trial": {**trial, **of.outcome}, **of.settings, "check": checks}
        groups |= {"source": of.sources, "grid": {"": of.grid}}
        return {(part, name): group[name] for part, group in groups.items() for name in group}

    mine, theirs = parts(record), parts(other) if other else {}
    for part, name in {**mine, **theirs}:
        value, against = mine.get((part, name)), theirs.get((part, name))
        yield {"part": part, "name": name, "value": value, "against": against}
    yield {"part": "command", "name": "", "value": repeat, "against": None}
    if other:
        yield {"part": "difference", "value": "\n".join(changed_code(record, other))}


def _show(record: TrialRecord, repeat: str) -> None:
    """Prints a trial for people. repeat: the command that runs it again."""
    put(f"trial {record.id} of sweep {record.sweep}: {record.status}, seed {record.seed}")
    outcome = {name: value for name, value in record.outcome.items() if value is not None}
    put("  " + ", ".join(f"{name} {_short(value)}" for name, value in outcome.items()))
    put("\n# a grid of this trial alone\n" + record.grid.rstrip())
    if record.curve:
        put("")
        checks = record.checks()
        scores = ("acc", *record.metrics)
        for score, of in (("loss", record.curve), *((score, checks) for score in scores)):
            steps = [row["step"] for row in of if row.get(score) is not None]
            values = [row[score] for row in of if row.get(score) is not None]
            if finite := list(filter(math.isfinite, values)):
                span = f"{_short(min(finite))} to {_short(max(finite))}"
                span += ", then not finite" if not math.isfinite(values[-1]) else ""
                put(f"{score:<5} {sparkline(finite)}  {span}, steps {steps[0]} to {steps[-1]}")
        shown = checks[:: max(1, -(-len(checks) // MOST_CHECKS))]
        shown += [] if shown[-1] is checks[-1] else [checks[-1]]
        emit(("step", "loss", *scores, "lr", "seconds"), shown)
    for name, text in record.sources.items():
        content = " is binary" if "\0" in text else f"\n{textwrap.indent(text.rstrip(), '  ')}"
        put(f"\n{name}{content}")
    changed = f"; changed since: {', '.join(record.changed)}" if record.changed else ""
    put(f"\ncode {record.code}{changed}")
    put(f"to run it again in another results folder:\n{repeat}")


def _show_difference(record: TrialRecord, other: TrialRecord) -> None:
    """Prints what differs between two trials."""
    from sweepd.trial.record import changed_code, changed_settings

    mine, theirs = record.id[:SHORT_ID], other.id[:SHORT_ID]
    was = {"status": other.status, **other.outcome}
    rows = [
        {"field": f"{block}.{name}".strip("."), mine: _short(a), theirs: _short(b)}
        for block, name, a, b in changed_settings(record, other)
    ]
    rows += [
        {"field": name, mine: _short(value), theirs: _short(was[name])}
        for name, value in {"status": record.status, **record.outcome}.items()
        if value != was[name]
    ]
    emit(("field", mine, theirs), rows)
    put("\n" + ("\n".join(changed_code(record, other)) or "the code is the same"))


def sparkline(values: Sequence[float]) -> str:
    """Returns finite numbers as at most WIDTH bars, each the mean of about as many numbers."""
    count = min(WIDTH, len(values))
    cuts = [len(values) * i // count for i in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(cuts)]
    low, high = min(means), max(means)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((mean - low) * scale)] for mean in means)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
