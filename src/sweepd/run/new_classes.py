"""Before the first trial of a class of the user's: is it right?

Each is inspected once for each version of its code, in a process of its own, which user code may
hang or take down. What is known to be right is remembered in the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from sweepd.errors import UserError
from sweepd.grid.fingerprint import Kind, fingerprint, source, trial_files
from sweepd.grid.own import KINDS
from sweepd.grid.plan import Trial
from sweepd.grid.registry import is_own
from sweepd.store.store import Store
from sweepd.trial.setting import Setting, setting_of

MOST_SECONDS = 120
"""How long the inspection may take, torch's own import included."""
PROGRAM = "from sweepd.run.new_classes import main; main()"

Case = tuple[Kind, Trial]


def inspect_new(
    trials: Sequence[Trial], base: Path, store: Store, say: Callable[[str], None]
) -> None:
    """UserError with all that is wrong with the user's own classes of these trials, each looked at
    in its cheapest setting. What raises is left to its trials, and said."""
    cases = _cases(trials)
    digests = {name: _digest(*case, base) for name, case in cases.items()}
    new = [name for name in cases if not store.was_inspected(digests[name])]
    if not new:
        return
    found = _in_a_process([cases[name] for name in new], base)
    faults = [fault for _, faults in found for fault in faults]
    if faults:
        raise UserError("\n".join(faults))
    for name, (raised, _) in zip(new, found, strict=True):
        kind, where = name
        if raised:
            say(f"{where} could not be inspected: {raised}; its trials will show")
        else:
            store.note_inspected(digests[name], {"kind": kind, "class": where})


def _cases(trials: Sequence[Trial]) -> dict[tuple[Kind, str], Case]:
    """The user's own classes, tasks first, each with the cheapest of its trials."""
    cheapest_first = sorted(trials, key=lambda trial: trial.flops or trial.effort)
    found = {
        (kind, where): (kind, trial)
        for trial in reversed(cheapest_first)
        for kind, where in trial.classes
        if is_own(where)
    }
    return dict(sorted(found.items(), key=lambda case: KINDS.index(case[0][0])))


def _digest(kind: Kind, trial: Trial, base: Path) -> str:
    """Names a class and all code that its trials run."""
    where = dict(trial.classes)[kind]
    file = source(kind, where, base)
    code = fingerprint(trial_files(file, file), base).digest
    return hashlib.sha256(f"{kind} {where.rpartition(':')[2]} {code}".encode()).hexdigest()[:20]


def _in_a_process(cases: Sequence[Case], base: Path) -> list[tuple[str | None, list[str]]]:
    """For each case why it could not be inspected, if so, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="sweepd-inspection-") as folder:
        asked, told = Path(folder, "cases"), Path(folder, "findings")
        settings = [[kind, asdict(setting_of(trial))] for kind, trial in cases]
        asked.write_text(json.dumps({"base": str(base), "cases": settings}))
        told.touch()
        path = os.pathsep.join(filter(None, sys.path))
        reason = f"it took more than {MOST_SECONDS} s"
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                # Without -P, files of any name in the current folder would shadow libraries.
                [sys.executable, "-P", "-c", PROGRAM, str(asked), str(told)],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=MOST_SECONDS,
            )
            reason = f"its process died ({done.returncode})"
        found = [tuple(json.loads(line)) for line in told.read_text().splitlines()]
        return [*found, *[(reason, [])] * (len(cases) - len(found))]


def main() -> None:
    """Inspect the cases of one file, and write what was found to another, a line a case."""
    import torch

    from sweepd.trial.inspection import Raised, inspect

    torch.set_num_threads(1)  # more would not pay for what is so small
    asked, told = map(Path, sys.argv[1:])
    given = json.loads(asked.read_text())
    with told.open("a") as file:
        wrong: list[str] = []
        for kind, setting in given["cases"]:
            if kind == "model" and wrong:
                break  # whose task is right is not known
            raised, faults = None, []
            try:
                faults = inspect(kind, Setting(**setting), Path(given["base"]))
            except Raised as error:
                raised = str(error)
            wrong += faults
            file.write(json.dumps([raised, faults]) + "\n")
            file.flush()
