"""How sweeps stand: status and logs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweepd.cli.options import AsCsv, AsJson, Results, SweepName, TrialId
from sweepd.cli.output import emit, form_of, results_address, say_left_out, stored
from sweepd.errors import UserError
from sweepd.listing import SHORT_ID
from sweepd.statuses import STATUSES, UNTRIED

if TYPE_CHECKING:
    from sweepd.store.store import Store


def status(
    sweep: SweepName = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it as launch does, until nothing runs.")
    ] = False,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show how all sweeps stand, or how each trial of one sweep stands."""
    from sweepd.store.endings import count_trials

    form = form_of(as_json, as_csv)
    if watch and form != "table":
        raise UserError("--watch is for people: it excludes --json and --csv")
    if watch:
        from sweepd.cli.progress import watched

        watched(results_address(results), sweep)
        if sweep:
            return
    store = stored(results)
    if sweep:
        columns, rows = _trials(store, sweep)
        if form == "table":
            rows = [{**row, "id": row["id"][:SHORT_ID]} for row in rows]
        emit(columns, rows, form)
        return
    sweeps, damaged = store.readable_sweeps()
    trials, plans = store.read_trials(), store.read_plans(list(sweeps))
    say_left_out((*trials.damaged, *damaged, *plans.damaged))
    extra_seeds = {name: info.extra_seeds for name, info in sweeps.items()}
    running = store.driven_elsewhere(sweeps)
    rows = [
        {
            "sweep": name,
            "running": name in running,
            "trials": counts.total(),
            **{status: counts[status] for status in (*STATUSES, UNTRIED)},
            "created": sweeps[name].created,
        }
        for name, counts in count_trials(plans.table, trials.table, extra_seeds).items()
    ]
    emit(["sweep", "running", "trials", *STATUSES, UNTRIED, "created"], rows, form)


def logs(trial: TrialId, results: Results = None) -> None:
    """Print the log of a trial: what its attempts noted and printed, and the traces of errors."""
    store = stored(results)
    sys.stdout.write(store.read_log(store.find_trial(trial)))


def _trials(store: Store, sweep: str) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns the columns and one row a planned trial, with the ending that counts. A trial is
    `running` where its newest recorded step is of an attempt that has not ended and the sweep has a
    driver."""
    from sweepd.cli.progress import standings
    from sweepd.store.schema import PLAN

    metrics = store.load_sweep(sweep).metrics
    scores = ["acc", *metrics]
    planned = store.read_plans([sweep]).table
    plan = planned.to_pylist()
    standing, damaged = standings(store, sweep, planned, metrics)
    say_left_out(damaged)
    varying = [
        name
        for name in (plan[0] if plan else ())
        if name not in PLAN.fixed
        and len({trial[name] for trial in plan if trial[name] is not None}) > 1
    ]
    shown = list(dict.fromkeys(["id", "task", "model", *varying, "seed"]))
    rows = []
    columns = ("step", *scores, "seconds", "error")
    for trial in plan:
        now = standing.get(trial["id"], {})
        row = {name: trial[name] for name in shown}
        row["status"] = now.get("status", UNTRIED)
        rows.append(row | {name: now.get(name) for name in columns})
    return [*shown, "status", *columns], rows
