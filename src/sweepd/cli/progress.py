"""What a person sees while a sweep runs: a line for each trial that ends and, on a terminal, one
that shows what is running."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from sweepd.cli.output import say
from sweepd.errors import EnvironmentFailure
from sweepd.statuses import DONE

if TYPE_CHECKING:
    from sweepd.grid.plan import Trial

QUIET_SECONDS = 15.0
"""Where there is no terminal: after how long without an ending a line says what is running."""


def duration(seconds: float) -> str:
    """A time span for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    for unit, length in (("min", 60), ("h", 3600), ("days", 86400)):
        if seconds < 90 * length:
            return f"{seconds / length:.{length > 60:d}f} {unit}"
    return f"{seconds / (365 * 86400):.1f} years"


class Progress:
    """Shows on stderr what the engine reports (`sweepd.run.tune_hooks.Listener`).

    todo: how many trials are to run, exactly or as an estimate.
    """

    def __init__(self, trials: Iterable[Trial], todo: int, todo_is_exact: bool) -> None:
        self.varying = varying(trials)
        self.todo, self.about = todo, "" if todo_is_exact else "~"
        self.done = 0
        self.started = self.spoken = time.monotonic()
        self.now: dict[str, tuple[Trial, dict[str, Any]]] = {}
        self.moving = sys.stderr.isatty()

    def running(self, trial: Trial, report: dict[str, Any]) -> None:
        self.now[trial.id] = (trial, report)
        if self.moving:
            line = self._running_line()
            sys.stderr.write(f"\r\x1b[K{line[: _width() - 1]}")
            sys.stderr.flush()
        elif time.monotonic() - self.spoken > QUIET_SECONDS:
            self._say(self._running_line())

    def ended(self, trial: Trial, report: dict[str, Any]) -> None:
        self.now.pop(trial.id, None)
        self.done += report["status"] in DONE
        scores = "".join(
            f", {name} {report[name]:.3g}"
            for name in trial.metrics
            if name != "chain_acc" and report.get(name) is not None
        )
        why = f": {report['error'].splitlines()[0]}" if report["error"] else ""
        if report["status"] == "failed":
            why += f" (`sweepd logs {trial.id}`)"
        counter = f"[{self.done:{len(str(self.todo))}}/{self.about}{self.todo}]"
        self._say(f"{counter} {self.label(trial)}: {report['status']}{scores}{why}")

    def lost_ray(self, reason: str) -> NoReturn:
        """End the process at once: Python's own way out would wait for Ray."""
        self._say(f"sweepd: {reason}; `sweepd resume` continues from the last checkpoints")
        os._exit(EnvironmentFailure.exit_code)

    def label(self, trial: Trial) -> str:
        """Returns a trial's name: its task, its model, and the fields that differ in this sweep."""
        names = self.varying.get((trial.task_name, trial.model_name), ())
        fields = [f"{name}={trial.axes[name]}" for name in names]
        return " ".join([trial.task_name, trial.model_name, *fields, f"seed={trial.seed}"])

    def _running_line(self) -> str:
        parts = [self._stands(trial, report) for trial, report in self.now.values()]
        passed = time.monotonic() - self.started
        line = f"{self.done}/{self.about}{self.todo} done after {duration(passed)}"
        if 0 < self.done < self.todo:
            line += f", about {duration(passed / self.done * (self.todo - self.done))} left"
        return f"{line}; running: {'; '.join(parts)}"

    def _stands(self, trial: Trial, report: Mapping[str, Any]) -> str:
        """Where a trial is: its step, of how many if that is known, and its first score."""
        of_all = f"/{trial.train.steps}" if trial.train.steps else ""
        told = [f"{self.label(trial)} step {report['step']}{of_all}"]
        known = (name for name in trial.metrics if report.get(name) is not None)
        told += [f"{name} {report[name]:.2f}" for name in itertools.islice(known, 1)]
        return " ".join(told)

    def _say(self, line: str) -> None:
        if self.moving:
            sys.stderr.write("\r\x1b[K")
        say(line)
        self.spoken = time.monotonic()


def varying(trials: Iterable[Trial]) -> dict[tuple[str, str], list[str]]:
    """By (task, model), the fields that differ between its trials."""
    seen: dict[tuple[str, str], dict[str, set[object]]] = {}
    for trial in trials:
        fields = seen.setdefault((trial.task_name, trial.model_name), {})
        for name, value in trial.axes.items():
            fields.setdefault(name, set()).add(value)
    return {
        pair: [name for name, values in fields.items() if len(values) > 1]
        for pair, fields in seen.items()
    }


def _width() -> int:
    return shutil.get_terminal_size().columns
