"""What was published beside what is stored: compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sweepd.cli.ask import Sweeps
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

if TYPE_CHECKING:
    from sweepd.query.claims import Measured


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: sweepd compare paper --csv")(compare)


def compare(
    what: Annotated[Literal["paper"], typer.Argument(help="paper: Yang et al. 2024, Table 2.")],
    sweep: Sweeps = None,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Set this store's answers beside the published Table 2, and judge the paper's claims by them.

    gflops_weights is the paper's count of one forward pass, gflops counts attention's own
    products too. Without a results folder only the published side is shown.
    """
    from sweepd.query.claims import COLUMNS, TABLE2_COLUMNS, claims, table2

    form = form_of(as_json, as_csv)
    measured = _measured(results, sweep)
    for note in measured.notes:
        say(note)
    report_damage(measured.damaged)
    figures, judged = table2(measured), claims(measured)
    if form != "table":
        columns = list(dict.fromkeys([*TABLE2_COLUMNS, *COLUMNS]))
        emit(columns, [*figures, *judged], form)
        return
    emit(TABLE2_COLUMNS[1:], figures)
    print()
    emit(COLUMNS[1:], judged)


def _measured(results: str | None, sweeps: list[str] | None) -> Measured:
    """Returns what the store has measured, or nothing where --results is not given and no launch
    has made a store."""
    from sweepd.query.claims import Measured
    from sweepd.query.database import connect
    from sweepd.query.selection import codes
    from sweepd.store.store import Store

    address = results_address(results)
    store = Store.find(address) if results is None else Store.open(address)
    if store is None:
        say(f"nothing measured: there is no {address}")
        return Measured(None)
    return Measured(connect(store, code=codes("current", store), sweeps=sweeps))
