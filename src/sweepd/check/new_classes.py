"""Inspects a class of the user's before its first trial.

The store remembers which classes are known to be right, for each version of their code and each
largest size. So does the user's cache, for stores that are new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from sweepd import cache
from sweepd.check.cases import Case, cases_of
from sweepd.check.own_process import inspected
from sweepd.errors import UserError
from sweepd.grid.axes import canonical
from sweepd.grid.fingerprint import fingerprint, source, trial_files
from sweepd.grid.registry import is_own
from sweepd.grid.spec import Grid
from sweepd.store.store import Store

VERSION = 3
"""The version of the checks. A class that an earlier version held right is inspected again."""


def inspect_new(grid: Grid, store: Store, say: Callable[[str], None]) -> None:
    """Inspects the user's own classes of a grid, each at its smallest and its largest size, unless
    the store or the user's cache knows them to be right.

    Raises UserError with all that is wrong with them. A class whose own code raises an error is
    left to its trials, and `say` is told so.
    """

    def note(digest: str, case: Case) -> None:
        store.note_inspected(digest, {"kind": case.kind, "class": case.where})

    new: dict[str, Case] = {}
    for case in cases_of(grid):
        if case.kind == "trial" or not is_own(case.where):
            continue
        digest = _digest(case, grid.base)
        if store.was_inspected(digest):
            continue
        if cache.recall(f"inspected/{digest}") is not None:
            note(digest, case)
        else:
            new[digest] = case
    if not new:
        return
    findings = inspected(list(new.values()), grid.base, say)
    if wrong := [str(one) for of_case in findings for one in of_case if not (one.ok or one.raised)]:
        raise UserError("\n".join(wrong))
    for (digest, case), of_case in zip(new.items(), findings, strict=True):
        raised = [finding for finding in of_case if finding.raised]
        if raised:
            say(f"{case.where} could not be inspected: {raised[0].detail}; its trials will show")
        elif of_case:
            note(digest, case)
            cache.keep(f"inspected/{digest}", b"")


def _digest(case: Case, base: Path) -> str:
    """Returns a digest of a class and of all code that its trials run. At its largest size the
    setting is part of it."""
    assert case.kind != "trial"
    file = source(case.kind, case.where, base)
    code = fingerprint(trial_files(file, file), base).digest
    setting = [case.task or case.loop, case.model if case.kind == "model" else None]
    asked = [
        VERSION,
        case.kind,
        case.where.rpartition(":")[2],
        code,
        setting if case.extent == "largest" else None,
    ]
    return hashlib.sha256(canonical(asked).encode()).hexdigest()[:20]
