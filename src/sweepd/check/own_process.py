"""Cases are inspected in a process of their own, which user code may hang or take down: for
`sweepd check`, and a class of the user's before its first trial.

`inspected` starts that process, and `main` is what it runs. The two speak by files: the one writes
the cases, and the other a line of JSON for each check that begins, each case that takes long and
each finding. So what was seen before a crash is not lost. Before any of the user's code runs,
`main` forks a process for each trial and loop, in which the same trial runs afresh.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from sweepd import cache
from sweepd.check.cases import Case, Finding, cases_of
from sweepd.errors import UserError
from sweepd.grid.axes import canonical
from sweepd.grid.fingerprint import fingerprint, source, trial_files
from sweepd.grid.registry import is_own
from sweepd.grid.spec import Grid
from sweepd.grid.user_files import error_text, is_own_file
from sweepd.run.hanging import watched
from sweepd.store.storage import failure
from sweepd.store.store import Store

if TYPE_CHECKING:
    from sweepd.check.training import Elsewhere, Numbers

MOST_SECONDS = 120
"""The seconds that the inspection of one case may take."""
LONG_SECONDS = 10
"""The seconds after which people are told where the inspection of a case stands."""
FRESH_SECONDS = 30
"""The seconds that the same trial may take in a fresh process."""
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

    def note(digest: str, case: Case) -> None:
        store.note_inspected(digest, {"kind": case.kind, "class": case.where})

    new: dict[str, Case] = {}
    for case in cases_of(grid):
        if not (is_own(case.where) or (case.kind == "trial" and is_own(case.task_where))):
            continue
        if case.kind == "trial":
            case = replace(case, kind="second trial")
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
    refused: list[str] = []
    for case, of_case in zip(new.values(), findings, strict=True):
        wrong = [str(finding) for finding in of_case if not (finding.ok or finding.raised)]
        if case.kind != "second trial":
            refused += wrong
        elif wrong:
            say(wrong[0])
    if refused:
        raise UserError("\n".join(refused))
    for (digest, case), of_case in zip(new.items(), findings, strict=True):
        raised = [finding for finding in of_case if finding.raised]
        if case.kind == "second trial" and not all(finding.ok for finding in of_case):
            continue
        if raised:
            why = ": ".join(filter(None, (raised[0].place, raised[0].detail)))
            say(f"{case.where} could not be inspected: {why}; its trials will show")
        elif of_case:
            note(digest, case)
            cache.keep(f"inspected/{digest}", b"")


def _digest(case: Case, base: Path) -> str:
    """Returns a digest of a class and of all code that its trials run. At its largest size the
    setting is part of it."""
    assert case.kind != "trial"
    names = [case.where.rpartition(":")[2]]
    if case.kind == "second trial":
        files = [source("task", case.task_where, base), source("model", case.model_where, base)]
        names.append(case.task_where.rpartition(":")[2])
    else:
        files = [source(case.kind, case.where, base)]
    code = fingerprint(trial_files(*files), base).digest
    setting = [case.task, None if case.kind == "task" else case.model]
    asked = [
        VERSION,
        case.kind,
        names,
        code,
        setting if case.extent == "largest" else None,
    ]
    return hashlib.sha256(canonical(asked).encode()).hexdigest()[:20]


def inspected(cases: Sequence[Case], base: Path, say: Callable[[str], None]) -> list[list[Finding]]:
    """Returns the findings of each case. Once a class is known to be wrong, no further case of it,
    or with it, is inspected. `say` is told of each case that takes long."""
    with tempfile.TemporaryDirectory(prefix="sweepd-inspection-") as folder:
        asked, answers, stack = (Path(folder, name) for name in ("cases", "findings", "stack"))
        given = {
            "base": str(base),
            "seconds": MOST_SECONDS,
            "long": LONG_SECONDS,
            "cases": list(map(asdict, cases)),
        }
        try:
            asked.write_text(json.dumps(given))
            answers.touch()
        except OSError as error:
            raise failure("write", folder, error.strerror or str(error)) from error
        process = subprocess.Popen(
            # Without -P, files of any name in the current folder would shadow libraries.
            [sys.executable, "-P", "-c", PROGRAM, str(asked), str(answers), str(stack)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        returncode, said = None, 0
        try:
            while returncode is None:
                try:
                    returncode = process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    long = [line for line in _lines(answers) if "long" in line]
                    for line in long[said:]:
                        case = cases[line["long"]]
                        say(
                            f"still looking at {case.name}, {case}, after {LONG_SECONDS} s: it "
                            f"stands at {line['at']}; at most {MOST_SECONDS} s are waited"
                        )
                    said = len(long)
        finally:
            process.kill()  # for when this process is interrupted; one that has ended stays as is
        findings: list[list[Finding]] = [[] for _ in cases]
        number, check = 0, "made"
        for line in _lines(answers):
            if "begun" in line:
                number, check = line["begun"], line["check"]
            elif "long" not in line:
                findings[line.pop("case")].append(Finding(**line))
        if returncode:
            case = cases[number]
            trace = stack.read_text() if stack.exists() else ""
            reason = f"its process died ({returncode})"
            if trace.startswith("Timeout"):
                reason = f"it took more than {MOST_SECONDS} s; look for a loop without an end"
            # The innermost frame of the user's code in what faulthandler wrote.
            frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
            place = next((f"{file}:{line}" for file, line in frames if is_own_file(file)), "")
            findings[number].append(
                Finding(check, case.name, str(case), False, reason, place, raised=True)
            )
        return findings


def _lines(answers: Path) -> list[dict[str, Any]]:
    """Returns the whole lines that the process has written so far, each read from JSON."""
    whole, _, _ = answers.read_text().rpartition("\n")
    return list(map(json.loads, whole.splitlines()))


def main() -> None:
    """Inspects the cases of one file, and writes to another what it sees. Then the process ends at
    once, since Python would wait for each thread that user code has started."""
    status: Any = 1
    try:
        _inspect_cases()
        status = 0
    except SystemExit as end:  # of the user's code
        status = end.code or 1
    finally:
        os._exit(status if isinstance(status, int) else 1)


def _inspect_cases() -> None:
    import torch

    from sweepd.check.inspection import inspect

    torch.set_num_threads(1)  # more would not pay for what is so small
    asked, answers, stack = map(Path, sys.argv[1:])
    given = json.loads(asked.read_text())
    base, cases = Path(given["base"]), [Case(**data) for data in given["cases"]]
    fresh = [_forked(case, base) if case.kind not in ("task", "model") else None for case in cases]
    wrong: set[str] = set()
    with answers.open("a") as file, stack.open("w") as trace:

        def tell(**line: Any) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        def tell_check(number: int, check: str) -> None:
            tell(begun=number, check=check)

        def tell_long(number: int, at: str) -> None:
            tell(long=number, at=at)

        faulthandler.enable(trace)
        for number, (case, elsewhere) in enumerate(zip(cases, fresh, strict=True)):
            if {case.task_name, case.name} & wrong:
                continue
            faulthandler.dump_traceback_later(given["seconds"], exit=True, file=trace)
            with watched(given["long"], partial(tell_long, number)):
                for finding in inspect(case, base, partial(tell_check, number), elsewhere):
                    tell(case=number, **asdict(finding))
                    if not finding.ok:
                        wrong.add(case.name)
            faulthandler.cancel_dump_traceback_later()


def _forked(case: Case, base: Path) -> Elsewhere:
    """Returns a function that runs a trial or a loop in a process that is forked now. It ends with
    this one."""
    ours, theirs = multiprocessing.Pipe()
    if not os.fork():  # no Process, whose daemons may have no children, as a DataLoader's workers
        ours.close()
        _run_afresh(theirs, case, base)
    theirs.close()

    def answer() -> Numbers | str:
        try:
            if not ours.poll(FRESH_SECONDS):
                return f"it took more than {FRESH_SECONDS} s"
            found: Numbers | str = ours.recv()
            return found
        except EOFError:
            return "it died"

    def elsewhere(steps: int) -> Callable[[], Numbers | str]:
        ours.send(steps)
        return answer

    return elsewhere


def _run_afresh(pipe: Connection, case: Case, base: Path) -> NoReturn:
    """Waits until it is asked for so many steps or rows of a case, and answers with their numbers.
    Ends the process, also where the user's code has left threads or processes in it."""
    from sweepd.check.inspection import maker

    try:
        steps = pipe.recv()
        try:
            pipe.send(maker(case, base)().numbers(steps))
        except Exception as error:  # a user's code may raise anything
            pipe.send(error_text(error))
    finally:  # with EOFError where the process that would ask has ended
        for child in multiprocessing.active_children():
            child.terminate()
        os._exit(0)
