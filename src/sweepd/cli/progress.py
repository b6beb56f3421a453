"""What a person sees while a sweep runs: on a terminal a board that fills in, elsewhere a line for
each trial that ends and one a minute."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from sweepd.cli.board import RUNNING, Board, Spot, TrialState, amount, labels
from sweepd.cli.drawing import drawn, line
from sweepd.cli.output import command, say
from sweepd.errors import EnvironmentFailure
from sweepd.listing import duration
from sweepd.search.seeds import Outcome

if TYPE_CHECKING:
    from sweepd.grid.trials import Trial
    from sweepd.run.launching import Forecast
    from sweepd.search.base import Search

QUIET_SECONDS = 60.0
"""For how many seconds nothing is said, where there is no terminal, before a line says what is
running."""
REFRESHES = 4
"""How many times a second the board is drawn."""
INTERRUPT = "Ctrl-C saves what runs and ends; the same launch again continues it"
KEPT_ERRORS = 20


class Progress:
    """Shows on stderr what the engine reports (`sweepd.run.tune_hooks.Listener`).

    As a context manager it holds the terminal. Any other message meanwhile goes through `note`. The
    engine calls from one thread, and the board is drawn in another. address: where results lie.
    go_on: the command that continues the sweep.
    """

    def __init__(self, search: Search, expected: Forecast, address: str, go_on: str) -> None:
        plan, self.address, self.go_on = search.plan, address, go_on
        self.grid, self.expected, self.minimized = plan.grid, expected, plan.minimized
        metric = plan.grid.goal.metric
        self.metric = metric
        later = set(plan.grid.seeds[plan.grid.first_seeds :]) | set(plan.grid.fresh_seeds)
        self.spots = [Spot.of(row, later) for row in plan.rows()]
        self.labels = labels(self.spots)
        self.states = {id_: _earlier(outcome) for id_, outcome in search.outcomes.items()}
        self.errors: list[str] = []
        self.waiting, self.interrupt = "", INTERRUPT
        self.began: float | None = None
        self.entered = self.spoken = time.monotonic()
        self.guard = threading.Lock()
        self.live: Any = None

    def __enter__(self) -> Progress:
        if not (sys.stderr.isatty() and os.environ.get("TERM") != "dumb"):
            return self
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self.live = Live(
            console=console,
            get_renderable=lambda: drawn(self.board(), console.width - 1, self.interrupt),
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
            states, errors = dict(self.states), tuple(self.errors)
        bill = self.expected.expected
        likely = bill.trials, bill.train_flops or 0.0
        return Board(
            sweep=self.grid.name,
            goal=self.grid.goal,
            rule=self.grid.pass_rule,
            spots=self.spots,
            states=states,
            staircase=self.grid.search_name == "staircase",
            expected=None if self.expected.is_exact else likely,
            forecast=(bill.seconds_low, bill.seconds_high),
            seconds=0.0 if self.began is None else time.monotonic() - self.began,
            waiting=self.waiting,
            errors=errors,
            labels=self.labels,
            minimized=self.minimized,
        )

    def note(self, text: str) -> None:
        """Prints a message for the person at the terminal."""
        if self.live:
            self.live.console.print(text, highlight=False, markup=False, soft_wrap=True)
        else:
            say(text)

    def preparing(self, what: str) -> None:
        """Shows what is being prepared. Nothing runs yet, as this comes first."""
        self.waiting = what
        if not self.live:
            self._say(f"{what} (after {duration(time.monotonic() - self.entered)})")

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        self.waiting, self.began = "", self.began or time.monotonic()
        with self.guard:
            score = report.get(self.metric)
            self.states[trial.id] = TrialState(RUNNING, report["step"], score)
        if not self.live and time.monotonic() - self.spoken > QUIET_SECONDS:
            self._say(line(self.board()))

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        self.waiting, self.began = "", self.began or time.monotonic()
        status = report["status"]
        step = report.get("step") or self.states.get(trial.id, TrialState()).step
        with self.guard:
            self.states[trial.id] = TrialState(
                status, step, report.get(self.metric), error=report["error"]
            )
        scores = "".join(
            f", {name} {report[name]:.3g}"
            for name in trial.metrics
            if name != "chain_acc" and report.get(name) is not None
        )
        why = f": {report['error'].splitlines()[0]}" if report["error"] else ""
        if status == "failed":
            why += f" (`{command('logs', trial.id, results=self.address)}`)"
        told = f"{self.label(trial)}: {status}{scores}{why}"
        if status == "failed":
            with self.guard:
                self.errors = [*self.errors, told][-KEPT_ERRORS:]
        if not self.live:
            self._say(f"{self._counter()} {told}")

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
        return self.labels[trial.id]

    def _counter(self) -> str:
        found = amount(self.board())
        about = "" if self.expected.is_exact else "~"
        return f"[{found.trials:{len(str(found.trials_in_all))}}/{about}{found.trials_in_all}]"

    def _say(self, text: str) -> None:
        say(text)
        self.spoken = time.monotonic()


def _earlier(outcome: Outcome) -> TrialState:
    return TrialState(outcome.status, 0, outcome.score, earlier=True)
