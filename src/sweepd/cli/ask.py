"""Questions about what is stored: query, sql, export, compare."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweepd.cli.completion import complete_question
from sweepd.cli.options import AsJson, CodeOption, Results, Seeds, SweepName, Sweeps
from sweepd.cli.output import (
    command,
    emit,
    form_of,
    results_address,
    say,
    say_left_out,
    show,
    stored,
    width,
)
from sweepd.errors import UserError
from sweepd.replacing import replacing
from sweepd.statuses import UNTRIED

if TYPE_CHECKING:
    from sweepd.query.readable import StyledLine, Tone


def query(
    question: Annotated[
        str | None,
        typer.Argument(metavar="[QUESTION]", show_default=False, autocompletion=complete_question),
    ] = None,
    sweep: Sweeps = None,
    seeds: Seeds = None,
    code: CodeOption = "current",
    wide: Annotated[
        bool, typer.Option("--wide", help="One line a row of the answer, with all that is known.")
    ] = False,
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Answer a question; without one, list what can be asked of this store.

    min EXPR [by COL, …] [where PREDICATE]: the least value of EXPR among the cells that pass.
    frontier COST, SCORE [by …] [where …]: the cells that no other beats on both.
    fit EXPR ~ COL [by …] [where …]: how it grows: an exponent with its interval, and laws.
    best COL [by …] [where …]: the value of an axis with the best score in each group.
    max EXPR [by …] [where …]: the greatest value of EXPR in each group.
    Exits with 1 if the answer has no row.
    """
    from sweepd.query.answers import ask, askable
    from sweepd.query.readable import lines, rows_for_people
    from sweepd.query.selection import codes

    form, store = form_of(as_json), stored(results)
    counted = codes(code, store, sweep)
    if question is None:
        found, examples = askable(store, code=counted, sweeps=sweep)
        say_left_out(found.damaged, found.notes)
        emit(found.columns, found.rows, form)
        for example in examples:
            say(command("query", example, results=store.address))
        return
    answer = ask(store, question, code=counted, sweeps=sweep, seeds=seeds)
    if form == "table" and answer.summary and answer.rows and not wide:
        # Its last line says how many cells were tried.
        say_left_out(answer.damaged, (n for n in answer.notes if not n.startswith(UNTRIED)))
        show(lines(answer, width()))
    else:
        say_left_out(answer.damaged, answer.notes)
        emit(*rows_for_people(answer) if form == "table" else (answer.columns, answer.rows), form)
    if not answer.rows:
        raise typer.Exit(1)


def sql(
    select: Annotated[str, typer.Argument(metavar="SELECT", show_default=False)],
    sweep: Sweeps = None,
    code: CodeOption = "current",
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Read the views trials, attempts, metrics, cells and sweeps with one DuckDB SELECT."""
    from sweepd.query.database import connect, named_views
    from sweepd.query.selection import codes

    form, store = form_of(as_json), stored(results)
    needed = named_views(select)
    answer = connect(store, code=codes(code, store, sweep), sweeps=sweep, needed=needed).sql(select)
    say_left_out(answer.damaged, answer.notes)
    emit(answer.columns, answer.rows, form)


def export(
    sweep: SweepName = None,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .parquet or .csv file to make.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="TRACKER", help="tensorboard, wandb, trackio or mlflow.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    results: Results = None,
) -> None:
    """Write the trials of a sweep (default: of the whole store) to one file, or hand them with
    their learning curves to a tracker."""
    from sweepd.query.database import VIEWS, connect

    if (out is None) == (to is None):
        raise UserError("say either --out FILE or --to TRACKER")
    needed = VIEWS if out is None else {"trials"}
    sweeps = [sweep] if sweep else None
    views = connect(stored(results), code="all", sweeps=sweeps, needed=needed)
    say_left_out(views.damaged, views.notes)
    if to is not None:
        from sweepd.cli.tracking import FOLDER
        from sweepd.trackers.base import hand_over
        from sweepd.trackers.clients import connect as connect_to

        count, damaged = hand_over(views, connect_to(to, FOLDER))
        say_left_out(damaged)
        say(f"{count} trials handed to {to}")
        return
    import pyarrow.csv
    import pyarrow.parquet

    assert out is not None
    if out.suffix not in (".parquet", ".csv"):
        raise UserError(f"--out {out}: end it in .parquet or .csv")
    if out.exists() and not force:
        raise UserError(f"--out {out}: there is such a file; choose another, or add --force")
    trials = views.connection.sql("SELECT * FROM trials ORDER BY id").to_arrow_table()
    write = pyarrow.parquet.write_table if out.suffix == ".parquet" else pyarrow.csv.write_csv
    with replacing(out) as aside:
        write(trials, str(aside))
    say(f"{trials.num_rows} trials written to {out}")


def compare(
    claims: Annotated[
        str,
        typer.Argument(
            metavar="CLAIMS", help="A file of claims, or one that ships: yang2024 (or paper), …"
        ),
    ],
    sweep: Sweeps = None,
    results: Results = None,
    code: CodeOption = "current",
    as_json: AsJson = None,
) -> None:
    """Judge what a paper claims, or what a file of your own does, by what this store has measured.

    Each claim is supported, contradicted, cannot tell, at other settings or not measured. Below it
    stand the rows it rests on, with their training budgets, and what would decide it. Published
    tables stand beside our two counts. Without a results folder nothing counts as measured.
    """
    from sweepd.query.claim_files import load_claims
    from sweepd.query.claims import COLUMNS, ROW_COLUMNS, judged, published
    from sweepd.query.database import connect
    from sweepd.query.selection import codes
    from sweepd.store.store import Store

    form, address = form_of(as_json), results_address(results)
    store = Store.find(address) if results is None else Store.open(address)
    views = connect(store, code=codes(code, store, sweep), sweeps=sweep) if store else None
    paper = load_claims(claims, views.columns if views else ())
    if views:
        say_left_out(views.damaged, views.notes)
    else:
        say(f"nothing measured: there is no {address}")
    tables = [(table.says, [*published(views, table)]) for table in paper.tables]
    rows = [*judged(views, paper)]
    if form != "table":
        every = [*(row for _, numbers in tables for row in numbers), *rows]
        columns = dict.fromkeys([*(every[0] if tables else ()), *COLUMNS, *ROW_COLUMNS])
        emit(list(columns), every, form)
        return
    for says, numbers in tables:
        print(says)
        emit([name for name in numbers[0] if name != "kind"], numbers)
        print()
    # A line for each claim, and below it what would decide it and the rows on which it rests.
    tones: dict[str, Tone] = {"supported": "sure", "contradicted": "warning"}
    lines: list[StyledLine] = []
    for row in rows:
        if row["kind"] == "claim":
            status = row["status"]
            lines.append([(f"{status}: ", tones.get(status, "open")), (row["claim"], "title")])
            if row["decides"]:
                lines.append([(f"  to decide it: {row['decides']}", "quiet")])
        else:
            elsewhere = "" if row["settings"] == "claim" else f" ({row['settings']})"
            lines.append([(f"  {row['side']}{elsewhere}: {row['row']}", "plain")])
    show(lines)
