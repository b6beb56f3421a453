"""`status --watch`: the board of a launch, read from the store. Any machine that sees the store can
show it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sweepd.cli.board import RUNNING, Board, Spot, TrialState, labels
from sweepd.cli.drawing import drawn, line
from sweepd.cli.output import say
from sweepd.cli.status import standings
from sweepd.closest import closest
from sweepd.grid.options import PASS_RULES, Goal
from sweepd.statuses import DONE

if TYPE_CHECKING:
    from sweepd.store.store import Store

WATCH_SECONDS = 2.0
QUIET_SECONDS = 60.0
LEAVE = "Ctrl-C ends only this view; `sweepd cancel {}` ends the sweep"


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
    from rich.text import Text

    console = Console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            names = _running(store, sweep)
            boards = [board_of(store, name) for name in ([sweep] if sweep else names)]
            width = console.width - 1
            told = [
                drawn(board, width, LEAVE.format(board.sweep) if names else "") for board in boards
            ]
            live.update(Group(*told) if told else Text(), refresh=True)
            if not names:
                return
            time.sleep(WATCH_SECONDS)


def _printed(store: Store, sweep: str | None) -> None:
    """Prints a line for each sweep that runs, once a minute and whenever a trial has ended or
    begun."""
    said: dict[str, tuple[object, float]] = {}
    while True:
        names = _running(store, sweep)
        for name in [sweep] if sweep else names:
            board = board_of(store, name)
            stand = tuple(sorted((id_, state.status) for id_, state in board.states.items()))
            before, at = said.get(name, (None, 0.0))
            if stand != before or time.monotonic() - at > QUIET_SECONDS:
                print(f"{name}: {line(board)}", flush=True)
                said[name] = stand, time.monotonic()
        if not names:
            return
        time.sleep(WATCH_SECONDS)


def _running(store: Store, sweep: str | None) -> list[str]:
    """Returns the sweeps to watch that a driver runs."""
    return sorted(store.driven_elsewhere([sweep] if sweep else store.sweeps()))


def board_of(store: Store, sweep: str) -> Board:
    """Returns how a sweep stands by what its store says. What cannot be read is left out."""
    info = store.load_sweep(sweep)
    planned = store.read_plans([sweep]).table
    endings, active, _ = standings(store, sweep, planned, info.metrics)
    launches = [made for made in store.launches() if made.get("sweep") == sweep]
    latest: Mapping[str, Any] = launches[-1] if launches else {}
    goal = Goal.parse(info.goal)
    spots = [Spot.of(row, {*info.extra_seeds, *info.fresh_seeds}) for row in planned.to_pylist()]
    first = 1000 * latest.get("number", 0)
    states, errors, named = {}, [], labels(spots)
    for spot in spots:
        ended, now = endings.get(spot.id), active.get(spot.id)
        if now:
            states[spot.id] = TrialState(RUNNING, now["step"], now.get(goal.metric))
        elif ended:
            earlier = ended["status"] in DONE and ended["attempt"] < first
            states[spot.id] = TrialState(
                ended["status"], ended["step"] or 0, ended.get(goal.metric), earlier, ended["error"]
            )
            if ended["status"] == "failed" and ended["attempt"] >= first:
                why = (ended["error"] or "").partition("\n")[0]
                errors.append(f"{named[spot.id]}: failed: {why} (`sweepd logs {spot.id}`)")
    here = bool(active) or any(not state.earlier for state in states.values())
    return Board(
        sweep=sweep,
        goal=goal,
        rule=next(rule for rule in PASS_RULES if rule == info.pass_rule),
        spots=spots,
        states=states,
        staircase=info.search == "staircase",
        seconds=_since(latest) if active else 0.0,
        waiting="" if here or not _running(store, sweep) else "starting Ray and its workers",
        errors=errors,
        labels=named,
        minimized=info.minimized,
    )


def _since(launch: Mapping[str, Any]) -> float:
    """Returns the seconds since a launch began, or 0 where its record does not say when that
    was."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(launch["started"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return 0.0
