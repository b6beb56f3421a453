"""Questions about what is stored: query, sql, export."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sweepd.cli.completion import SweepName, complete_question, complete_sweeps
from sweepd.cli.output import (
    AsCsv,
    AsJson,
    Form,
    Results,
    emit,
    form_of,
    report_damage,
    results_address,
    say,
    show,
    width,
)
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.listing import at_most

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sweepd.query.database import Answer, CodeChoice, Views
    from sweepd.store.store import Store

Sweeps = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="S",
        help="Only this sweep (repeatable). Default: all.",
        autocompletion=complete_sweeps,
    ),
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
    question: Annotated[
        str | None,
        typer.Argument(metavar="[QUESTION]", show_default=False, autocompletion=complete_question),
    ] = None,
    sweep: Sweeps = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="median, all, any or mean instead of the grid's rule."),
    ] = None,
    code: Code = "current",
    wide: Annotated[
        bool, typer.Option("--wide", help="One line a row of the answer, with all that is known.")
    ] = False,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Answer a question; without one, list what can be asked of this store.

    min EXPR [by COL, …] [where PREDICATE]: the least value of EXPR among the cells that pass.
    frontier COST, SCORE [by …] [where …]: the cells that no other beats on both.
    fit EXPR ~ COL [by …] [where …]: how it grows: an exponent with its interval, and laws.
    best COL [by …] [where …]: the value of an axis with the best score in each group.
    max EXPR [by …] [where …]: the greatest value of EXPR in each group.
    Exits with 1 if the answer has no row.
    """
    from sweepd.query.answers import ask
    from sweepd.query.current import codes
    from sweepd.query.pivot import lines

    form, store = form_of(as_json, as_csv), _store(results)
    if question is None:
        _show_askable(store, codes(code, store), sweep, form)
        return
    answer = ask(store, question, code=codes(code, store), sweeps=sweep, seeds=seeds)
    for note in answer.notes:
        say(note)
    report_damage(answer.damaged)
    if form != "table" or not answer.columns:
        emit(answer.columns, answer.rows, form)
    elif answer.summary and answer.rows and not wide:
        show(lines(answer, width()))
    elif "exponent" in answer.columns:
        emit(_law_columns(answer), [_shown_law(row) for row in answer.rows])
    else:
        emit(_shown_columns(answer), [_shown(row, answer.about) for row in answer.rows])
    if not answer.rows:
        raise typer.Exit(1)


def _show_askable(store: Store, code: CodeChoice, sweeps: list[str] | None, form: Form) -> None:
    """Print the columns that questions may use, and questions to begin with."""
    from sweepd.query.askable import askable

    found, examples = askable(store, code=code, sweeps=sweeps)
    report_damage(found.damaged)
    emit(found.columns, found.rows, form)
    for example in examples:
        say(f'sweepd query "{example}"')


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
    sweep: SweepName = None,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .parquet or .csv file to make.")
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="TRACKER", help="tensorboard, wandb, trackio or mlflow."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    results: Results = None,
) -> None:
    """Write the trials of a sweep (default: of the whole store) to one file, or hand them with
    their learning curves to a tracker."""
    from sweepd.query.database import connect

    if (out is None) == (to is None):
        raise UserError("say either --out FILE or --to TRACKER")
    views = connect(_store(results), code="all", sweeps=[sweep] if sweep else None)
    report_damage(views.damaged)
    if out is not None:
        _write(views, out, force)
        return
    from sweepd.cli.tracking import FOLDER
    from sweepd.trackers.base import connect as connect_to
    from sweepd.trackers.stored import hand_over

    assert to is not None
    say(f"{hand_over(views, connect_to(to, FOLDER))} trials handed to {to}")


def _write(views: Views, out: Path, force: bool) -> None:
    """Write the view `trials` to a file."""
    import pyarrow.csv
    import pyarrow.parquet

    if out.suffix not in (".parquet", ".csv"):
        raise UserError(f"--out {out}: end it in .parquet or .csv")
    if out.exists() and not force:
        raise UserError(f"--out {out}: there is such a file; choose another, or add --force")
    trials = views.connection.sql("SELECT * FROM trials ORDER BY id").to_arrow_table()
    write = pyarrow.parquet.write_table if out.suffix == ".parquet" else pyarrow.csv.write_csv
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        write(trials, str(aside))
        aside.replace(out)
    except OSError as error:
        aside.unlink(missing_ok=True)
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
        own += ["per halving"] if "per_halving" in answer.columns else []
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
        "acc": _accuracy(row),
        "passed": f"{row.get('passed')} of {row['seeds']}",
        "settled": _mark(row) if "settled" in row else "",
        "per halving": _factor(row),
        "at": "" if row["at"] == "{}" else row["at"],
    }


def _accuracy(row: dict[str, Any]) -> str:
    """A test score, whether its interval holds the threshold, and the accuracy of whole chains. In
    a frontier, that of a trial that stopped as solved is a bound from below."""
    if row["acc"] is None:
        return ""
    beside = ["close"] if row.get("close") else []
    beside += [] if row["chain_acc"] is None else [f"chain {row['chain_acc']:.3f}"]
    bound = "≥ " if row.get("solved") else ""
    told = f" ({', '.join(beside)})" if beside else ""
    return f"{bound}{row['acc']:.3f}{told}"


def _factor(row: dict[str, Any]) -> str:
    """How many times the steps one halving costs."""
    if row.get("per_halving") is None:
        return ""
    low, high = row["per_halving_low"], row["per_halving_high"]
    return f"{row['per_halving']:.2g} times ({low:.2g} … {high:.2g})"


def _law_columns(answer: Answer) -> list[str]:
    """Columns of the table that people see of a `fit`."""
    groups = answer.columns[: answer.columns.index("exponent")]
    told = ["exponent", "95%", "growth", "law", "points", "censored", "seeds", "over standard"]
    return [*groups, *told, "predicted", "at_hand", "agrees", "reason"]


def _shown_law(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `fit` for people. Of the laws it shows those that weigh a tenth or more."""
    prefix = "weight_"
    weights = {name.removeprefix(prefix): row[name] for name in row if name.startswith(prefix)}
    heavy = sorted((-w, name) for name, w in weights.items() if w is not None and w >= 0.1)
    over = row["over_standard"]
    return {
        **row,
        "exponent": row["exponent"] and round(row["exponent"], 2),
        "95%": _between(row["low"], row["high"]),
        "law": ", ".join(f"{name} {-w:.2f}" for w, name in heavy),
        "over standard": ""
        if over is None
        else f"{over:+.2f} ({_between(row['over_standard_low'], row['over_standard_high'])})",
        "at_hand": row["at_hand"] and round(row["at_hand"], 2),
    }


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None else f"{low:.2f} … {high:.2f}"


def _mark(row: dict[str, Any]) -> str:
    """Whether more training would change a row's value, and why it is said."""
    if row["settled"] != "yes":
        return f"{row['settled']}: {row['why']}"
    return "yes, at one rate" if row["rates"] == 1 else "yes"


def _store(results: str | None) -> Store:
    from sweepd.store.store import Store

    return Store.open(results_address(results))
