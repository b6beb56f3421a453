"""How sweeps stand: status and logs."""

import sys
from typing import Annotated

import typer

from sweepd.cli.options import AsJson, Results, SweepName, TrialId
from sweepd.cli.output import (
    command,
    emit,
    form_of,
    readable,
    results_address,
    say,
    say_left_out,
    stored,
)
from sweepd.errors import UserError
from sweepd.listing import SHORT_ID
from sweepd.statuses import STATUSES, UNTRIED


def status(
    sweep: SweepName = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show it as launch does, until nothing runs.")
    ] = False,
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Show how all sweeps stand, or how each trial of one sweep stands."""
    from sweepd.store.endings import count_trials, in_reserve
    from sweepd.store.schema import PLAN

    form = form_of(as_json)
    if watch and form != "table":
        raise UserError("--watch is for people: it excludes --json and --csv")
    if watch:
        from sweepd.cli.progress import watched  # it takes a while

        watched(results_address(results), sweep)
    store = stored(results)
    sweeps, damaged = ({}, ()) if sweep else store.readable_sweeps()
    names = [sweep] if sweep else [*sweeps]
    running = store.driven_elsewhere(names)
    for name in sorted(store.cut_off(names, running)):
        go_on = command("resume", name, results=store.address)
        say(f"sweep {name}: its driver was killed, or failed; `{go_on}` continues it")
    if watch and sweep:
        return
    if not sweep:
        trials, plans = store.read_trials(), store.read_plans(list(sweeps))
        say_left_out((*trials.damaged, *damaged, *plans.damaged))
        extra_seeds = {name: info.extra_seeds for name, info in sweeps.items()}
        rows = []
        for name, counts in count_trials(plans.table, trials.table, extra_seeds).items():
            row = {"sweep": name, "running": name in running, "trials": counts.total()}
            row |= {status: counts[status] for status in (*STATUSES, UNTRIED)}
            rows.append({**row, "created": sweeps[name].created})
        emit(["sweep", "running", "trials", *STATUSES, UNTRIED, "created"], rows, form)
        return

    # One row a trial, with the ending that counts.
    from sweepd.cli.progress import standings

    info = store.load_sweep(sweep)
    read = store.read_plans([sweep])
    planned = read.table
    plan = planned.to_pylist()
    standing, left_out = standings(store, sweep, planned, info.metrics)
    say_left_out((*read.damaged, *left_out))
    varying = [
        name
        for name in (plan[0] if plan else ())
        if name not in PLAN.fixed
        and len({trial[name] for trial in plan if trial[name] is not None}) > 1
    ]
    about = list(dict.fromkeys(["id", "task", "model", *varying, "seed"]))
    scores = ("step", "acc", *info.metrics, "seconds", "error")
    rows = []
    for trial in plan:
        now = standing.get(trial["id"])
        if not now and in_reserve(trial["on_demand"], trial["seed"], info.extra_seeds):
            continue
        now = now or {"status": UNTRIED}
        row = {name: trial[name] for name in about} | {"status": now["status"]}
        rows.append(row | {name: now.get(name) for name in scores})
    # A search leaves most trials alone, so people are told how many those are.
    if form == "table":
        begun = [row for row in rows if row["status"] != UNTRIED]
        if left := len(rows) - len(begun):
            say(f"not tried: {left} of {len(rows)} trials (--json or --csv lists them too)")
        rows = [{**row, "id": str(row["id"])[:SHORT_ID]} for row in begun]
    emit([*about, "status", *scores], rows, form)


def logs(trial: TrialId, results: Results = None) -> None:
    """Print the log of a trial: what its attempts noted and printed, and the traces of errors."""
    store = stored(results)
    sys.stdout.write(readable(store.read_log(store.find_trial(trial))))
