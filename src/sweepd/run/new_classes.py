"""Inspects a class of the user's before its first trial.

The store remembers which classes are known to be right, for each version of their code and each
largest size. So does the user's cache, for stores that are new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from sweepd import cache
from sweepd.errors import UserError
from sweepd.grid.axes import canonical
from sweepd.grid.fingerprint import fingerprint, source, trial_files
from sweepd.grid.registry import is_own
from sweepd.grid.spec import Grid
from sweepd.run.inspections import findings
from sweepd.store.store import Store
from sweepd.trial.cases import Case, cases_of

VERSION = 3
"""The version of the checks. A class that an earlier version found right is inspected again."""


def inspect_new(grid: Grid, store: Store, say: Callable[[str], None]) -> None:
    """Inspects the user's own classes of a grid, each at its smallest and its largest size, unless
    the store or the user's cache knows them to be right.

    Raises UserError with all that is wrong with them. A class whose own code raises an error is
    left to its trials, and `say` is told so.
    """
    own = [case for case in cases_of(grid) if case.kind != "trial" and is_own(case.where)]
    cases = {_digest(case, grid.base): case for case in own}
    new = {digest: case for digest, case in cases.items() if not _is_known(digest, case, store)}
    if not new:
        return
    found = findings(list(new.values()), grid.base, say)
    told = [finding for of_case in found for finding in of_case]
    if wrong := [str(finding) for finding in told if not (finding.ok or finding.raised)]:
        raise UserError("\n".join(wrong))
    for (digest, case), of_case in zip(new.items(), found, strict=True):
        raised = [finding for finding in of_case if finding.raised]
        if raised:
            say(f"{case.where} could not be inspected: {raised[0].detail}; its trials will show")
        elif of_case:
            _note(store, digest, case)
            cache.keep(_cached(digest), b"")


def _is_known(digest: str, case: Case, store: Store) -> bool:
    """Returns whether a class is known to be right. The store then knows it from now on."""
    if store.was_inspected(digest):
        return True
    known = cache.recall(_cached(digest)) is not None
    if known:
        _note(store, digest, case)
    return known


def _note(store: Store, digest: str, case: Case) -> None:
    store.note_inspected(digest, {"kind": case.kind, "class": case.where})


def _cached(digest: str) -> str:
    """Returns the name under which the user's cache holds that a class was found right."""
    return f"inspected/{digest}"


def _digest(case: Case, base: Path) -> str:
    """Returns a digest of a class and of all code that its trials run. At its largest size the
    setting is part of it."""
    file = source("model" if case.kind == "trial" else case.kind, case.where, base)
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
