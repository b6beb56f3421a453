"""Running sweeps: plan, launch, resume, cancel."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweepd.cli.cluster import hand_over, packed
from sweepd.cli.completion import complete_grid_files, complete_sweeps
from sweepd.cli.options import AsJson, DryRun, Results, Settings, SweepName, Yes
from sweepd.cli.output import command, emit, form_of, results_address, say, say_left_out, stored
from sweepd.cli.tracking import LogTo, telling
from sweepd.errors import EnvironmentFailure, UserError
from sweepd.listing import duration
from sweepd.statuses import INTERRUPTED_EXIT

if TYPE_CHECKING:
    from sweepd.cli.progress import Progress
    from sweepd.cluster import Cluster
    from sweepd.grid.spec import Grid
    from sweepd.run.launching import Aim, Estimate, Planned
    from sweepd.search.base import Search
    from sweepd.search.estimate import Bill
    from sweepd.store.store import Store

GridFile = Annotated[
    Path,
    typer.Argument(
        metavar="GRID", help="A grid in YAML (docs/grid.md).", autocompletion=complete_grid_files
    ),
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
InOwnProcess = Annotated[
    bool,
    typer.Option(
        "--in-process",
        help="Run trials one by one in this process, without Ray, for prints and a debugger.",
    ),
]
MaxFlops = Annotated[
    float,
    typer.Option(metavar="N", help="Training FLOPs that settling may spend.", show_default=False),
]
MaxHours = Annotated[
    float,
    typer.Option(
        metavar="N", help="Hours after which it starts no trial that settles.", show_default=False
    ),
]
TWICE_SECONDS = 0.3
"""Two signals within so many seconds count as one: people take longer."""
MOST_NAMED = 3
"""How many failed trials a launch names at most when it ends."""


def plan(
    grid: GridFile,
    overrides: Settings = None,
    accept_code: AcceptCode = False,
    cluster: ClusterOption = None,
    probe: Annotated[
        bool,
        typer.Option("--probe", help="Judge times by 20 steps of its trials, on this machine."),
    ] = False,
    results: Results = None,
    as_json: AsJson = None,
) -> None:
    """Show what a grid would run, what is done already and what the rest costs. Spends nothing."""
    from sweepd.grid.spec import load_grid

    form = form_of(as_json)
    asked, (site, address) = load_grid(grid, overrides or []), _place(cluster, results)
    expected = _estimate(asked, site, address, accept_code, probe)
    if form == "table":
        _show(expected, cluster)
    else:
        row = expected.row()
        emit(list(row), [row], form)


def launch(
    grid: GridFile,
    overrides: Settings = None,
    accept_code: AcceptCode = False,
    cluster: ClusterOption = None,
    dry_run: DryRun = False,
    in_process: InOwnProcess = False,
    yes: Yes = False,
    promote: Promote = False,
    max_flops: MaxFlops = math.inf,
    max_hours: MaxHours = math.inf,
    log_to: LogTo = None,
    results: Results = None,
) -> None:
    """Run a grid. The same command again continues it and skips what is done.

    Exits with 0 if every trial has ended, 1 if some failed, 130 if interrupted.
    """
    from sweepd.cluster import Local
    from sweepd.grid.spec import load_grid

    asked = load_grid(grid, overrides or [])
    options = Options(accept_code, promote, max_flops, max_hours, tuple(log_to or ()), in_process)
    if not dry_run:
        _launch(asked, cluster, results, options, yes)
        return
    site, address = _place(cluster, results)
    _show(_estimate(asked, site, address, accept_code), cluster)
    if not isinstance(site, Local):
        with packed(site, asked, address, options.sent()) as work:
            print(f"\n{site.draft(work)}".rstrip())


def resume(
    sweep: SweepName = None,
    accept_code: AcceptCode = False,
    promote: Promote = False,
    max_flops: MaxFlops = math.inf,
    max_hours: MaxHours = math.inf,
    log_to: LogTo = None,
    cluster: ClusterOption = None,
    in_process: InOwnProcess = False,
    yes: Yes = False,
    results: Results = None,
) -> None:
    """Continue a sweep without its grid file (default: the one launched last)."""
    from sweepd.run.launching import saved_grid

    store = stored(_place(cluster, results)[1])
    options = Options(accept_code, promote, max_flops, max_hours, tuple(log_to or ()), in_process)
    with saved_grid(store, sweep, say) as grid:
        _launch(grid, cluster, store.address, options, yes)


def cancel(
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", autocompletion=complete_sweeps)],
    results: Results = None,
) -> None:
    """End a sweep cleanly, wherever it runs: its trials are saved and `resume` continues them."""
    from sweepd.run import launching

    if launching.cancel(stored(results), sweep):
        go_on = command("resume", sweep, results=results_address(results))
        say(f"sweep {sweep} was cancelled; `{go_on}` continues it")
    else:
        say(f"sweep {sweep} is not running: no driver has begun, or it has ended")


@dataclass(frozen=True)
class Options:
    """What a launch is asked to do besides its grid. whole_hours: how long it may take in all."""

    accept_code: bool = False
    promote: bool = False
    max_flops: float = math.inf
    max_hours: float = math.inf
    log_to: tuple[str, ...] = ()
    in_process: bool = False
    whole_hours: float = math.inf

    @property
    def limits(self) -> dict[str, float]:
        return {"--max-flops": self.max_flops, "--max-hours": self.max_hours}

    def __post_init__(self) -> None:
        for option, number in self.limits.items():
            if not number >= 0:
                raise UserError(f"{option} {number:g}: must not be negative")

    def sent(self) -> list[str]:
        """Returns the options that a driver elsewhere has to be told."""
        flags = {"--promote": self.promote, "--accept-code": self.accept_code}
        words = [option for option, wanted in flags.items() if wanted]
        for option, number in self.limits.items():
            words += [option, str(number)] if number < math.inf else []
        for name in self.log_to:
            words += ["--log-to", name]
        return words


def run_to_its_end(grid: Grid, results: str | None, options: Options) -> tuple[Store, Search, int]:
    """Runs a grid on this machine as far as the options allow. Returns its store, its search, which
    knows what comes next, and how many trials failed for good."""
    from sweepd.run.launching import planned

    some_failed = False
    try:
        _launch(grid, None, results, options, yes=True)
    except typer.Exit as end:
        some_failed = end.exit_code == 1
    store = stored(_place(None, results)[1])
    made = planned(grid, store, codes="all" if options.accept_code else "accepted")
    return store, made.search, len(made.standing.failed) if some_failed else 0


def _launch(
    grid: Grid, cluster: Path | None, results: str | None, options: Options, yes: bool
) -> None:
    from sweepd.check.own_process import inspect_new
    from sweepd.cli.progress import Progress
    from sweepd.cluster import Local
    from sweepd.run import driver, runner
    from sweepd.run.launching import estimate, per_trial
    from sweepd.search.base import Allowance
    from sweepd.store.store import Store

    site, address = _place(cluster, results)
    run: runner.Runner = runner.on_ray
    if options.in_process:
        if cluster:
            raise UserError(f"--in-process runs trials here, not on {cluster}: leave out one")
        from sweepd.cluster.base import InProcess
        from sweepd.run import in_process

        site, run = InProcess(kind="local"), in_process.run
    store, promote = Store.create(address), options.promote
    planned = _planned(grid, site, store, options.accept_code, "promote" if promote else "search")
    planned.search.allowance = Allowance(options.max_flops, 3600 * options.max_hours)
    expected = estimate(planned, site)
    something_to_do = bool(planned.search.wanted())
    if something_to_do:
        say(
            f"sweep {grid.name}: {expected.trials} trials in {expected.cells} cells, "
            f"{expected.done} done, {'' if expected.is_exact else '~'}{expected.to_run} to run, "
            f"{expected.at_once} at once, about {_span(expected.expected)}{_dollars(expected)}"
        )
        inspect_new(grid, store, say)
        if cluster and not isinstance(site, Local):
            hand_over(site, cluster, grid, store, options.sent(), yes)
            return
    go_on = command("resume", grid.name, *["--promote"] * promote, results=address)
    progress = Progress(planned.search, expected, address, go_on)
    placement = site.placement(per_trial(grid, site))
    placement = replace(placement, max_hours=min(placement.max_hours, options.whole_hours))
    with (
        # Trials that run in this process print to the terminal themselves.
        progress if something_to_do and not options.in_process else nullcontext(),
        telling(list(dict.fromkeys((*grid.log_to, *options.log_to))), grid.name, progress),
        _stopping(progress) as stop,
    ):
        launched = driver.launch(
            planned.search, store, placement, stop, progress, progress.note, run
        )
    after = launched.standing
    done = f"sweep {grid.name}: {len(after.done)} of {after.trials} trials"
    if not something_to_do:
        say(f"{done} done, nothing to do")
        _say_given_up(planned.search)
        return
    say(f"{done} done, {len(after.failed)} failed; results in {store.address}")
    if planned.search.allowance.is_spent and planned.search.settling():
        say("settling has ended: what --max-flops or --max-hours allows is spent")
    else:
        _say_given_up(planned.search)
    if not promote and (tally := planned.search.tally()):  # it had a choice
        roles = ", ".join(f"{count} {role}" for role, count in tally.items())
        cells = sum(len(stair.cells) for stair in planned.search.stairs)
        say(f"cells tried: {sum(tally.values())} of {cells} ({roles})")
    if launched.interrupted:
        say(f"interrupted; `{go_on}` continues it")
        raise typer.Exit(INTERRUPTED_EXIT)
    if launched.failed:
        for trial in launched.failed[:MOST_NAMED]:
            read = command("logs", trial.id, results=address)
            say(f"failed: {progress.label(trial)}; `{read}` shows why")
        if more := len(launched.failed[MOST_NAMED:]):
            named = command("status", grid.name, results=address)
            say(f"{more} more failed; `{named}` names them")
        say("the same launch again retries them")
        raise typer.Exit(1)


def _say_given_up(search: Search) -> None:
    """Says how to go on where more training may still change cells that are not trained on."""
    settle = search.plan.grid.settle
    if settle and (count := search.trained_on(give_up=False)):
        cells = "1 cell waits" if count == 1 else f"{count} cells wait"
        say(
            f"{cells} for a smaller size, at which nothing passes yet; "
            f"`--set settle.give_up=false` trains on, up to {settle.most} steps"
        )
    if settle and (count := search.trained_on(share=math.inf)):
        cells = "1 cell waits" if count == 1 else f"{count} cells wait"
        more = max(1.0, 4 * (settle.share or 0))
        say(
            f"{cells}: the next trial costs more than `settle.share` allows; "
            f"`--set settle.share={more:g}` allows {more:g} times what the line's whole grid costs "
            "at its first budget"
        )


def _span(bill: Bill) -> str:
    if math.isinf(bill.seconds_high):
        return "an unknown time (no trial like these has ended here)"
    return f"{duration(bill.seconds_low)} to {duration(bill.seconds_high)}"


@contextmanager
def _stopping(progress: Progress) -> Iterator[threading.Event]:
    """Within this block, Ctrl-C, SIGTERM or the end of the terminal sets the event, and a second
    signal ends the process at once."""
    event, asked = threading.Event(), 0.0

    def ask(number: int, frame: object) -> None:
        nonlocal asked
        if event.is_set():
            # `timeout` and others send one signal twice: to the process and to its group.
            if time.monotonic() - asked > TWICE_SECONDS:
                progress.leave("", INTERRUPTED_EXIT)
            return
        asked = time.monotonic()
        event.set()
        progress.note("stopping: saving what runs (once more to leave at once)")

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # `nohup` ignores it
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, ask) for number in numbers}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _place(cluster: Path | None, results: str | None) -> tuple[Cluster, str]:
    """Returns the cluster that the file describes, or without a file this machine, and where
    results lie: --results, else what the cluster file says, else the default of all commands."""
    from sweepd.cluster import Local, load_cluster

    site = load_cluster(cluster) if cluster else Local(kind="local")
    address = results_address(site.results if results is None else results)
    site.check_results(address)
    return site, address


def _planned(
    grid: Grid, site: Cluster, store: Store | None, accept_code: bool, aim: Aim
) -> Planned:
    from sweepd.run.launching import per_trial, planned

    made = planned(grid, store, codes="all" if accept_code else "accepted", aim=aim)
    say_left_out(made.damaged)
    for note in made.notes(per_trial(grid, site)):
        say(note)
    return made


def _estimate(
    grid: Grid, site: Cluster, address: str, accept_code: bool, probe: bool = False
) -> Estimate:
    """Returns what is left of a grid that is not to be run now. Where the store cannot be reached
    from here nothing counts as done, since a plan needs neither network nor credentials."""
    from sweepd.grid.yamlfile import dotted
    from sweepd.query.laws import precision_notes
    from sweepd.run.launching import estimate, per_trial, probed
    from sweepd.store.store import Store

    store = None
    try:
        store = Store.find(address)
    except EnvironmentFailure as failure:
        say(f"{failure}; nothing counts as done")
    made = _planned(grid, site, store, accept_code, "search")
    for keys, values in grid.document.ranges.items():
        say(f"{dotted(keys)}: {', '.join(f'{value:g}' for value in values)}")
    for note in precision_notes(made.plan):
        say(note)
    measured = probed(made, per_trial(grid, site), say) if probe else None
    return estimate(made, site, measured)


def _show(expected: Estimate, cluster: Path | None) -> None:
    """Prints what is left of the grid, then of the staircase, then of settling."""
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
        flops = bill.train_flops or None
        share = f"{flops / whole:.1%}" if whole and flops else None
        row = {"search": name if name == "grid" else shown, "to_run": round(bill.trials)}
        rows.append({**row, "train_flops": flops, "share": share, "time": _span(bill)})
    emit(list(rows[0]), rows)
    if cluster:
        say(f"on {cluster}: {_places(expected)}{_dollars(expected)}")


def _places(expected: Estimate) -> str:
    """Says how many slots of which nodes work, and how many stay empty."""
    slots = [f"{count} on {name}" for name, count in expected.kinds.items() if count]
    said = f"{expected.at_once} at once"
    if slots:
        said += f" (slots: {', '.join(slots)})"
    if empty := expected.slots - expected.at_once:
        said += f", {empty} slots stay empty"
    if idle := [name for name, count in expected.kinds.items() if count is None]:
        said += f", none on {', '.join(idle)}, whose cards no trial asks for"
    return said


def _dollars(expected: Estimate) -> str:
    low, high = expected.cost_low, expected.cost_high
    if math.isinf(high):
        return f", at least ${low:.2f}: how much more is not known; `max_dollars` limits it"
    return f", ${low:.2f} to ${high:.2f}" if high else ""
