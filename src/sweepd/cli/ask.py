"""Questions about what is stored: query, sql, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.listing import at_most

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sweepd.query.database import Answer
    from sweepd.store.store import Store

Sweeps = Annotated[
    list[str] | None,
    typer.Option("--sweep", metavar="S", help="Only this sweep (repeatable). Default: all."),
]
Code = Annotated[
    Literal["current", "all"],
    typer.Option(help="Trials of the current code, or all with `code` as one more group."),
]


def register(app: typer.Typer) -> None:
    app.command(epilog='Example: sweepd query "min d where acc > 0.9"')(query)
    app.command(epilog='Example: sweepd sql "SELECT * FROM cells LIMIT 5" --json')(sql)
    app.command(epilog="Example: sweepd export quickstart --out trials.parquet")(export)


def query(
    question: Annotated[str, typer.Argument(metavar="QUESTION", show_default=False)],
    sweep: Sweeps = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="median, all, any or mean instead of the grid's rule."),
    ] = None,
    code: Code = "current",
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Answer a question, e.g. "min d where acc>0.9" or "frontier flops, acc by model".

    min EXPR [by COL, …] [where PREDICATE]: the least value of EXPR among the cells that pass.
    frontier COST, SCORE [by …] [where …]: the cells that no other beats on both.
    fit EXPR ~ COL [by …] [where …]: the exponent of a power law, with its interval.
    Exits with 1 if the answer has no row.
    """
    from sweepd.query.answers import ask
    from sweepd.query.current import codes

    form, store = form_of(as_json, as_csv), _store(results)
    answer = ask(store, question, code=codes(code, store), sweeps=sweep, seeds=seeds)
    for note in answer.notes:
        say(note)
    report_damage(answer.damaged)
    if form != "table" or "at" not in answer.columns:
        emit(answer.columns, answer.rows, form)
    else:
        emit(_shown_columns(answer), [_shown(row, answer.about) for row in answer.rows])
    if not answer.rows:
        raise typer.Exit(1)


def sql(
    select: Annotated[str, typer.Argument(metavar="SELECT", show_default=False)],
    sweep: Sweeps = None,
    code: Code = "current",
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Read the views trials, attempts, metrics, cells and sweeps with one DuckDB SELECT."""
    from sweepd.query.current import codes
    from sweepd.query.database import connect

    form, store = form_of(as_json, as_csv), _store(results)
    answer = connect(store, code=codes(code, store), sweeps=sweep, about=select).sql(select)
    for note in answer.notes:
        say(note)
    report_damage(answer.damaged)
    emit(answer.columns, answer.rows, form)


def export(
    sweep: Annotated[str | None, typer.Argument(metavar="[SWEEP]", show_default=False)] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A new .parquet or .csv file.")],
    results: Results = None,
) -> None:
    """Write the trials of a sweep (default: of the whole store) to one file."""
    import pyarrow.csv
    import pyarrow.parquet

    from sweepd.query.database import connect

    if out.suffix not in (".parquet", ".csv"):
        raise UserError(f"--out {out}: end it in .parquet or .csv")
    views = connect(_store(results), code="all", sweeps=[sweep] if sweep else None)
    report_damage(views.damaged)
    trials = views.connection.sql("SELECT * FROM trials ORDER BY id").to_arrow_table()
    write = pyarrow.parquet.write_table if out.suffix == ".parquet" else pyarrow.csv.write_csv
    try:
        write(trials, str(out))
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {out}: {error}") from error
    say(f"{trials.num_rows} trials written to {out}")


def _shown_columns(answer: Answer) -> list[str]:
    """Columns of the table that people see of a `min` or a `frontier`."""
    scores = [name for name in ("acc", "95%", "seeds' acc") if "acc" in answer.about]
    for score in sorted(answer.about - {"acc"}):
        scores += [score, f"seeds' {score}"]
    if "verdict" in answer.columns:
        groups = answer.columns[: answer.columns.index("value")]
        own = ["value", "fail", "verdict", "settled", "passed", *scores, "inferred"]
    else:
        groups = answer.columns[: answer.columns.index("seeds") + 1]
        own = scores
    edge = ["edge"] if any(row["edge"] for row in answer.rows) else []
    return list(dict.fromkeys([*groups, *own, "at", *edge]))


def _shown(row: dict[str, Any], about: Iterable[str]) -> dict[str, Any]:
    """A row for people: what belongs together in one column, what is empty left out."""

    def span(low: str, high: str, form: str) -> str:
        if row[low] is None and row[high] is None:
            return ""
        ends = (row[low], row[high])
        return " … ".join("diverged" if end is None else format(end, form) for end in ends)

    acc = "" if row["acc"] is None else f"{row['acc']:.3f}"
    return {
        **row,
        "95%": span("acc_low", "acc_high", ".3f"),
        **{
            f"seeds' {score}": span(
                f"{score}_seed_min", f"{score}_seed_max", ".3f" if score == "acc" else ".3g"
            )
            for score in about
        },
        **({"value": at_most(row["value"])} if row.get("verdict") == "at most" else {}),
        "acc": f"{acc} (close)" if row.get("close") else acc,
        "passed": f"{row.get('passed')} of {row['seeds']}",
        "settled": _mark(row) if "settled" in row else "",
        "at": "" if row["at"] == "{}" else row["at"],
    }


def _mark(row: dict[str, Any]) -> str:
    """Whether more training would change a row's value, and why it is said."""
    if row["settled"] != "yes":
        return f"{row['settled']}: {row['why']}"
    return "yes, at one rate" if row["rates"] == 1 else "yes"


def _store(results: str | None) -> Store:
    from sweepd.store.store import Store

    return Store.open(results_address(results))
