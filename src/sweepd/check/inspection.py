"""Inspects a task, a model, both in a trial, or a loop: says what is right, or what is wrong where.
A program is tried: one trial at the smallest size begins, is ended after a row, and goes on.

These are the checks of `sweepd check`. Those of tasks, models and loops run by themselves before
the first trial of a user's class.
"""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from sweepd.check import tasks
from sweepd.check.cases import Case, CaseKind, Finding, Wrong, checks_of
from sweepd.check.models import Network
from sweepd.check.training import Diverged, Rehearsal, Tried, Tryout
from sweepd.errors import SweepdError, UserError
from sweepd.grid import registry
from sweepd.grid.fingerprint import is_program
from sweepd.grid.placement import Resources
from sweepd.grid.plan import plan
from sweepd.grid.program import Program
from sweepd.grid.spec import Grid
from sweepd.grid.user_files import (
    WRONG_CALL,
    error_text,
    is_own_file,
    place_of_definition,
    raised_at,
)
from sweepd.run.launching import Site, per_trial
from sweepd.trial.generators import preserved
from sweepd.trial.program import MOST_NAMES, ProgramRun
from sweepd.trial.runs import StepRow
from sweepd.trial.user_values import Unusable

CHECKS: dict[CaseKind, Mapping[str, Callable[[Any], str]]] = {
    "task": checks_of(tasks),
    "model": checks_of(Network),
    "loop": checks_of(Tryout),
    "trial": checks_of(Rehearsal),
    "second trial": {"fresh": Rehearsal.second},
}
CULPRITS = {"task": ("draw", "fill", "sample", "batch"), "loop": ("start",)}
"""The methods that stand for a class where a check names no other, and where an error passed
through none of the user's lines. Of a model they are `forward` and `build`."""
MOST_SECONDS = 120.0
"""The most seconds until a row of a program."""
MARK_SECONDS = 2.0
"""The most seconds after the first row until the program has saved itself."""


def inspect(
    case: Case,
    base: Path,
    begin: Callable[[str], None] = lambda check: None,
    fresh: Connection | None = None,
) -> Iterator[Finding]:
    """Yields what each check of a case says. The first that sees something wrong is the last.
    begin: is told the name of each check before it begins, since it may hang or end the process.
    fresh: see `Tried.fresh`."""
    begin("made")
    subject, make = maker(case, base)
    with preserved(), torch.set_grad_enabled(case.kind not in ("task", "model")):
        looked_at: Any = None
        for name, check in CHECKS[case.kind].items():
            begin(name)
            about = name, case.name, str(case)
            try:
                looked_at = looked_at or make()
                if isinstance(looked_at, Tried):
                    looked_at.fresh = fresh
                seen = check(looked_at)
            except BaseException as error:  # a user may raise anything
                told, place, statement, raised = error_text(error), "", "", True
                culprits: tuple[object, ...] = CULPRITS.get(case.kind, ("forward", "build"))
                if isinstance(error, Wrong):
                    told, raised, culprits = str(error), False, error.culprits or culprits
                elif isinstance(error, Unusable):
                    told, raised, place = error.message, isinstance(error, Diverged), error.place
                elif frame := raised_at(error):
                    place, statement = f"{frame.filename}:{frame.lineno}", frame.line or ""
                # Python names a function that was called with the wrong arguments.
                elif called := re.search(rf"\b(\w+){WRONG_CALL}", str(error)):
                    culprits = (called[1],)
                place = place or _place(subject, looked_at, *culprits)
                yield Finding(*about, False, told, place, raised, statement)
                return
            yield Finding(*about, True, seen)


def maker(case: Case, base: Path) -> tuple[type, Callable[[], Any]]:
    """Returns the class that is inspected, and a function that makes what the checks look at. The
    user's code may raise in it. Raises UserError for a class that cannot be used."""
    if case.kind == "loop":
        loop = registry.find("loop", case.where, base)
        return loop, lambda: Tryout(loop(**case.model))
    task_class = registry.find("task", case.task_where, base)
    model_class = registry.find("model", case.model_where, base)
    if case.kind == "task":
        return task_class, lambda: task_class(**case.task)

    def make() -> Any:
        task, architecture = task_class(**case.task), model_class(**case.model)
        if case.kind == "model":
            return Network(architecture, task)
        return Rehearsal(task, architecture, case.batch_size, case.lengths)

    return model_class, make


def _place(subject: type, looked_at: object, *culprits: object) -> str:
    """Returns the file and line where the first of the culprits begins that is the user's own, or
    else those of the class itself. See `Wrong.culprits`."""
    owners = [subject, type(getattr(looked_at, "made", None))]
    defined: list[object] = []
    for culprit in culprits:
        by_name = isinstance(culprit, str)
        defined += [getattr(o, culprit, None) for o in owners] if by_name else [culprit]  # type: ignore[call-overload]
    places = [place for one in (*defined, subject) if (place := place_of_definition(one))]
    own = [place for place in places if is_own_file(place.rpartition(":")[0])]
    return next(iter(own or places[-1:]), "")


def room(grid: Grid, site: Site) -> Finding:
    """Returns a finding that says whether there is room for the trials of a grid."""
    resources = per_trial(grid, site)
    about = "resources", grid.name, str(resources)
    try:
        return Finding(*about, True, f"{site.slots(resources)} trials at once")
    except SweepdError as error:
        return Finding(*about, False, str(error), grid.document.place(("resources",)))


def goals(grid: Grid) -> Iterator[Finding]:
    """Yields a finding for each task of a grid, whose tasks must be right: whether the goal, if it
    is a least acc, asks for more than always giving the same answer."""
    goal = grid.goal
    if goal.metric != "acc" or "<" in goal.comparison:
        return
    for block in grid.blocks["task"]:
        task = block.points[0].value
        answer, share = tasks.commonest(task)
        about = "goal", block.name, f"size {task.size}"
        always = f"always answering {answer} is right in {share:.0%}"
        if goal.met(share):
            place = grid.document.place(("goal",))
            remedy = f"ask for more than {share:.2f}"
            yield Finding(*about, False, f"{goal} says nothing: {always}; {remedy}", place)
        else:
            yield Finding(*about, True, f"{goal}; {always}")


def tried(grid: Grid) -> Iterator[Finding]:
    """Yields what was seen of each program of a grid. One that fails is tried no further."""
    resources = grid.resources if isinstance(grid.resources, Resources) else Resources()
    programs = [block for block in grid.blocks["loop"] if is_program(block.where)]
    planned = plan(grid).planned if programs else ()
    for block in programs:
        ours = (trial for trial in planned if trial.model_name == block.name)
        trial = min(ours, key=lambda trial: (trial.size, trial.effort))
        values = {"size": trial.size, **trial.values.loop}
        about = block.name, ", ".join(f"{name} {value}" for name, value in values.items())
        try:
            with redirect_stdout(io.StringIO()), ExitStack() as open_runs:
                first = ProgramRun(trial, grid.base, resources, MOST_SECONDS, str(os.getpid()))
                open_runs.callback(first.close)
                row = _row(first)
                until = time.monotonic() + MARK_SECONDS
                while not (first.has_marked or first.result) and time.monotonic() < until:
                    time.sleep(0.01)
                first.stop()
                ended = first.result is not None or (first.guard and first.guard.poll() == 0)
                state = None if ended else first.snapshot()
                kept, deleted = first.written()
            scores = ", ".join(f"{name} {value:.4g}" for name, value in row.scores.items())
            yield Finding("rows", *about, True, f"step {row.step}: {scores}")
            yield Finding("files", *about, True, _fate(trial.program, [*kept], [*deleted]))
            told = "it ended before it could be interrupted"
            if not ended and state is None:
                told = f"SIGTERM at step {first.step}: nothing is kept in {{dir}}, it starts anew"
            elif state is not None:
                with redirect_stdout(io.StringIO()), ExitStack() as open_runs:
                    again = ProgramRun(trial, grid.base, resources, MOST_SECONDS, str(os.getpid()))
                    open_runs.callback(again.close)
                    again.restore(again.read(state))
                    step = _row(again).step
                told = f"SIGTERM at step {first.step}, with {len(state):,} bytes in {{dir}}: "
                told += f"its next row is step {step}"
                if first.step >= step:
                    told += "; it did not go on from what it had saved"
            yield Finding("goes on", *about, True, told)
        except UserError as error:
            yield Finding("rows", *about, False, str(error))


def _fate(program: Program | None, kept: Sequence[str], deleted: Sequence[str]) -> str:
    """Returns what becomes of what a program has written besides `{dir}` until it was ended."""
    if program and program.in_place:
        return "it runs in the grid's folder itself, which all its trials share (in_place)"
    parts = [
        f"{', '.join(names[:MOST_NAMES])}{' and more' * (len(names) > MOST_NAMES)} {fate}"
        for names, fate in ((kept, "is kept when it completes"), (deleted, "is deleted"))
        if names
    ]
    return "; ".join(parts) or "it wrote nothing by relative paths until it was ended"


def _row(run: ProgramRun) -> StepRow:
    """Returns the next row of a program. Raises UserError where none comes."""
    until = time.monotonic() + MOST_SECONDS
    for row in run.advance():
        if row is not None:
            return row
        if time.monotonic() > until:
            break
    raise UserError(
        f"no row within {MOST_SECONDS:g} s" if run.result is None else "it ended without a new row"
    )
