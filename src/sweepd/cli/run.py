"""Running sweeps: plan, launch, resume, cancel."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweepd.cli.cluster import draft, hand_over
from sweepd.cli.output import AsCsv, AsJson, Results, emit, report_damage, results_address, say
from sweepd.cli.progress import Progress, duration
from sweepd.errors import EnvironmentFailure, UserError

if TYPE_CHECKING:
    import pyarrow as pa

    from sweepd.cluster import Cluster
    from sweepd.grid.options import Placement, Resources
    from sweepd.grid.plan import Plan
    from sweepd.grid.spec import Grid
    from sweepd.search.base import Search
    from sweepd.search.ledger import Standing
    from sweepd.store.store import Store

GridFile = Annotated[Path, typer.Argument(metavar="GRID", help="A grid in YAML (docs/grid.md).")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="key=value", help="Override a field, e.g. model.d=[32,64]."),
]
AcceptCode = Annotated[
    bool,
    typer.Option("--accept-code", help="Count trials that an earlier version of the code made."),
]
ClusterFile = Annotated[
    Path | None,
    typer.Option("--cluster", metavar="FILE", help="Where to run it. Default: this machine."),
]
Promote = Annotated[
    bool,
    typer.Option(
        "--promote",
        help="Run in full the trials that a rule stopped and on which the answer hangs.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a cluster costs money.")]
CANCEL_SECONDS = 120
CANCEL_POLL_SECONDS = 1.0
BILLS = ("grid", "least", "likely", "worst")
"""What `plan` compares: the whole grid, and how the staircase may turn out."""
BILL_FIELDS = ("trials", "train_flops", "seconds_low", "seconds_high")


def register(app: typer.Typer) -> None:
    for command in (plan, launch, resume, cancel):
        app.command()(command)


def plan(
    grid: GridFile,
    overrides: Overrides = None,
    accept_code: AcceptCode = False,
    cluster: ClusterFile = None,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show what a grid would run, what is done already and what the rest costs. Spends nothing."""
    from sweepd.grid.spec import load_grid

    asked, place = load_grid(grid, overrides or []), _place(cluster)
    row = _outlook(asked, place, _address(results, place), accept_code)
    if as_json or as_csv:
        emit(list(row), [row], as_json, as_csv)
    else:
        _show(row, cluster)


def launch(
    grid: GridFile,
    overrides: Overrides = None,
    accept_code: AcceptCode = False,
    cluster: ClusterFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: Yes = False,
    promote: Promote = False,
    results: Results = None,
) -> None:
    """Run a grid. The same command again continues it and skips what is done.

    Exits with 0 if every trial has ended, 1 if some failed, 130 if interrupted.
    """
    from sweepd.cluster import Local
    from sweepd.grid.spec import load_grid

    asked = load_grid(grid, overrides or [])
    if not dry_run:
        _launch(asked, cluster, results, accept_code, promote, yes)
        return
    place = _place(cluster)
    address = _address(results, place)
    _show(_outlook(asked, place, address, accept_code), cluster)
    if not isinstance(place, Local):
        print(f"\n{draft(place, asked, address, _sent(promote, accept_code))}".rstrip())


def resume(
    sweep: Annotated[str | None, typer.Argument(metavar="[SWEEP]", show_default=False)] = None,
    accept_code: AcceptCode = False,
    promote: Promote = False,
    cluster: ClusterFile = None,
    yes: Yes = False,
    results: Results = None,
) -> None:
    """Continue a sweep without its grid file (default: the one launched last)."""
    from sweepd.grid.spec import parse_grid
    from sweepd.store.store import Store

    store = Store.open(_address(results, _place(cluster)))
    if sweep is None:
        launched = [made["sweep"] for made in store.launches() if "sweep" in made]
        if not launched:
            raise UserError(f"{store.address}: no sweep was launched here")
        sweep = launched[-1]
    saved = store.load_sweep(sweep)
    source = f"{store.address}/sweeps/{sweep}/grid.yaml"
    grid = parse_grid(store.load_grid(sweep), source, [], Path(saved.base))
    _launch(grid, cluster, store.address, accept_code, promote, yes)


def cancel(sweep: Annotated[str, typer.Argument(metavar="SWEEP")], results: Results = None) -> None:
    """End a sweep cleanly, wherever it runs: its trials are saved and `resume` continues them."""
    from sweepd.store.store import Store

    store = Store.open(results_address(results))
    store.load_sweep(sweep)
    if not store.driven_elsewhere([sweep]):
        say(f"sweep {sweep} is not running: no driver has begun, or it has ended")
        return
    until = time.monotonic() + CANCEL_SECONDS
    while store.driven_elsewhere([sweep]):
        for latest in [made for made in store.launches() if made.get("sweep") == sweep][-1:]:
            store.request_cancel(latest["number"])  # a driver just starting has no launch yet
        if time.monotonic() > until:
            raise EnvironmentFailure(f"sweep {sweep}: its driver was told to stop but still runs")
        time.sleep(CANCEL_POLL_SECONDS)
    say(f"sweep {sweep} was cancelled; `sweepd resume {sweep}` continues it")


def _launch(
    grid: Grid,
    cluster: Path | None,
    results: str | None,
    accept_code: bool,
    promote: bool,
    yes: bool,
) -> None:
    from sweepd.cluster import Local
    from sweepd.run import driver
    from sweepd.search.base import GridSearch
    from sweepd.search.staircase import promotion_of, search_of
    from sweepd.store.store import Store

    place = _place(cluster)
    store = Store.create(_address(results, place))
    planned, standing, recorded = _planned(grid, store, accept_code)
    search = _informed((promotion_of if promote else search_of)(planned), recorded)
    name = grid.name
    row = _summary(search, standing, recorded, place)
    something_to_do = bool(search.wanted())
    about = "" if isinstance(search, GridSearch) else "~"
    if something_to_do:
        say(
            f"sweep {name}: {row['trials']} trials in {row['cells']} cells, {row['done']} done, "
            f"{about}{row['to_run']} to run, {row['slots']} at once, about "
            f"{duration(row['seconds_low'])} to {duration(row['seconds_high'])}{_dollars(row)}"
        )
        if cluster and not isinstance(place, Local):
            hand_over(place, cluster, grid, store, _sent(promote, accept_code), yes)
            return

    progress = Progress(planned.trials, row["to_run"], about)
    with _stopping() as stop:
        launched = driver.launch(search, store, _ray(grid, place), stop, progress, say)
    done, trials = len(launched.standing.done), len(planned.trials)
    if not something_to_do:
        say(f"sweep {name}: nothing to do, {done} of {trials} trials are done")
        return
    say(
        f"sweep {name}: {done} of {trials} trials done, "
        f"{len(launched.standing.failed)} failed; results in {store.address}"
    )
    if not promote and (tally := search.tally()):
        roles = ", ".join(f"{count} {role}" for role, count in tally.items())
        say(f"cells tried: {sum(tally.values())} of {row['cells']} ({roles})")
    if launched.interrupted:
        say(f"interrupted; `sweepd resume {name}{' --promote' * promote}` continues it")
        raise typer.Exit(130)
    if launched.failed:
        say(f"`sweepd status {name}` names them, `sweepd logs TRIAL` shows why; launch to retry")
        raise typer.Exit(1)


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets; a second signal ends the process at once."""
    event = threading.Event()

    def ask(number: int, frame: object) -> None:
        if event.is_set():
            os._exit(130)
        event.set()
        say("stopping: saving what runs (once more to leave at once)")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _sent(promote: bool, accept_code: bool) -> list[str]:
    """The options of this launch that a driver elsewhere has to be told."""
    options = {"--promote": promote, "--accept-code": accept_code}
    return [option for option, wanted in options.items() if wanted]


def _place(cluster: Path | None) -> Cluster:
    """The cluster file's content; without one, this machine."""
    from sweepd.cluster import Local, load_cluster

    return load_cluster(cluster) if cluster else Local(kind="local")


def _address(results: str | None, place: Cluster) -> str:
    """Where results lie: --results, else what the cluster file says, else as everywhere."""
    address = results_address(results or place.results)
    place.check_results(address)
    return address


def _per_trial(grid: Grid, place: Cluster) -> Resources:
    """What one trial occupies: what the grid says, else the cluster file."""
    from sweepd.grid.options import Resources

    return grid.resources if isinstance(grid.resources, Resources) else place.per_trial


def _ray(grid: Grid, place: Cluster) -> Placement:
    """Where a driver in this process runs its trials."""
    from sweepd.cluster import Local
    from sweepd.grid.options import Placement

    address, nodes = (place.ray, place.nodes) if isinstance(place, Local) else (None, {})
    return Placement(_per_trial(grid, place), address, tuple(nodes.values()))


def _existing(address: str) -> Store | None:
    """The store, or None where nothing was stored yet, or, as far as can be told from here, not:
    a plan needs neither network nor credentials."""
    from sweepd.store.store import Store

    try:
        return Store.find(address)
    except EnvironmentFailure as failure:
        say(f"{failure}; nothing counts as done")
        return None


def _planned(grid: Grid, store: Store | None, accept_code: bool) -> tuple[Plan, Standing, pa.Table]:
    """The plan and how it stands, after taking over what accepted codes have done, by the store's
    `trials`, which come with it."""
    from sweepd.grid import plan as planning
    from sweepd.search.ledger import changed_files, standing
    from sweepd.store.schema import TRIALS
    from sweepd.trial.checkpoints import outlook

    planned = planning.plan(grid)
    for warning in planned.warnings:
        say(f"warning: {warning}")
    if store is None:
        nothing = TRIALS.concat([])
        return planned, standing(planned.trials, nothing), nothing
    read = store.read_trials()
    report_damage(read.damaged)
    found = standing(planned.trials, read.table)
    codes = {ending.code for ending in found.other.values()}
    sweeps, damaged = store.readable_sweeps()
    report_damage(damaged)
    accepted = set(sweeps[grid.name].accepted) if grid.name in sweeps else set()
    if accept_code:
        accepted |= codes
    if unaccepted := [end for end in found.other.values() if end.code not in accepted]:
        ours = {code: made.files for code, made in planned.codes.items()}
        theirs = {
            code: files for info in sweeps.values() for code, files in info.code_files.items()
        }
        changed = changed_files(ours, theirs, {end.code for end in unaccepted})
        say(
            f"{len(unaccepted)} trials were done by another version of the code "
            f"(changed: {', '.join(changed) or 'unknown'}); --accept-code counts them as done"
        )
    planned = replace(planned, trials=found.accepting(accepted))
    now = standing(planned.trials, read.table)
    for line in outlook(now.todo, read.table, store.checkpoints).lines():
        say(line)
    return planned, now, read.table


def _informed(search: Search, recorded: pa.Table) -> Search:
    """The search, knowing the store's `trials`."""
    from sweepd.search.ledger import outcomes

    search.learn(outcomes(search.plan, recorded), ())
    return search


def _outlook(grid: Grid, place: Cluster, address: str, accept_code: bool) -> dict[str, Any]:
    """The one row that `plan` prints, of a grid that is not to be run now."""
    from sweepd.search.staircase import search_of

    planned, now, recorded = _planned(grid, _existing(address), accept_code)
    return _summary(_informed(search_of(planned), recorded), now, recorded, place)


def _show(row: Mapping[str, Any], cluster: Path | None) -> None:
    """Print the row of `plan` for people."""
    rows = list(_bill_rows(row))
    emit(list(rows[0]), rows, as_json=False, as_csv=False)
    if cluster:
        say(f"on {cluster}: {row['slots']} at once{_dollars(row)}")


def _summary(search: Search, now: Standing, recorded: pa.Table, place: Cluster) -> dict[str, Any]:
    """What a search has before it, in one row."""
    from sweepd.search.estimate import bills

    planned = search.plan
    per_trial = _per_trial(planned.grid, place)
    slots = max(1, place.slots(per_trial))
    found = bills(search, slots, recorded)
    expected = found.get("likely", found["grid"])
    cost_low, cost_high = place.cost(
        per_trial, min(slots, round(expected.trials)), expected.seconds_low, expected.seconds_high
    )
    return {
        "sweep": planned.grid.name,
        "cells": len({trial.cell for trial in planned.trials}),
        "trials": len(planned.trials),
        "done": len(now.done),
        "failed": len(now.failed),
        "other_code": len(now.other),
        "to_run": round(expected.trials),
        "train_flops": expected.train_flops,
        "slots": slots,
        "seconds_low": expected.seconds_low,
        "seconds_high": expected.seconds_high,
        "cost_low": cost_low,
        "cost_high": cost_high,
        "search": planned.grid.search_name,
        **{
            f"{name}_{field}": value
            for name in BILLS
            for field, value in asdict(found.get(name, found["grid"])).items()
        },
    }


def _dollars(row: Mapping[str, Any]) -> str:
    return f", ${row['cost_low']:.2f} to ${row['cost_high']:.2f}" if row["cost_high"] else ""


def _bill_rows(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The row of `plan` for people: what is left of the grid, and below it of the staircase."""
    shared = {name: row[name] for name in ("sweep", "cells", "trials", "done", "failed")}
    for name in BILLS if row["search"] == "staircase" else BILLS[:1]:
        bill = {field: row[f"{name}_{field}"] for field in BILL_FIELDS}
        low, high = (duration(bill[f"seconds_{end}"]) for end in ("low", "high"))
        share = bill["train_flops"] / (row["grid_train_flops"] or 1)
        yield {
            **(shared if name == "grid" else dict.fromkeys(shared)),
            "search": name if name == "grid" else f"staircase: {name}",
            "to_run": round(bill["trials"]),
            "train_flops": bill["train_flops"],
            "share": f"{share:.1%}",
            "time": f"{low} to {high}",
        }
