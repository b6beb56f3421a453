"""Cases are inspected in a process of their own, which user code may hang or take down: for
`sweepd check`, and a class of the user's before its first trial.

`inspected` starts that process, and `main` is what it runs. By a pipe, the one sends the cases, and
the other each check that begins, where a case stands that takes long, and each finding. So what was
seen before a crash is not lost. Before any of the user's code runs, `main` forks a process for each
trial and loop, in which the same trial runs afresh.
"""

from __future__ import annotations

import faulthandler
import hashlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sweepd import cache
from sweepd.check.cases import Case, Finding, cases_of
from sweepd.errors import UserError
from sweepd.grid.axes import canonical
from sweepd.grid.fingerprint import TRAINING, Class, fingerprint, source, trial_files
from sweepd.grid.registry import is_own
from sweepd.grid.spec import Grid
from sweepd.grid.user_files import error_text
from sweepd.run.hanging import dumped_at, watched
from sweepd.store.store import Store

MOST_SECONDS = 120
"""The seconds that the inspection of one case may take."""
LONG_SECONDS = 10
"""The seconds after which people are told where the inspection of a case stands."""
POLL_SECONDS = 1.0
"""The seconds after which it is looked again whether the process has ended."""
PROGRAM = "from sweepd.check.own_process import main; main()"
VERSION = 6
"""The version of the checks. A class that an earlier version held right is inspected again."""


def inspect_new(grid: Grid, store: Store, say: Callable[[str], None]) -> None:
    """Inspects the user's own classes of a grid, each at its smallest and its largest size, unless
    they are known to be right. The store remembers that, for each version of their code and each
    largest size, and so does the user's cache, for stores that are new.

    Raises UserError with all that is wrong with them. A class whose own code raises an error is
    left to its trials, and `say` is told so. It is also told where one trial changes the numbers of
    the next in its process.
    """
    new: dict[str, Case] = {}
    right: dict[str, Case] = {}
    for case in cases_of(grid):
        used: list[Class] = [("loop", case.where)]
        if case.kind != "loop":
            used = [("task", case.task_where), ("model", case.model_where)]
            used = [one for one in used if case.kind in (one[0], "trial")]
        if not any(is_own(where) for _, where in used):
            continue
        if case.kind == "trial":
            case = replace(case, kind="second trial")
        # What is remembered is the class with all code that its trials run, and of its largest
        # size the setting.
        files = [source(kind, where, grid.base) for kind, where in used]
        setting = [case.task, None if case.kind == "task" else case.model]
        asked = [
            VERSION,
            case.kind,
            [where.rpartition(":")[2] for _, where in reversed(used)],
            fingerprint([TRAINING, *trial_files(*files)], grid.base).digest,
            setting if case.extent == "largest" else None,
        ]
        digest = hashlib.sha256(canonical(asked).encode()).hexdigest()[:20]
        if not store.was_inspected(digest):
            (new if cache.recall(f"inspected/{digest}") is None else right)[digest] = case
    findings = inspected(list(new.values()), grid.base, say)
    refused: list[str] = []
    notes: list[str] = []
    for (digest, case), of_case in zip(new.items(), findings, strict=True):
        wrong = [finding for finding in of_case if not finding.ok]
        if broken := [str(finding) for finding in wrong if not finding.raised]:
            if case.kind == "second trial":
                say(broken[0])
            else:
                refused += broken
        elif wrong and case.kind != "second trial":
            why = ": ".join(filter(None, (wrong[0].place, wrong[0].detail)))
            notes.append(f"{case.where} could not be inspected: {why}; its trials will show")
        elif of_case and not wrong:
            right[digest] = case
    if refused:
        raise UserError("\n".join(refused))
    for note in notes:
        say(note)
    for digest, case in right.items():
        store.note_inspected(digest, {"kind": case.kind, "class": case.where})
        cache.keep(f"inspected/{digest}", b"")


def inspected(cases: Sequence[Case], base: Path, say: Callable[[str], None]) -> list[list[Finding]]:
    """Returns the findings of each case. Once a class is known to be wrong, no further case of it,
    or with it, is inspected. `say` is told of each case that takes long."""
    if not cases:
        return []
    ours, theirs = multiprocessing.Pipe()
    findings: list[list[Finding]] = [[] for _ in cases]
    number, check, runs = 0, "made", True
    with tempfile.TemporaryFile("w+") as stack:
        files = theirs.fileno(), stack.fileno()
        process = subprocess.Popen(
            # Without -P, files of any name in the current folder would shadow libraries.
            [sys.executable, "-P", "-c", PROGRAM, *map(str, files)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=files,
        )
        theirs.close()
        try:
            with suppress(OSError):  # a process that has died is told of below
                ours.send((cases, base, MOST_SECONDS, LONG_SECONDS))
            while runs:
                # Processes that the user's code has left may hold the pipe open.
                runs = process.poll() is None
                try:
                    while ours.poll(POLL_SECONDS if runs else 0):
                        match ours.recv():
                            case int(number), str(check):
                                pass
                            case Finding() as finding:
                                findings[number].append(finding)
                            case at:
                                say(
                                    f"still looking at {cases[number].name}, {cases[number]}, "
                                    f"after {LONG_SECONDS} s: it stands at {at}; at most "
                                    f"{MOST_SECONDS} s are waited"
                                )
                except (EOFError, OSError):  # nothing more can come
                    process.wait()
        finally:
            process.kill()  # for when this process is interrupted; one that has ended stays as is
        if process.returncode:
            stack.seek(0)
            trace, case = stack.read(), cases[number]
            reason = f"its process died ({process.returncode})"
            if trace.startswith("Timeout"):
                reason = f"it took more than {MOST_SECONDS} s; look for a loop without an end"
            about = check, case.name, str(case)
            findings[number].append(Finding(*about, False, reason, dumped_at(trace), raised=True))
    return findings


def main() -> None:
    """Inspects the cases that come by a pipe, and tells by it what it sees."""
    status: Any = 1
    try:
        import torch

        from sweepd.check.inspection import inspect

        torch.set_num_threads(1)  # more would not pay for what is so small
        pipe, stack = Connection(int(sys.argv[1])), int(sys.argv[2])
        cases, base, most_seconds, long_seconds = pipe.recv()
        fresh = [None if one.kind in ("task", "model") else _forked(one, base) for one in cases]
        faulthandler.enable(stack)
        wrong: set[str] = set()
        for number, case in enumerate(cases):
            if {case.task_name, case.name} & wrong:
                continue
            faulthandler.dump_traceback_later(most_seconds, exit=True, file=stack)
            with watched(long_seconds, pipe.send):

                def begin(check: str, number: int = number) -> None:
                    pipe.send((number, check))

                for finding in inspect(case, base, begin, fresh[number]):
                    pipe.send(finding)
                    if not finding.ok:
                        wrong.add(case.name)
            faulthandler.cancel_dump_traceback_later()
        status = 0
    except SystemExit as end:  # of the user's code
        status = end.code or 1
    finally:  # at once: Python would wait for threads of user code
        os._exit(status if isinstance(status, int) else 1)


def _forked(case: Case, base: Path) -> Connection:
    """Forks a process that waits until it is asked for so many steps or rows of a case, and answers
    with their numbers. It ends with this one."""
    from sweepd.check.inspection import maker

    ours, theirs = multiprocessing.Pipe()
    if os.fork():  # no Process, whose daemons may have no children, as a DataLoader's workers
        theirs.close()
        return ours
    try:
        ours.close()
        steps = theirs.recv()
        try:
            theirs.send(maker(case, base)[1]().numbers(steps))
        except Exception as error:  # a user's code may raise anything
            theirs.send(error_text(error))
    finally:  # with EOFError where the process that would ask has ended
        for child in multiprocessing.active_children():  # that the user's code has left
            child.terminate()
        os._exit(0)
