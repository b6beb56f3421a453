"""Pictures of what is stored: plot and report."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweepd.cli.ask import CodeOption
from sweepd.cli.output import Results, report_damage, results_address, say
from sweepd.errors import UserError
from sweepd.replacing import write

if TYPE_CHECKING:
    from sweepd.figures.kinds import Questions
    from sweepd.figures.report import Report
    from sweepd.store.store import Store

FigureName = Literal["heatmap", "min", "frontier", "curves", "fit", "settle"]
WATCH_SECONDS = 10.0
"""For how many seconds `report --watch` waits before it writes the report again."""

Where = Annotated[
    str | None,
    typer.Option(metavar="PREDICATE", help="As `where` in a question: which cells, and the goal."),
]
Of = Annotated[
    str,
    typer.Option(
        metavar="EXPR",
        help="What is minimised, as in a question (default: what the grid minimises).",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: sweepd plot heatmap quickstart --out figure1.pdf")(plot)
    app.command(epilog="Example: sweepd report quickstart --out report.html")(report)


def plot(
    kind: Annotated[FigureName, typer.Argument(metavar="KIND", show_default=False)],
    sweeps: Annotated[
        list[str] | None, typer.Argument(metavar="[SWEEP]...", show_default=False)
    ] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .svg, .png, .pdf or .html file.")],
    where: Where = None,
    of: Of = "",
    along: Annotated[
        Literal["L", "size"] | None,
        typer.Option(help="The axis of min and fit (default: L, or size where there is no L)."),
    ] = None,
    cost: Annotated[
        str, typer.Option(metavar="EXPR", help="The cost of a frontier.")
    ] = "train_flops",
    width: Annotated[Literal["one", "two"], typer.Option(help="Columns of a paper.")] = "two",
    seeds: Annotated[
        str | None, typer.Option(metavar="RULE", help="Another pass rule, as in query.")
    ] = None,
    code: CodeOption = "current",
    results: Results = None,
) -> None:
    """Draw what sweeps (default: the whole store) have found, fit for a paper.

    KIND is one of heatmap (accuracy over d and size), min (the least d against L), frontier (cost
    against accuracy), curves (learning curves), fit (exponents) and settle (accuracy against the
    training budget).
    """
    from sweepd.figures.kinds import KINDS, Questions
    from sweepd.figures.render import drawn, form_of
    from sweepd.query.database import connect
    from sweepd.query.selection import codes
    from sweepd.store.store import Store

    form = form_of(out)
    store = Store.open(results_address(results))
    views = connect(store, code=codes(code, store), sweeps=sweeps or None, seeds=seeds)
    asked = Questions(views, where=where, of=of, along=along or "", cost=cost)
    found = KINDS[kind]
    with _notes_said(asked):
        write(out, drawn(found.draw(asked), found.shows, form, width))
    say(f"{kind} drawn in {out}")


def report(
    sweep: Annotated[str | None, typer.Argument(metavar="[SWEEP]", show_default=False)] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .html file.")],
    where: Where = None,
    of: Of = "",
    claims: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Claims of your own beside those that ship."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write it again and again until nothing runs.")
    ] = False,
    code: CodeOption = "current",
    results: Results = None,
) -> None:
    """Write one page about a sweep (default: the whole store) that opens without a network.

    It has the answer and what is not certain about it, all figures, papers' claims, failures,
    costs, where the results came from and the commands to repeat them.
    """
    from sweepd.store.store import Store

    if out.suffix != ".html":
        raise UserError(f"--out {out}: end it in .html")
    store = Store.open(results_address(results))
    while True:
        runs = watch and bool(store.driven_elsewhere([sweep] if sweep else store.sweeps()))
        made = _report(store, sweep, where, of, claims or (), code)
        with _notes_said(made.asked):
            write(out, made.page())
        say(f"report written to {out}")
        if not runs:
            return
        time.sleep(WATCH_SECONDS)


@contextmanager
def _notes_said(asked: Questions) -> Iterator[None]:
    """After this block, prints what the answers do not show and what was skipped, also where
    nothing could be drawn."""
    try:
        yield
    finally:
        for note in asked.notes:
            say(note)
        report_damage((*asked.views.damaged, *asked.damaged))


def _report(
    store: Store,
    sweep: str | None,
    where: str | None,
    of: str,
    claims: Sequence[str],
    code: CodeOption,
) -> Report:
    from sweepd.figures.kinds import Questions
    from sweepd.figures.report import Launches, Report, points_each
    from sweepd.query.claim_files import load_claims, shipped_claims
    from sweepd.query.claims import judged
    from sweepd.query.database import connect
    from sweepd.query.selection import codes

    sweeps = [sweep] if sweep else None
    views = connect(store, code=codes(code, store), sweeps=sweeps)
    [(trials,)] = views.fetch("SELECT count(*) FROM trials")
    names = sweeps or list(views.selection.infos)
    launched = [record for record in store.launches() if record.get("sweep") in names]
    return Report(
        name=f"Sweep {sweep}" if sweep else f"Results in {store.address}",
        asked=Questions(views, where=where, of=of, points=points_each(trials)),
        launches=Launches(names, {name: store.load_grid(name) for name in names}, launched),
        claims=lambda: [
            row
            for name in (*shipped_claims(), *claims)
            for row in judged(views, load_claims(name, views.columns))
            if row["kind"] == "claim" and row["status"] != "not measured"
        ],
        command=shlex.join(["sweepd", *sys.argv[1:]]),
    )
