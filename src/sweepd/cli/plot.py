"""Pictures of what is stored: plot and report."""

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from sweepd.cli.options import CodeOption, Results, Seeds
from sweepd.cli.output import say, say_left_out, stored
from sweepd.errors import UserError
from sweepd.replacing import write

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
    seeds: Seeds = None,
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

    form, store = form_of(out), stored(results)
    views = connect(store, code=codes(code, store, sweeps), sweeps=sweeps or None, seeds=seeds)
    asked = Questions(views, where=where, of=of, along=along or "", cost=cost)
    found = KINDS[kind]
    try:
        write(out, drawn(found.draw(asked), found.shows, form, width))
    finally:  # what is left out may say why nothing could be drawn
        say_left_out((*views.damaged, *asked.damaged), asked.notes)
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
    from sweepd.figures.kinds import Questions
    from sweepd.figures.report import points_each
    from sweepd.figures.report import report as page_of
    from sweepd.query.claim_files import shipped_claims
    from sweepd.query.database import connect
    from sweepd.query.selection import codes
    from sweepd.store.store import damaged_launches

    if out.suffix != ".html":
        raise UserError(f"--out {out}: end it in .html")
    store, sweeps = stored(results), [sweep] if sweep else None
    runs = True
    while runs:
        runs = watch and bool(store.driven_elsewhere(sweeps or store.sweeps()))
        views = connect(store, code=codes(code, store, sweeps), sweeps=sweeps)
        [(trials,)] = views.fetch("SELECT count(*) FROM trials")
        names = sweeps or list(views.selection.infos)
        asked = Questions(views, where=where, of=of, points=points_each(trials))
        heading = f"Sweep {sweep}" if sweep else f"Results in {store.address}"
        grids = {name: store.load_grid(name) for name in names}
        launches = [one for one in store.launches() if one.get("sweep") in names]
        papers = [*shipped_claims(), *(claims or ())]
        command = shlex.join(["sweepd", *sys.argv[1:]])
        try:
            write(out, page_of(heading, asked, grids, launches, papers, command))
        finally:
            left_out = (*views.damaged, *asked.damaged, *damaged_launches(store))
            say_left_out(left_out, asked.notes)
        say(f"report written to {out}")
        if runs:
            time.sleep(WATCH_SECONDS)
