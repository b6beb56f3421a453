"""`status --watch`: the board of a launch, read from the store. Any machine that sees the store can
show it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any

from sweepd.cli.board import RUNNING, Board, Spot, TrialState, labels
from sweepd.cli.drawing import MOST_ERRORS, drawn, line
from sweepd.cli.output import command, say
from sweepd.cli.status import standings
from sweepd.closest import closest
from sweepd.grid.options import PASS_RULES, Goal
from sweepd.statuses import DONE
from sweepd.store.names import attempt_number

if TYPE_CHECKING:
    import pyarrow as pa

from sweepd.store.store import Store

WATCH_SECONDS = 2.0
WATCH_SHARE = 0.1
"""The share of a core that watching takes at most, once it goes on. A picture of 100,000 trials
takes most of a second."""
QUIET_SECONDS = 60.0
BATCH = 1000
"""How many rows of a plan are Python objects at once."""
LEAVE = "Ctrl-C ends only this view; `{}` ends the sweep"


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
    from sweepd.store.store import Store

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
        self.plan: pa.Table | None = None
        self.spots: Sequence[Spot] = ()
        self.labels: Mapping[str, str] = {}
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
        if self.plan is None or not plan.equals(self.plan):
            extra = {*info.extra_seeds, *info.fresh_seeds}
            self.spots = [
                Spot.of(row, extra) for batch in plan.to_batches(BATCH) for row in batch.to_pylist()
            ]
            self.plan, self.labels = plan, labels(self.spots)
        endings, active, _ = standings(self.store, self.sweep, plan, info.metrics)
        launches = [made for made in self.store.launches() if made.get("sweep") == self.sweep]
        latest: Mapping[str, Any] = launches[-1] if launches else {}
        goal = Goal.parse(info.goal)
        if runs:
            self.first = attempt_number(latest.get("number", 0), 0)
        states, failed = {}, []
        for id_, label in self.labels.items():
            ended, now = endings.get(id_), active.get(id_)
            if now:
                states[id_] = TrialState(RUNNING, now["step"], now.get(goal.metric))
            elif ended:
                earlier = ended["status"] in DONE and ended["attempt"] < self.first
                score, step = ended.get(goal.metric), ended["step"] or 0
                states[id_] = TrialState(ended["status"], step, score, earlier, ended["error"])
                if ended["status"] == "failed" and ended["attempt"] >= self.first:
                    failed.append((id_, label, (ended["error"] or "").partition("\n")[0]))
        here = bool(active) or any(not state.earlier for state in states.values())
        starting = runs and not here
        return Board(
            sweep=self.sweep,
            goal=goal,
            rule=next(rule for rule in PASS_RULES if rule == info.pass_rule),
            spots=self.spots,
            states=states,
            staircase=info.search == "staircase",
            seconds=_since(latest) if active else 0.0,
            waiting="starting Ray and its workers" if starting else "",
            errors=[
                f"{label}: failed: {why} (`{command('logs', id_, results=self.store.address)}`)"
                for id_, label, why in failed[-MOST_ERRORS:]
            ],
            labels=self.labels,
            minimized=info.minimized,
        )


def _since(launch: Mapping[str, Any]) -> float:
    """Returns the seconds since a launch began, or 0 where its record does not say when that
    was."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(launch["started"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return 0.0
