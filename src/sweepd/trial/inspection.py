"""Looks at a task, at a model, or at both in a trial: what is right, and what is wrong and where.

These are the checks of `sweepd check`. Those of tasks and models run by themselves before the
first trial of a user's class.
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

from sweepd.errors import UserError
from sweepd.grid import registry
from sweepd.grid.blame import place_of, told
from sweepd.models.base import Model
from sweepd.tasks.base import Task
from sweepd.trial.cases import Case
from sweepd.trial.findings import Finding, Subject, Wrong
from sweepd.trial.loop_inspection import loop_faults
from sweepd.trial.model_checks import MODEL_CHECKS, Network
from sweepd.trial.rehearsal import TRIAL_CHECKS, Rehearsal
from sweepd.trial.task_checks import TASK_CHECKS

ENTRY = {
    "task": re.compile(r"\bdef (draw|fill)\b"),
    "model": re.compile(r"\bdef build\b"),
    "loop": re.compile(r"\bdef start\b"),
    "trial": re.compile(r"\bdef forward\b"),
}
"""How the line of a class looks where what it gives is made."""
Begin = Callable[[str], None]
"""Is told the name of each check before it begins: it may hang, or take the process along."""


def inspect(case: Case, base: Path, begin: Begin = lambda check: None) -> Iterator[Finding]:
    """Yields what each check of a case finds. The first that finds something wrong is the last."""
    if case.kind == "loop":
        begin("rows")
        yield from _of_loop(case, registry.find_loop(case.where, base))
        return
    begin("made")
    task_class = registry.find_task(case.task_where, base)
    model_class = registry.find_model(case.model_where, base)
    task_subject = Subject(case.task_name, task_class)
    model_subject = Subject(case.model_name, model_class)
    with _own_generators():
        if case.kind == "task":

            def task() -> Task:
                return task_class(**case.task)

            yield from _found(task_subject, case, task, TASK_CHECKS, begin)
            return

        def both() -> tuple[Task, Model]:
            return task_class(**case.task), model_class(**case.model)

        if case.kind == "model":
            with torch.no_grad():
                network = lambda: Network(*both()[::-1])  # noqa: E731
                yield from _found(model_subject, case, network, MODEL_CHECKS, begin)
        else:
            rehearsal = lambda: Rehearsal(*both(), case.batch_size)  # noqa: E731
            yield from _found(model_subject, case, rehearsal, TRIAL_CHECKS, begin)


def _of_loop(case: Case, found: type) -> Iterator[Finding]:
    """Yields what is found of the rows of a loop."""
    about = "rows", case.name, str(case)
    try:
        with _own_generators():
            faults = list(loop_faults(found(**case.loop)))
    except UserError as error:
        faults = [str(error)]
    except Exception as error:  # a user's code may raise anything
        place = place_of(error) or Subject(case.name, found).place(ENTRY["loop"])
        yield Finding(*about, False, told(error), place, raised=True)
        return
    for fault in faults:
        place, _, detail = fault.partition(": ")
        yield Finding(*about, False, detail, place)
    if not faults:
        told_right = "the same seed gives the same rows, also after save and load"
        yield Finding(*about, True, told_right)


def _found(
    subject: Subject,
    case: Case,
    make: Callable[[], Any],
    checks: Mapping[str, Callable[[Any], str]],
    begin: Begin,
) -> Iterator[Finding]:
    """Yields the finding of each check, up to the first that finds something wrong."""
    looked_at: Any = None
    for name, check in checks.items():
        begin(name)
        about = name, subject.name, str(case)
        try:
            looked_at = looked_at or make()
            yield Finding(*about, True, check(looked_at))
        except Wrong as wrong:
            place = subject.place(wrong.sign, wrong.culprit)
            yield Finding(*about, False, str(wrong), place)
            return
        except Exception as error:  # a user's code may raise anything
            place = place_of(error) or subject.place(ENTRY[case.kind])
            yield Finding(*about, False, told(error), place, raised=True)
            return


@contextmanager
def _own_generators() -> Iterator[None]:
    """The global generators are afterwards as they were."""
    before = np.random.get_state(), random.getstate(), torch.get_rng_state()
    try:
        yield
    finally:
        np.random.set_state(before[0])
        random.setstate(before[1])
        torch.set_rng_state(before[2])
