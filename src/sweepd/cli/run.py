"""Running sweeps: plan, launch, resume, cancel."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweepd.cli.cluster import draft, hand_over
from sweepd.cli.completion import SweepName, complete_grid_files, complete_sweeps
from sweepd.cli.output import (
    AsCsv,
    AsJson,
    Results,
    command,
    emit,
    form_of,
    report_damage,
    results_address,
    say,
)
from sweepd.cli.tracking import LogTo, telling
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.listing import duration
from sweepd.statuses import INTERRUPTED_EXIT

if TYPE_CHECKING:
    from sweepd.cli.progress import Progress
    from sweepd.cluster import Cluster
    from sweepd.grid.spec import Grid
    from sweepd.run.driver import Launched
    from sweepd.run.launching import Aim, Codes, Estimate, Planned
    from sweepd.search.base import Allowance, Search
    from sweepd.search.estimate import Bill
    from sweepd.store.store import Store

GridFile = Annotated[
    Path,
    typer.Argument(
        metavar="GRID", help="A grid in YAML (docs/grid.md).", autocompletion=complete_grid_files
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="key=value", help="Override a field, e.g. model.d=[32,64]."),
]
AcceptCode = Annotated[
    bool,
    typer.Option("--accept-code", help="Count trials that an earlier version of the code made."),
]
ClusterOption = Annotated[
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
MaxFlops = Annotated[
    float | None,
    typer.Option("--max-flops", metavar="N", help="Training FLOPs that settling may spend."),
]
MaxHours = Annotated[
    float | None, typer.Option("--max-hours", metavar="N", help="Hours that settling may take.")
]
YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask before a cluster costs money.")
]
TWICE_SECONDS = 0.3
"""Two signals within so many seconds count as one: people take longer."""
MOST_NAMED = 3
"""How many failed trials a launch names at most when it ends."""


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: sweepd plan grids/quickstart.yaml --set model.d=[8,16]")(plan)
    app.command(epilog="Example: sweepd launch grids/quickstart.yaml --results runs")(launch)
    app.command(epilog="Example: sweepd resume quickstart --promote")(resume)
    app.command(epilog="Example: sweepd cancel quickstart")(cancel)


def plan(
    grid: GridFile,
    overrides: Overrides = None,
    accept_code: AcceptCode = False,
    cluster: ClusterOption = None,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Judge times by 20 steps of its trials, on this machine."),
    ] = False,
    results: Results = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Show what a grid would run, what is done already and what the rest costs. Spends nothing."""
    from sweepd.grid.spec import load_grid

    form = form_of(as_json, as_csv)
    asked, site = load_grid(grid, overrides or []), _site(cluster)
    expected = _estimate(asked, site, _address(results, site), accept_code, probe)
    if form == "table":
        _show(expected, cluster)
    else:
        row = expected.row()
        emit(list(row), [row], form)


def launch(
    grid: GridFile,
    overrides: Overrides = None,
    accept_code: AcceptCode = False,
    cluster: ClusterOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    yes: YesOption = False,
    promote: Promote = False,
    max_flops: MaxFlops = None,
    max_hours: MaxHours = None,
    log_to: LogTo = None,
    results: Results = None,
) -> None:
    """Run a grid. The same command again continues it and skips what is done.

    Exits with 0 if every trial has ended, 1 if some failed, 130 if interrupted.
    """
    from sweepd.cluster import Local
    from sweepd.grid.spec import load_grid

    asked = load_grid(grid, overrides or [])
    options = Options(accept_code, promote, max_flops, max_hours, tuple(log_to or ()))
    if not dry_run:
        _launch(asked, cluster, results, options, yes)
        return
    site = _site(cluster)
    address = _address(results, site)
    _show(_estimate(asked, site, address, accept_code), cluster)
    if not isinstance(site, Local):
        print(f"\n{draft(site, asked, address, options.sent())}".rstrip())


def resume(
    sweep: SweepName = None,
    accept_code: AcceptCode = False,
    promote: Promote = False,
    max_flops: MaxFlops = None,
    max_hours: MaxHours = None,
    log_to: LogTo = None,
    cluster: ClusterOption = None,
    yes: YesOption = False,
    results: Results = None,
) -> None:
    """Continue a sweep without its grid file (default: the one launched last)."""
    from sweepd.run.launching import saved_grid
    from sweepd.store.store import Store

    store = Store.open(_address(results, _site(cluster)))
    options = Options(accept_code, promote, max_flops, max_hours, tuple(log_to or ()))
    with saved_grid(store, sweep, say) as grid:
        _launch(grid, cluster, store.address, options, yes)


def cancel(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", autocompletion=complete_sweeps)],
    results: Results = None,
) -> None:
    """End a sweep cleanly, wherever it runs: its trials are saved and `resume` continues them."""
    from sweepd.run import launching
    from sweepd.store.store import Store

    address = results_address(results)
    if launching.cancel(Store.open(address), sweep):
        go_on = command("resume", sweep, results=address)
        say(f"sweep {sweep} was cancelled; `{go_on}` continues it")
    else:
        say(f"sweep {sweep} is not running: no driver has begun, or it has ended")


@dataclass(frozen=True)
class Options:
    """What a launch is asked to do besides its grid."""

    accept_code: bool
    promote: bool
    max_flops: float | None
    max_hours: float | None
    log_to: tuple[str, ...]

    def sent(self) -> list[str]:
        """Returns the options that a driver elsewhere has to be told."""
        flags = {"--promote": self.promote, "--accept-code": self.accept_code}
        numbers = {"--max-flops": self.max_flops, "--max-hours": self.max_hours}
        told = [option for option, wanted in flags.items() if wanted]
        for option, number in numbers.items():
            told += [option, f"{number:g}"] if number is not None else []
        return [*told, *(word for name in self.log_to for word in ("--log-to", name))]

    def allowance(self) -> Allowance:
        """Returns what settling may spend. Raises UserError if a limit is negative."""
        from sweepd.search.base import Allowance

        limits = {"--max-flops": self.max_flops, "--max-hours": self.max_hours}
        for option, number in limits.items():
            if number is not None and not number >= 0:
                raise UserError(f"{option} {number:g}: must not be negative")
        flops = math.inf if self.max_flops is None else self.max_flops
        hours = math.inf if self.max_hours is None else self.max_hours
        return Allowance(flops, 3600 * hours)


def _launch(
    grid: Grid,
    cluster: Path | None,
    results: str | None,
    options: Options,
    yes: bool,
) -> None:
    from sweepd.check.own_process import inspect_new
    from sweepd.cli.progress import Progress
    from sweepd.cluster import Local
    from sweepd.run import driver
    from sweepd.run.launching import estimate, per_trial
    from sweepd.store.store import Store

    site = _site(cluster)
    address = _address(results, site)
    store = Store.create(address)
    promote = options.promote
    planned = _planned(grid, site, store, options.accept_code, "promote" if promote else "search")
    planned.search.allowance = options.allowance()
    expected = estimate(planned, site)
    something_to_do = bool(planned.search.wanted())
    if something_to_do:
        _announce(expected)
        inspect_new(grid, store, say)
        if cluster and not isinstance(site, Local):
            hand_over(site, cluster, grid, store, options.sent(), yes)
            return
    go_on = command("resume", grid.name, *["--promote"] * promote, results=address)
    progress = Progress(planned.search, expected, address, go_on)
    placement = site.placement(per_trial(grid, site))
    with (
        progress if something_to_do else nullcontext(),
        telling(list(dict.fromkeys((*grid.log_to, *options.log_to))), grid.name, progress),
        _stopping(progress) as stop,
    ):
        launched = driver.launch(planned.search, store, placement, stop, progress, progress.note)
    after = launched.standing
    done = f"sweep {grid.name}: {len(after.done)} of {after.trials} trials"
    if not something_to_do:
        say(f"{done} done, nothing to do")
        _say_given_up(planned.search)
        return
    say(f"{done} done, {len(after.failed)} failed; results in {store.address}")
    if planned.search.allowance.is_spent:
        say("settling has ended: what --max-flops or --max-hours allows is spent")
    else:
        _say_given_up(planned.search)
    if not promote and (tally := planned.search.tally()):  # it had a choice
        roles = ", ".join(f"{count} {role}" for role, count in tally.items())
        say(f"cells tried: {sum(tally.values())} of {planned.search.positions()} ({roles})")
    if launched.interrupted:
        say(f"interrupted; `{go_on}` continues it")
        raise typer.Exit(INTERRUPTED_EXIT)
    if launched.failed:
        _name_failed(launched, progress, grid.name, address)
        raise typer.Exit(1)


def _say_given_up(search: Search) -> None:
    """Says how to go on where more training may still change cells that are not trained on."""
    settle = search.plan.grid.settle
    if settle and (count := search.given_up()):
        cells = "1 cell is" if count == 1 else f"{count} cells are"
        say(
            f"{cells} given up: fresh seeds do not confirm that it passes and are forecast to "
            "fail, or a smaller size does not pass either; "
            f"`--set settle.give_up=false` trains on, up to {settle.most} steps"
        )
    if settle and (count := search.too_dear()):
        cells = "1 cell waits" if count == 1 else f"{count} cells wait"
        more = max(1.0, 4 * (settle.share or 0))
        say(
            f"{cells}: the next trial costs more than `settle.share` allows; "
            f"`--set settle.share={more:g}` allows {more:g} times what the line's whole grid costs "
            "at its first budget"
        )


def _announce(expected: Estimate) -> None:
    """Prints what a launch is about to run."""
    about = "" if expected.is_exact else "~"
    say(
        f"sweep {expected.sweep}: {expected.trials} trials in {expected.cells} cells, "
        f"{expected.done} done, {about}{expected.to_run} to run, {expected.slots} at once, about "
        f"{_span(expected.expected)}{_dollars(expected)}"
    )


def _span(bill: Bill) -> str:
    """Returns how long it takes, as text for people."""
    if math.isinf(bill.seconds_high):
        return "an unknown time (no trial like these has ended here)"
    return f"{duration(bill.seconds_low)} to {duration(bill.seconds_high)}"


def _name_failed(launched: Launched, progress: Progress, sweep: str, address: str) -> None:
    """Prints which trials failed and where to read why."""
    for trial in launched.failed[:MOST_NAMED]:
        read = command("logs", trial.id, results=address)
        say(f"failed: {progress.label(trial)}; `{read}` shows why")
    if more := len(launched.failed[MOST_NAMED:]):
        say(f"{more} more failed; `{command('status', sweep, results=address)}` names them")
    say("the same launch again retries them")


@contextmanager
def _stopping(progress: Progress) -> Iterator[threading.Event]:
    """Within this block, Ctrl-C, SIGTERM or the end of the terminal sets the event, and a second
    signal ends the process at once."""
    event, asked = threading.Event(), 0.0

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if number == signal.SIGHUP:  # whoever prints to a terminal that is gone gets an error
            for terminal in terminals:
                os.dup2(nowhere, terminal)
        if event.is_set():
            # `timeout` and others send one signal twice: to the process and to its group.
            if time.monotonic() - asked > TWICE_SECONDS:
                progress.leave("", INTERRUPTED_EXIT)
            return
        asked = time.monotonic()
        event.set()
        progress.note("stopping: saving what runs (once more to leave at once)")

    nowhere = os.open(os.devnull, os.O_WRONLY)
    terminals = [number for number in (1, 2) if os.isatty(number)]
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # `nohup` ignores it
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(nowhere)


def _site(cluster: Path | None) -> Cluster:
    """Returns the cluster that the file describes. Without a file it is this machine."""
    from sweepd.cluster import Local, load_cluster

    return load_cluster(cluster) if cluster else Local(kind="local")


def _address(results: str | None, site: Cluster) -> str:
    """Returns where results lie: --results, else what the cluster file says, else the default of
    all commands."""
    address = results_address(results or site.results)
    site.check_results(address)
    return address


def _planned(
    grid: Grid, site: Cluster, store: Store | None, accept_code: bool, aim: Aim
) -> Planned:
    """Returns the plan of a grid beside what is stored, and prints what is odd about it."""
    from sweepd.run.launching import per_trial, planned

    codes: Codes = "all" if accept_code else "accepted"
    made = planned(grid, store, codes=codes, aim=aim)
    report_damage(made.damaged)
    for note in made.notes(per_trial(grid, site)):
        say(note)
    return made


def _estimate(
    grid: Grid, site: Cluster, address: str, accept_code: bool, probe: bool = False
) -> Estimate:
    """Returns what is left of a grid that is not to be run now, its times judged by a probe if one
    is wanted. Where the store cannot be reached from here nothing counts as done, since a plan
    needs neither network nor credentials."""
    from sweepd.query.precision import precision_notes
    from sweepd.run.launching import estimate, per_trial
    from sweepd.run.probe import probed
    from sweepd.store.store import Store

    store = None
    try:
        store = Store.find(address)
    except EnvironmentFailure as failure:
        say(f"{failure}; nothing counts as done")
    made = _planned(grid, site, store, accept_code, "search")
    for note in precision_notes(made.plan):
        say(note)
    measured = probed(made, per_trial(grid, site), say) if probe else None
    return estimate(made, site, measured)


def _show(expected: Estimate, cluster: Path | None) -> None:
    """Prints an estimate for people: what is left of the grid, then of the staircase, then of
    settling."""
    from sweepd.run.launching import BILLS, SETTLING

    print(
        f"{expected.sweep}: {expected.trials} trials in {expected.cells} cells, "
        f"{expected.done} done, {expected.failed} failed"
    )
    whole = expected.bill("grid").train_flops
    names = BILLS if expected.search == "staircase" else BILLS[:1]
    rows = []
    for name in (*names, *({SETTLING} & expected.bills.keys())):
        bill = expected.bill(name)
        kind, _, end = name.partition("_")
        shown = f"{kind}: {end}" if end else f"staircase: {name}"
        share = f"{bill.train_flops / whole:.1%}" if whole and bill.train_flops else None
        rows.append(
            {
                "search": name if name == "grid" else shown,
                "to_run": round(bill.trials),
                "train_flops": bill.train_flops or None,
                "share": share,
                "time": _span(bill),
            }
        )
    emit(list(rows[0]), rows)
    if cluster:
        say(f"on {cluster}: {expected.slots} at once{_dollars(expected)}")


def _dollars(expected: Estimate) -> str:
    low, high = expected.cost_low, expected.cost_high
    if math.isinf(high):
        return f", at least ${low:.2f}: how much more is not known; `max_dollars` limits it"
    return f", ${low:.2f} to ${high:.2f}" if high else ""
