"""What a person sees while a sweep runs: on a terminal a board that fills in, elsewhere a line for
each trial that ends and one a minute. A launch makes the board from what its engine reports, and
`status --watch` from the store, on any machine that sees it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

from sweepd.cli.board import (
    RUNNING,
    Board,
    BoardMaker,
    TrialState,
    amount,
    drawn,
    line,
)
from sweepd.cli.output import command, say
from sweepd.closest import closest
from sweepd.errors import EnvironmentFailure
from sweepd.grid.options import Goal
from sweepd.listing import duration
from sweepd.statuses import DONE
from sweepd.store.names import attempt_number
from sweepd.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from sweepd.cli.tracking import Told
    from sweepd.grid.trials import Trial
    from sweepd.listing import Row
    from sweepd.run.launching import Estimate
    from sweepd.search.base import Search
    from sweepd.store.storage import Damaged
    from sweepd.store.sweeps import SweepInfo

QUIET_SECONDS = 60.0
"""For how many seconds nothing is said, where there is no terminal, before a line says what is
running."""
MOST_SCORES = 6
"""The most scores of a trial that its line shows."""
REFRESHES = 4
"""How many times a second the board is drawn."""
INTERRUPT = "Ctrl-C saves what runs and ends; the same launch again continues it"


class Progress:
    """Shows on stderr what the engine reports (`sweepd.run.tune_hooks.Listener`).

    As a context manager it holds the terminal. Any other message meanwhile goes through `note`. The
    engine calls from one thread, and the board is drawn in another. address: where results lie.
    go_on: the command that continues the sweep.
    """

    def __init__(self, search: Search, expected: Estimate, address: str, go_on: str) -> None:
        plan, self.address, self.go_on = search.plan, address, go_on
        self.expected, self.metric = expected, plan.grid.goal.metric
        self.maker = BoardMaker(
            plan.rows(),
            {*plan.grid.seeds[plan.grid.first_seeds :], *plan.grid.fresh_seeds},
            sweep=plan.grid.name,
            goal=plan.grid.goal,
            rule=plan.grid.pass_rule,
            staircase=plan.grid.search_name == "staircase",
            minimized=plan.minimized,
        )
        for id_, one in search.outcomes.items():
            self.maker.states[id_] = TrialState(one.status, 0, one.score, earlier=True)
        self.waiting, self.interrupt, self.cost = "", INTERRUPT, ""
        self.began: float | None = None
        self.entered = self.spoken = time.monotonic()
        self.guard = threading.Lock()
        self.live: Any = None
        self.told: Told | None = None
        """Whoever is told of trials too."""

    def __enter__(self) -> Progress:
        if not (sys.stderr.isatty() and os.environ.get("TERM") != "dumb"):
            return self
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self.live = Live(
            console=console,
            get_renderable=lambda: drawn(
                self.board(),
                console.width - 1,
                "; ".join(filter(None, (self.cost, self.interrupt))),
            ),
            refresh_per_second=REFRESHES,
            vertical_overflow="crop",
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.waiting = self.interrupt = ""
        if self.live:
            self.live.stop()
            self.live = None

    def board(self) -> Board:
        """Returns the sweep as the engine has told of it until now."""
        bill = self.expected.expected
        likely = bill.trials, bill.train_flops or 0.0
        with self.guard:
            return self.maker.board(
                expected=None if self.expected.is_exact else likely,
                estimate=(bill.seconds_low, bill.seconds_high),
                seconds=0.0 if self.began is None else time.monotonic() - self.began,
                waiting=self.waiting,
            )

    def note(self, text: str) -> None:
        """Prints a message for the person at the terminal."""
        if self.live:
            self.live.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            say(text)

    def preparing(self, what: str) -> None:
        """Shows what is being prepared. Nothing runs now."""
        self.waiting = what
        if not self.live:
            self._say(f"{what} (after {duration(time.monotonic() - self.entered)})")

    def spent(self, dollars: float, an_hour: float) -> None:
        """Shows what the nodes cost."""
        self.cost = f"${dollars:.2f} spent, ${an_hour:.2f} an hour"

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        self.waiting, self.began = "", self.began or time.monotonic()
        with self.guard:
            score = report.get(self.metric)
            self.maker.states[trial.id] = TrialState(RUNNING, report["step"], score)
        if not self.live and time.monotonic() - self.spoken > QUIET_SECONDS:
            self._say("; ".join(filter(None, (line(self.board()), self.cost))))
        if self.told:
            self.told.running(trial, report)

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        self.waiting, self.began = "", self.began or time.monotonic()
        status = report["status"]
        step = report.get("step") or self.maker.states.get(trial.id, TrialState()).step
        with self.guard:
            self.maker.states[trial.id] = TrialState(
                status, step, report.get(self.metric), error=report["error"]
            )
        known = [name for name in trial.metrics if name != "chain_acc"]
        known = [name for name in known if report.get(name) is not None]
        scores = "".join(f", {name} {report[name]:.3g}" for name in known[:MOST_SCORES])
        if len(known) > MOST_SCORES:
            scores += f", and {len(known) - MOST_SCORES} more"
        why = f": {report['error'].splitlines()[0]}" if report["error"] else ""
        told = f"{self.label(trial)}: {status}{scores}{why}"
        if status == "failed":
            with self.guard:
                self.maker.failed(trial.id, scores + why, self.address)
                told = self.maker.errors[-1]
        if not self.live:
            found = amount(self.board())
            about = "" if self.expected.is_exact else "~"
            counter = (
                f"[{found.trials:{len(str(found.trials_in_all))}}/{about}{found.trials_in_all}]"
            )
            self._say(f"{counter} {told}")
        if self.told:
            self.told.ended(trial, report)

    def lost_ray(self, reason: str) -> NoReturn:
        """Ends the process at once, because Python's own way out would wait for Ray."""
        self.leave(
            f"sweepd: {reason}; `{self.go_on}` continues from the last checkpoints",
            EnvironmentFailure.exit_code,
        )

    def leave(self, text: str, exit_code: int) -> NoReturn:
        """Ends the process at once, with the terminal as it was before."""
        if self.live:
            sys.stderr.write("\x1b[?25h\n")  # show the cursor, which the board has hidden
        if text:
            say(text)
        os._exit(exit_code)

    def label(self, trial: Trial) -> str:
        """Returns a trial's name: its id's first digits, its task, its model, and the fields that
        differ in this sweep."""
        return self.maker.labels[trial.id]

    def _say(self, text: str) -> None:
        say(text)
        self.spoken = time.monotonic()


WATCH_SECONDS = 2.0
WATCH_SHARE = 0.1
"""The share of a core that watching takes at most, once it goes on. A picture of 100,000 trials
takes most of a second."""
BATCH = 1000
"""How many rows of a plan are Python objects at once."""
LEAVE = "Ctrl-C ends only this view; `{}` ends the sweep"
ENDED = ("id", "attempt", "status", "step", "acc", "chain_acc", "loss", "seconds", "error")
"""The columns of an ending that are shown, besides metrics of users' own tasks and loops."""


def watched(address: str, sweep: str | None) -> None:
    """Shows the sweep, or all sweeps that run, until no driver runs any of them.

    Waits for the launch of a sweep that is not there yet. Ctrl-C ends the view alone.
    """
    try:
        store = _awaited(address, sweep)
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            _drawn(store, sweep)
        else:
            _printed(store, sweep)
    except KeyboardInterrupt:
        say("no longer watching")


def _awaited(address: str, sweep: str | None) -> Store:
    """Returns the store, once it holds the sweep, or any sweep at all if none is named."""
    told = False
    while True:
        store = Store.find(address)
        names = store.sweeps() if store else []
        if store and (sweep in names if sweep else names):
            return store
        if not told:
            hint = closest(sweep, names) if sweep else ""
            what = f"sweep {sweep}{hint}" if sweep else "a sweep"
            say(f"waiting for the launch of {what} in {address}; Ctrl-C ends this")
            told = True
        time.sleep(WATCH_SECONDS)


def _drawn(store: Store, sweep: str | None) -> None:
    from rich.console import Console, Group
    from rich.live import Live

    console, view = Console(), cache(partial(View, store))
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for names, running in _shown(store, sweep):
            told = []
            for name in names:
                end = command("cancel", name, results=store.address)
                leave = LEAVE.format(end) if name in running else ""
                told.append(drawn(view(name).board(running), console.width - 1, leave))
            live.update(Group(*told), refresh=True)


def _printed(store: Store, sweep: str | None) -> None:
    """Prints a line for each sweep that runs, once a minute and whenever a trial has ended or
    begun."""
    said: dict[str, tuple[object, float]] = {}
    view = cache(partial(View, store))
    for names, running in _shown(store, sweep):
        for name in names:
            board = view(name).board(running)
            stand = tuple(sorted((id_, state.status) for id_, state in board.states.items()))
            before, at = said.get(name, (None, 0.0))
            if stand != before or time.monotonic() - at > QUIET_SECONDS:
                print(f"{name}: {line(board)}", flush=True)
                said[name] = stand, time.monotonic()


def _shown(store: Store, sweep: str | None) -> Iterator[tuple[Sequence[str], set[str]]]:
    """Yields the sweeps to show, and those of them that a driver runs, until none runs. This is
    every WATCH_SECONDS, or less often where more than WATCH_SHARE of a core would be used. Sweeps
    that have ended meanwhile are among them, as they ended."""
    shown = {sweep} if sweep else set()
    for picture in count():
        began = time.process_time()
        running = _running(store, sweep)
        shown |= running
        yield sorted(shown), running
        if not running:
            return
        used = time.process_time() - began if picture else 0.0  # the first one imports much
        time.sleep(max(WATCH_SECONDS, used / WATCH_SHARE - used))


def _running(store: Store, sweep: str | None) -> set[str]:
    """Returns the sweeps to watch that a driver runs."""
    return store.driven_elsewhere([sweep] if sweep else store.sweeps())


class View:
    """One sweep, shown again and again from what its store says.

    Its plan is put together when it is first seen, and again if a launch has changed it. Everything
    else is read anew for each board while the sweep runs. What cannot be read is left out.
    """

    def __init__(self, store: Store, sweep: str) -> None:
        self.store, self.sweep = store, sweep
        self.info: SweepInfo | None = None
        self.plan: pa.Table | None = None
        self.maker: BoardMaker | None = None
        self.first = 0
        """The first attempt that the board counts: that of the launch that was last seen to run.
        Where none was, all attempts count."""
        self.over: Board | None = None
        """The board after the last launch."""

    def board(self, running: Collection[str]) -> Board:
        """Returns how the sweep stands now. running: the sweeps that a driver runs."""
        runs = self.sweep in running
        if runs or not self.over:
            made = self._made(runs)
            self.over = None if runs else made
            return made
        return self.over

    def _made(self, runs: bool) -> Board:
        info = self.store.load_sweep(self.sweep)
        plan = self.store.read_plans([self.sweep]).table
        goal = Goal.parse(info.goal)
        if self.maker is None or info != self.info or not plan.equals(self.plan):
            self.info, self.plan = info, plan
            self.maker = BoardMaker(
                (row for batch in plan.to_batches(BATCH) for row in batch.to_pylist()),
                {*info.extra_seeds, *info.fresh_seeds},
                sweep=self.sweep,
                goal=goal,
                rule=info.pass_rule,
                staircase=info.search == "staircase",
                minimized=info.minimized,
            )
        maker = self.maker
        endings, active, _ = standings(self.store, self.sweep, plan, info.metrics)
        launches = [made for made in self.store.launches() if made.get("sweep") == self.sweep]
        latest: Mapping[str, Any] = launches[-1] if launches else {}
        if runs:
            self.first = attempt_number(latest.get("number", 0), 0)
        maker.states, maker.errors = {}, []
        for id_ in maker.labels:
            ended, now = endings.get(id_), active.get(id_)
            if now:
                maker.states[id_] = TrialState(RUNNING, now["step"], now.get(goal.metric))
            elif ended:
                earlier = ended["status"] in DONE and ended["attempt"] < self.first
                score, step, error = ended.get(goal.metric), ended["step"] or 0, ended["error"]
                maker.states[id_] = TrialState(ended["status"], step, score, earlier, error)
                if ended["status"] == "failed" and ended["attempt"] >= self.first:
                    why = (error or "").partition("\n")[0]
                    maker.failed(id_, f": {why}", self.store.address)
        here = bool(active) or any(not state.earlier for state in maker.states.values())
        return maker.board(
            seconds=_since(latest) if active else 0.0,
            waiting="starting Ray and its workers" if runs and not here else "",
        )


def _since(launch: Mapping[str, Any]) -> float:
    """Returns the seconds since a launch began, or 0 where its record does not say when that
    was."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(launch["started"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return 0.0


def standings(
    store: Store, sweep: str, planned: pa.Table, metrics: Iterable[str]
) -> tuple[dict[str, Row], dict[str, Row], tuple[Damaged, ...]]:
    """Returns three things: by id, the ending that counts of each planned trial; by id, the newest
    step of each trial that runs; and what could not be read.

    There are no newest steps unless the sweep has a driver. metrics: those of the user's own tasks
    and loops.
    """
    from sweepd.store.endings import counting

    read = store.read_trials(planned["config"].to_pylist())
    ended = counting(read.table)
    active: dict[str, Row] = {}
    if store.driven_elsewhere([sweep]):
        from sweepd.query.metrics import newest_steps

        active = dict(newest_steps(store, planned, read.table, tuple(metrics)))
    told = [name for name in (*ENDED, *metrics) if name in ended.column_names]
    return {row["id"]: row for row in ended.select(told).to_pylist()}, active, read.damaged
