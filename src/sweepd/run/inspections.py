"""Cases are inspected in a process of their own, which user code may hang or take down."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from sweepd import cycles
from sweepd.errors import SweepdError
from sweepd.grid.spec import Grid
from sweepd.grid.user_files import is_own_file
from sweepd.run.hanging import watched
from sweepd.run.launching import Site, per_trial
from sweepd.store.storage import failure
from sweepd.trial.cases import Case
from sweepd.trial.findings import Finding

MOST_SECONDS = 120
"""The seconds that the inspection of one case may take."""
LONG_SECONDS = 10
"""The seconds after which people are told where the inspection of a case stands."""
PROGRAM = "from sweepd.run.inspections import main; main()"


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
    from sweepd.trial.task_checks import commonest

    goal = grid.goal
    if goal.metric != "acc" or "<" in goal.comparison:
        return
    for block in grid.blocks["task"]:
        task = block.variants[0].value
        answer, share = commonest(task)
        about = "goal", block.name, f"size {task.size}"
        told = f"always answering {answer} is right in {share:.0%}"
        if goal.met(share):
            place = grid.document.place(("goal",))
            remedy = f"ask for more than {share:.2f}"
            yield Finding(*about, False, f"{goal} says nothing: {told}; {remedy}", place)
        else:
            yield Finding(*about, True, f"{goal}; {told}")


def findings(cases: Sequence[Case], base: Path, say: Callable[[str], None]) -> list[list[Finding]]:
    """Returns the findings of each case. Once a class is found wrong, no further case of it, or
    with it, is inspected. `say` is told of each case that takes long."""
    with tempfile.TemporaryDirectory(prefix="sweepd-inspection-") as folder:
        asked, told, stack = (Path(folder, name) for name in ("cases", "findings", "stack"))
        given = {
            "base": str(base),
            "seconds": MOST_SECONDS,
            "long": LONG_SECONDS,
            "cases": list(map(asdict, cases)),
        }
        try:
            asked.write_text(json.dumps(given))
            told.touch()
        except OSError as error:
            raise failure("write", folder, error.strerror or str(error)) from error
        path = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(
            # Without -P, files of any name in the current folder would shadow libraries.
            [sys.executable, "-P", "-c", PROGRAM, str(asked), str(told), str(stack)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        returncode = _awaited(process, told, cases, say)
        found: list[list[Finding]] = [[] for _ in cases]
        begun = 0, "made"
        for line in _lines(told):
            if "begun" in line:
                begun = line["begun"], line["check"]
            elif "long" not in line:
                found[line.pop("case")].append(Finding(**line))
        if returncode:
            number, check = begun
            case = cases[number]
            trace = stack.read_text() if stack.exists() else ""
            reason = f"its process died ({returncode})"
            if trace.startswith("Timeout"):
                reason = f"it took more than {MOST_SECONDS} s; look for a loop without an end"
            found[number].append(
                Finding(check, case.name, str(case), False, reason, _place(trace), raised=True)
            )
        return found


def _awaited(
    process: subprocess.Popen[bytes],
    told: Path,
    cases: Sequence[Case],
    say: Callable[[str], None],
) -> int:
    """Waits for the process to end. Meanwhile says of each case that takes long where it stands.
    Returns the exit status."""
    said = 0
    try:
        while True:
            try:
                return process.wait(timeout=1)
            except subprocess.TimeoutExpired:
                long = [line for line in _lines(told) if "long" in line]
            for line in long[said:]:
                case = cases[line["long"]]
                say(
                    f"still looking at {case.name}, {case}, after {LONG_SECONDS} s: it stands at "
                    f"{line['at']}; at most {MOST_SECONDS} s are waited"
                )
            said = len(long)
    finally:
        process.kill()  # for when this process is interrupted; one that has ended stays as it is


def _lines(told: Path) -> list[dict[str, Any]]:
    """Returns the whole lines that the process has written so far, each read from JSON."""
    whole, _, _ = told.read_text().rpartition("\n")
    return list(map(json.loads, whole.splitlines()))


def _place(trace: str) -> str:
    """Returns the file and line of the user's code that is innermost in a trace by faulthandler.
    Returns "" where there is none."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
    own = [f"{file}:{line}" for file, line in frames if is_own_file(file)]
    return own[0] if own else ""


def main() -> None:
    """Inspects the cases of one file, and writes what is found to another, one line a finding."""
    with cycles.importing():
        import torch

        from sweepd.trial.inspection import inspect

    torch.set_num_threads(1)  # more would not pay for what is so small
    asked, told, stack = map(Path, sys.argv[1:])
    given = json.loads(asked.read_text())
    wrong: set[str] = set()
    with told.open("a") as file, stack.open("w") as trace:

        def tell(**line: Any) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        faulthandler.enable(trace)
        for number, case in enumerate(Case(**data) for data in given["cases"]):
            if {case.task_name, case.name} & wrong:
                continue
            faulthandler.dump_traceback_later(given["seconds"], exit=True, file=trace)
            begin = partial(_begin, tell, number)
            with watched(given["long"], partial(_long, tell, number)):
                for finding in inspect(case, Path(given["base"]), begin):
                    tell(case=number, **asdict(finding))
                    if not finding.ok:
                        wrong.add(case.name)
            faulthandler.cancel_dump_traceback_later()


def _begin(tell: Callable[..., None], number: int, check: str) -> None:
    tell(begun=number, check=check)


def _long(tell: Callable[..., None], number: int, at: str) -> None:
    tell(long=number, at=at)
