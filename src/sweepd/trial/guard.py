"""Runs a program so that nothing of it outlives the process that started this one.

`guard.py SECONDS FOLDER COMMAND…` runs as a process of its own, and imports nothing of sweepd. A
byte on its standard input asks the program to end: its process group gets SIGTERM, and what is left
of it after SECONDS is killed. Where standard input closes, whoever started this process is dead:
the program is killed at once, and FOLDER is deleted. Returns the program's exit code, 128 and the
signal's number where a signal ended it, and that of SIGKILL where anything had to be killed.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
"""The option of Linux's prctl(2) by which orphans of the program become children of this process.
torchrun, for one, puts its workers in sessions of their own, where a signal to a group ends."""
LOOK_SECONDS = 0.05
KILL_SECONDS = 10.0
"""The most seconds until what was killed is gone. A process that waits for a disk may never go."""
KILLED = 128 + signal.SIGKILL


def main(seconds: float, folder: str, command: list[str]) -> int:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # an ignored signal would be inherited
    try:
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    until = None
    while True:
        # The end of the program is its end as a whole, unless it was asked to save itself: then a
        # script may be gone before the program that it started.
        code = program.poll()
        if code is not None and (until is None or not alive()):
            kill(program.pid)
            return code if code >= 0 else 128 - code
        if until is not None and time.monotonic() > until:
            kill(program.pid)
            return KILLED
        if select.select([0], [], [], LOOK_SECONDS)[0]:
            if not os.read(0, 1):
                kill(program.pid)
                shutil.rmtree(folder, ignore_errors=True)
                return KILLED
            until = time.monotonic() + seconds
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGTERM)


def kill(group: int) -> None:
    """Kills the group of the program, and all descendants of this process."""
    with contextlib.suppress(OSError):  # nothing of it may be left
        os.killpg(group, signal.SIGKILL)
    until = time.monotonic() + KILL_SECONDS
    while (found := alive()) and time.monotonic() < until:
        for process in found:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.001)


def alive() -> set[int]:
    """Returns the descendants of this process that have not ended; off Linux, none."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(stat.parent.name)] = int(parent)
    found: set[int] = set()
    waiting = {os.getpid()}
    while waiting:
        waiting = {child for child, parent in parents.items() if parent in waiting} - found
        found |= waiting
    return found


if __name__ == "__main__":
    raise SystemExit(main(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
