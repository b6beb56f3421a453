"""Inspects a task, a model, both in a trial, or a loop: says what is right, or what is wrong where.

These are the checks of `sweepd check`. Those of tasks, models and loops run by themselves before
the first trial of a user's class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from sweepd.check.cases import Case, CaseKind, Finding, Wrong
from sweepd.check.models import MODEL_CHECKS, Network
from sweepd.check.tasks import TASK_CHECKS, commonest
from sweepd.check.training import (
    LOOP_CHECKS,
    TRIAL_CHECKS,
    Diverged,
    Elsewhere,
    Rehearsal,
    Tryout,
)
from sweepd.errors import SweepdError
from sweepd.grid import registry
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
from sweepd.trial.user_values import Unusable

CHECKS: dict[CaseKind, Mapping[str, Callable[[Any], str]]] = {
    "task": TASK_CHECKS,
    "model": MODEL_CHECKS,
    "loop": LOOP_CHECKS,
    "trial": TRIAL_CHECKS,
    "second trial": {"fresh": Rehearsal.check_second},
}
CULPRITS: dict[CaseKind, tuple[str, ...]] = {
    "task": ("draw", "fill", "sample", "batch"),
    "model": ("forward", "build"),
    "loop": ("start",),
    "trial": ("forward", "build"),
    "second trial": ("forward", "build"),
}
"""The methods that stand for a class where a check names no other. They also do where an error
passed through none of the user's lines, as where sweepd refuses what a method returned."""
Begin = Callable[[str], None]
"""A function that is called with the name of each check before it begins, since the check may hang
or end the process."""


def inspect(
    case: Case,
    base: Path,
    begin: Begin = lambda check: None,
    elsewhere: Elsewhere | None = None,
) -> Iterator[Finding]:
    """Yields what each check of a case says. The first that sees something wrong is the last."""
    begin("made")
    make = maker(case, base, elsewhere)
    subject: type
    if case.kind == "loop":
        subject = registry.find_loop(case.where, base)
    elif case.kind == "task":
        subject = registry.find_task(case.where, base)
    else:
        subject = registry.find_model(case.where, base)
    with preserved(), torch.set_grad_enabled(case.kind not in ("task", "model")):
        looked_at: Any = None
        for name, check in CHECKS[case.kind].items():
            begin(name)
            about = name, case.name, str(case)
            try:
                looked_at = looked_at or make()
                yield Finding(*about, True, check(looked_at))
                continue
            except Wrong as wrong:
                place = _place(subject, looked_at, *(wrong.culprits or CULPRITS[case.kind]))
                yield Finding(*about, False, str(wrong), place)
            except Unusable as error:
                place = error.place or _place(subject, looked_at, *CULPRITS[case.kind])
                diverged = isinstance(error, Diverged)
                yield Finding(*about, False, error.message, place, raised=diverged)
            except BaseException as error:  # a user may raise anything
                if frame := raised_at(error):
                    place, statement = f"{frame.filename}:{frame.lineno}", frame.line or ""
                else:
                    # Python names a function that was called with the wrong arguments.
                    called = re.search(rf"\b(\w+){WRONG_CALL}", str(error))
                    methods = (called[1],) if called else CULPRITS[case.kind]
                    place, statement = _place(subject, looked_at, *methods), ""
                yield Finding(*about, False, error_text(error), place, True, statement)
            return


def maker(case: Case, base: Path, elsewhere: Elsewhere | None = None) -> Callable[[], Any]:
    """Returns a function that makes what the checks of a case look at. The user's code may raise in
    it. Raises UserError for a class that cannot be used."""
    if case.kind == "loop":
        loop = registry.find_loop(case.where, base)
        return lambda: Tryout(loop(**case.model), elsewhere)
    task_class = registry.find_task(case.task_where, base)
    model_class = registry.find_model(case.model_where, base)

    def make() -> Any:
        task = task_class(**case.task)
        if case.kind == "task":
            return task
        architecture = model_class(**case.model)
        if case.kind == "model":
            return Network(architecture, task)
        return Rehearsal(task, architecture, case.batch_size, case.lengths, elsewhere)

    return make


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
    """Yields a finding for each task of a grid, whose tasks must be right. It says whether the goal
    asks for more than always giving the same answer. Yields nothing for a goal that is not a least
    acc."""
    goal = grid.goal
    if goal.metric != "acc" or "<" in goal.comparison:
        return
    for block in grid.blocks["task"]:
        task = block.points[0].value
        answer, share = commonest(task)
        about = "goal", block.name, f"size {task.size}"
        always = f"always answering {answer} is right in {share:.0%}"
        if goal.met(share):
            place = grid.document.place(("goal",))
            remedy = f"ask for more than {share:.2f}"
            yield Finding(*about, False, f"{goal} says nothing: {always}; {remedy}", place)
        else:
            yield Finding(*about, True, f"{goal}; {always}")
