"""What a person sees while a sweep runs: on a terminal a board that fills in, elsewhere a line for
each trial that ends and one a minute. A launch makes the board from what its engine reports, and
`status --watch` from the store, on any machine that sees it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

from sweepd.cli.board import MOST_ERRORS, RUNNING, Board, TrialState, amount, drawn, line
from sweepd.cli.output import command, put, readable, say
from sweepd.closest import closest
from sweepd.errors import EnvironmentFailure
from sweepd.listing import duration
from sweepd.statuses import DONE
from sweepd.store.names import attempt_number
from sweepd.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from sweepd.grid.trials import Trial
    from sweepd.listing import Row
    from sweepd.run.launching import Estimate
    from sweepd.search.base import Search
    from sweepd.store.storage import Damaged
    from sweepd.store.sweeps import SweepInfo
    from sweepd.trackers.base import Tracking

QUIET_SECONDS = 60.0
"""For how many seconds nothing is said, where there is no terminal, before a line says what is
running."""
MOST_SCORES = 6
"""The most scores of a trial that its line shows."""
REFRESHES = 4
"""How many times a second the board is drawn."""


class Progress:
    """Shows on stderr what a runner reports (`sweepd.run.runner.Listener`).

    As a context manager it holds the terminal. Any other message meanwhile goes through `note`. The
    engine calls from one thread, and the board is drawn in another. address: where results lie.
    go_on: the command that continues the sweep.
    """

    def __init__(self, search: Search, expected: Estimate, address: str, go_on: str) -> None:
        from sweepd.run.driver import sweep_info

        grid, self.address, self.go_on = search.plan.grid, address, go_on
        self.expected, self.metric = expected, grid.goal.metric
        bill = expected.expected
        self.planned = replace(
            Board.of(grid.name, sweep_info(search.plan), search.plan.rows()),
            expected=None if expected.is_exact else (bill.trials, bill.train_flops or 0.0),
            estimate=(bill.seconds_low, bill.seconds_high),
        )
        self.states = {
            id_: TrialState(one.status, 0, one.score, earlier=True)
            for id_, one in search.outcomes.items()
        }
        self.errors: list[str] = []
        self.waiting = self.cost = ""
        self.interrupt = "Ctrl-C saves what runs and ends; the same launch again continues it"
        self.began: float | None = None
        self.entered = self.spoken = time.monotonic()
        self.guard = threading.Lock()
        self.live: Any = None
        self.tracking: Tracking | None = None
        """Whoever tells trackers of the trials too."""

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
                "; ".join(filter(None, [self.cost, self.interrupt])),
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
        with self.guard:
            return replace(
                self.planned,
                states=dict(self.states),
                errors=tuple(self.errors),
                seconds=0.0 if self.began is None else time.monotonic() - self.began,
                waiting=self.waiting,
            )

    def note(self, text: str) -> None:
        """Prints a message for the person at the terminal."""
        if self.live:
            self.live.console.print(readable(text), highlight=False, markup=False, soft_wrap=True)
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
            self.states[trial.id] = TrialState(RUNNING, report["step"], score)
        if not self.live and time.monotonic() - self.spoken > QUIET_SECONDS:
            self._say("; ".join(filter(None, (line(self.board()), self.cost))))
        if self.tracking:
            self.tracking.running(trial, report)

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        self.waiting, self.began = "", self.began or time.monotonic()
        status = report["status"]
        step = report.get("step") or self.states.get(trial.id, TrialState()).step
        with self.guard:
            self.states[trial.id] = TrialState(status, step, report.get(self.metric))
        known = {name: report.get(name) for name in trial.metrics if name != "chain_acc"}
        told = [f", {name} {score:.3g}" for name, score in known.items() if score is not None]
        scores = "".join(told[:MOST_SCORES])
        if more := len(told[MOST_SCORES:]):
            scores += f", and {more} more"
        why = f": {report['error'].splitlines()[0]}" if report["error"] else ""
        ending = f"{self.label(trial)}: {status}{scores}{why}"
        if status == "failed":
            ending = _failed(self.planned, trial.id, scores + why, self.address)
            with self.guard:
                self.errors = [*self.errors, ending][-MOST_ERRORS:]
        if not self.live:
            found = amount(self.board())
            about, digits = "" if self.expected.is_exact else "~", len(str(found.trials_in_all))
            self._say(f"[{found.trials:{digits}}/{about}{found.trials_in_all}] {ending}")
        if self.tracking:
            self.tracking.ended(trial, report)

    def lost_ray(self, reason: str) -> NoReturn:
        """Ends the process at once, because Python's own way out would wait for Ray."""
        told = f"sweepd: {reason}; `{self.go_on}` continues from the last checkpoints"
        self.leave(told, EnvironmentFailure.exit_code)

    def leave(self, text: str, exit_code: int) -> NoReturn:
        """Ends the process at once, with the terminal as it was before."""
        if self.live:
            sys.stderr.write("\x1b[?25h\n")  # show the cursor, which the board has hidden
        if text:
            say(text)
        os._exit(exit_code)

    def label(self, trial: Trial) -> str:
        return self.planned.label(trial.id)

    def _say(self, text: str) -> None:
        say(text)
        self.spoken = time.monotonic()


WATCH_SECONDS = 2.0
WATCH_SHARE = 0.1
"""The share of a core that watching takes at most, once it goes on. A picture of 100,000 trials
takes most of a second."""
BATCH = 1000
"""How many rows of a plan are Python objects at once."""
ENDED = ("id", "attempt", "status", "step", "acc", "chain_acc", "loss", "seconds", "error")
"""The columns of an ending that are shown, besides metrics of users' own tasks and loops."""


def watched(address: str, sweep: str | None) -> None:
    """Shows the sweep, or all sweeps that run, until no driver runs any of them.

    Waits for the launch of a sweep that is not there yet. Ctrl-C ends the view alone.
    """
    from rich.console import Console, Group
    from rich.live import Live

    try:
        for look in count():
            store = Store.find(address)
            names = store.sweeps() if store else []
            if store and (sweep in names if sweep else names):
                break
            if not look:
                what = f"sweep {sweep}{closest(sweep, names)}" if sweep else "a sweep"
                say(f"waiting for the launch of {what} in {address}; Ctrl-C ends this")
            time.sleep(WATCH_SECONDS)
        assert store is not None
        view = cache(partial(View, store))
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            console = Console()
            with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
                for shown, running in _shown(store, sweep):
                    boards = []
                    for name in shown:
                        end = command("cancel", name, results=store.address)
                        leave = f"Ctrl-C ends only this view; `{end}` ends the sweep"
                        leave = leave if name in running else ""
                        boards.append(drawn(view(name).board(running), console.width - 1, leave))
                    live.update(Group(*boards), refresh=True)
            return
        # A line for each sweep that runs, once a minute and whenever a trial has ended or begun.
        last: dict[str, tuple[object, float]] = {}
        for shown, running in _shown(store, sweep):
            for name in shown:
                board = view(name).board(running)
                stand = {id_: state.status for id_, state in board.states.items()}
                before, at = last.get(name, (None, 0.0))
                if stand != before or time.monotonic() - at > QUIET_SECONDS:
                    put(f"{name}: {line(board)}")
                    last[name] = stand, time.monotonic()
    except KeyboardInterrupt:
        say("no longer watching")


def _shown(store: Store, sweep: str | None) -> Iterator[tuple[Sequence[str], set[str]]]:
    """Yields the sweeps to show, and those of them that a driver runs, until none runs. This is
    every WATCH_SECONDS, or less often where more than WATCH_SHARE of a core would be used. Sweeps
    that have ended meanwhile are among them, as they ended."""
    shown = {sweep} if sweep else set()
    for picture in count():
        began = time.process_time()
        running = store.driven_elsewhere([sweep] if sweep else store.sweeps())
        shown |= running
        yield sorted(shown), running
        if not running:
            return
        used = time.process_time() - began if picture else 0.0  # the first one imports much
        time.sleep(max(WATCH_SECONDS, used / WATCH_SHARE - used))


class View:
    """One sweep, shown again and again from what its store says.

    Its plan is put together when it is first seen, and again if a launch has changed it. Everything
    else is read anew for each board while the sweep runs. What cannot be read is left out.
    """

    def __init__(self, store: Store, sweep: str) -> None:
        self.store, self.sweep = store, sweep
        self.info: SweepInfo | None = None
        self.plan: pa.Table | None = None
        self.planned: Board | None = None
        self.first = 0
        """The first attempt that the board counts: that of the launch that was last seen to run.
        Where none was, all attempts count."""
        self.over: Board | None = None
        """The board after the last launch."""

    def board(self, running: Collection[str]) -> Board:
        """Returns how the sweep stands now. running: the sweeps that a driver runs."""
        runs = self.sweep in running
        if not runs and self.over:
            return self.over
        info = self.store.load_sweep(self.sweep)
        plan = self.store.read_plans([self.sweep]).table
        if self.planned is None or info != self.info or not plan.equals(self.plan):
            self.info, self.plan = info, plan
            rows = (row for batch in plan.to_batches(BATCH) for row in batch.to_pylist())
            self.planned = Board.of(self.sweep, info, rows)
        standing, _ = standings(self.store, self.sweep, plan, info.metrics)
        launches = [made for made in self.store.launches() if made.get("sweep") == self.sweep]
        latest: Mapping[str, Any] = launches[-1] if launches else {}
        if runs:
            self.first = attempt_number(latest.get("number", 0), 0)
        states: dict[str, TrialState] = {}
        failed: list[tuple[str, str]] = []
        for id_ in self.planned.spots:
            if not (row := standing.get(id_)):
                continue
            status, before = row["status"], row["attempt"] < self.first
            score, earlier = row.get(self.planned.goal.metric), before and status in DONE
            states[id_] = TrialState(status, row["step"] or 0, score, earlier)
            if status == "failed" and not before:
                failed.append((id_, f": {(row['error'] or '').partition(chr(10))[0]}"))
        active = any(state.status == RUNNING for state in states.values())
        seconds = 0.0
        if active:
            with suppress(KeyError, TypeError, ValueError):  # its record may not say when it began
                began = datetime.fromisoformat(latest["started"])
                seconds = (datetime.now(UTC) - began).total_seconds()
        here = any(not state.earlier for state in states.values())
        made = replace(
            self.planned,
            states=states,
            errors=[
                _failed(self.planned, id_, why, self.store.address)
                for id_, why in failed[-MOST_ERRORS:]
            ],
            seconds=seconds,
            waiting="starting Ray and its workers" if runs and not here else "",
        )
        self.over = None if runs else made
        return made


def _failed(board: Board, trial: str, why: str, address: str) -> str:
    """Returns the line of a failed trial, with the command that shows its log."""
    return f"{board.label(trial)}: failed{why} (`{command('logs', trial, results=address)}`)"


def standings(
    store: Store, sweep: str, planned: pa.Table, metrics: Collection[str]
) -> tuple[dict[str, Row], tuple[Damaged, ...]]:
    """Returns how each planned trial stands that has begun, by id, and what could not be read.

    A trial is `running` where its newest recorded step is of an attempt that has not ended and the
    sweep has a driver: then it has the scores of that step, and the error of its last ending.
    metrics: those of the user's own tasks and loops.
    """
    from sweepd.store.endings import counting
    from sweepd.store.schema import with_doubles

    read = store.read_trials(planned["config"].to_pylist())
    ended = counting(with_doubles(read.table, {*metrics}.intersection(read.table.column_names)))
    shown = [name for name in (*ENDED, *metrics) if name in ended.column_names]
    standing: dict[str, Row] = {row["id"]: row for row in ended.select(shown).to_pylist()}
    if store.driven_elsewhere([sweep]):
        from sweepd.query.metrics import newest_steps

        for id_, now in newest_steps(store, planned, read.table, tuple(metrics)).items():
            error = standing[id_]["error"] if id_ in standing else None
            standing[id_] = {**now, "status": RUNNING, "error": error}
    return standing, read.damaged
