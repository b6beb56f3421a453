"""Inspects a task, a model, both in a trial, or a loop: says what is right, or what is wrong where.

These are the checks of `sweepd check`. Those of tasks, models and loops run by themselves before
the first trial of a user's class.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sweepd.grid import registry
from sweepd.grid.user_files import WRONG_CALL, error_text, raised_at
from sweepd.tasks.base import Task
from sweepd.trial.cases import Case, CaseKind
from sweepd.trial.findings import Finding, Subject, Wrong
from sweepd.trial.handed import Unusable
from sweepd.trial.loop_checks import LOOP_CHECKS, Diverged, Tryout
from sweepd.trial.model_checks import MODEL_CHECKS, Network
from sweepd.trial.rehearsal import TRIAL_CHECKS, Rehearsal
from sweepd.trial.task_checks import TASK_CHECKS

ENTRY: dict[CaseKind, re.Pattern[str]] = {
    "task": re.compile(r"\bdef (draw|fill)\b"),
    "model": re.compile(r"\bdef build\b"),
    "loop": re.compile(r"\bdef start\b"),
    "trial": re.compile(r"\bdef forward\b"),
}
"""For each kind, a pattern of the line of a class at which it begins to make what it gives."""
CHECKS: dict[CaseKind, Mapping[str, Callable[[Any], str]]] = {
    "task": TASK_CHECKS,
    "model": MODEL_CHECKS,
    "loop": LOOP_CHECKS,
    "trial": TRIAL_CHECKS,
}
Begin = Callable[[str], None]
"""A function that is called with the name of each check before it begins, since the check may hang
or end the process."""


def inspect(case: Case, base: Path, begin: Begin = lambda check: None) -> Iterator[Finding]:
    """Yields what each check of a case finds. The first that finds something wrong is the last."""
    begin("made")
    subject, looked_at = _subject(case, base)
    with _own_generators(), torch.set_grad_enabled(case.kind in ("trial", "loop")):
        yield from _found(subject, case, looked_at, begin)


def _subject(case: Case, base: Path) -> tuple[Subject, Callable[[], Any]]:
    """Returns the class of a case, and a function that makes the object that its checks look at."""
    if case.kind == "loop":
        loop_class = registry.find_loop(case.where, base)
        return Subject(case.name, loop_class), lambda: Tryout(loop_class(**case.loop))
    task_class = registry.find_task(case.task_where, base)
    model_class = registry.find_model(case.model_where, base)

    def looked_at() -> Task | Network | Rehearsal:
        task = task_class(**case.task)
        if case.kind == "task":
            return task
        architecture = model_class(**case.model)
        if case.kind == "model":
            return Network(architecture, task)
        return Rehearsal(task, architecture, case.batch_size)

    return Subject(case.name, task_class if case.kind == "task" else model_class), looked_at


def _found(
    subject: Subject,
    case: Case,
    make: Callable[[], Any],
    begin: Begin,
) -> Iterator[Finding]:
    """Yields the finding of each check, up to the first that finds something wrong."""
    looked_at: Any = None
    for name, check in CHECKS[case.kind].items():
        begin(name)
        about = name, subject.name, str(case)
        try:
            looked_at = looked_at or make()
            yield Finding(*about, True, check(looked_at))
        except Wrong as wrong:
            place = subject.place(wrong.sign, wrong.culprit)
            yield Finding(*about, False, str(wrong), place)
            return
        except Unusable as error:
            place = error.place or subject.place(ENTRY[case.kind])
            yield Finding(*about, False, error.told, place, raised=isinstance(error, Diverged))
            return
        except Exception as error:  # a user's code may raise anything
            called = re.search(rf"\b(\w+){WRONG_CALL}", str(error))
            sign = re.compile(rf"\bdef {called[1]}\b") if called else ENTRY[case.kind]
            frame = raised_at(error)
            place = f"{frame.filename}:{frame.lineno}" if frame else subject.place(sign)
            yield Finding(*about, False, error_text(error), place, raised=True)
            return


@contextmanager
def _own_generators() -> Iterator[None]:
    """Restores the global generators after the block to their states before it."""
    before = np.random.get_state(), random.getstate(), torch.get_rng_state()
    try:
        yield
    finally:
        np.random.set_state(before[0])
        random.setstate(before[1])
        torch.set_rng_state(before[2])
