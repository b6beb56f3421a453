"""Runs a program so that nothing of it outlives the process that started this one.

`guard.py ORDER COMMAND…` runs as a process of its own, and imports nothing of sweepd. The order is
JSON: `seconds`, `folder`, `cwd`, and `overlays`, which are mounted where only the program sees them:
`{"lower": …, "upper": …, "work": …, "at": …}` each.

A byte on its standard input asks the program to end: its process group gets SIGTERM, and what is
left of it after `seconds` is killed. Where standard input closes, whoever started this process is
dead: the program is killed at once, and `folder` is deleted. Returns the program's exit code, 128
and the signal's number where a signal ended it, and that of SIGKILL where anything had to be killed.

There are two processes, of which each kills the program where the other dies. The outer one adopts
what the inner one leaves, and deletes the folder.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
"""The option of Linux's prctl(2) that sets which signal a process gets when its parent dies."""
PR_SET_CHILD_SUBREAPER = 36
"""The option of Linux's prctl(2) by which orphans of the program become children of this process.
torchrun, for one, puts its workers in sessions of their own, where a signal to a group ends."""
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
"""The flags of Linux's unshare(2) and mount(2)."""
LOOK_SECONDS = 0.05
KILL_SECONDS = 10.0
"""The most seconds until what was killed is gone. A process that waits for a disk may never go."""
KILLED = 128 + signal.SIGKILL
NO_MOUNT = 125
"""The exit code where the overlays cannot be mounted."""
LIBC = ctypes.CDLL(None, use_errno=True)


def main(order: dict[str, Any], command: list[str]) -> int:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # A handler, since a program would inherit that a signal is ignored.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    outer = os.getpid()
    inner = os.fork()
    if not inner:
        code = KILLED
        try:
            code = run(order, command, outer)
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
    kill()
    while select.select([0], [], [], 0)[0]:
        if not os.read(0, 1):
            delete(order["folder"])
            break
    return code if code >= 0 else 128 - code


def run(order: dict[str, Any], command: list[str], outer: int) -> int:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        mount(order["overlays"])
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return NO_MOUNT

    def tie() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    try:
        program = subprocess.Popen(
            command,
            cwd=order["cwd"],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=tie,
        )
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
        late = until is not None and time.monotonic() > until
        if late or os.getppid() != outer:
            kill(program.pid)
            return KILLED
        if select.select([0], [], [], LOOK_SECONDS)[0]:
            if not os.read(0, 1):
                kill(program.pid)
                return KILLED
            until = time.monotonic() + order["seconds"]
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGTERM)


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        LIBC.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def mount(overlays: list[dict[str, str]]) -> None:
    """Mounts overlays for this process and its descendants alone. Raises OSError."""
    if not overlays:
        return
    user, group, options = os.getuid(), os.getgid(), "volatile"
    if LIBC.unshare(CLONE_NEWNS):  # this takes a privilege, which a namespace of users has
        check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        options += ",userxattr"
    check(LIBC.mount(None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "mount")
    for overlay in overlays:
        escaped = {
            key: "".join(f"\\{letter}" if letter in "\\:," else letter for letter in path)
            for key, path in overlay.items()
        }
        data = "lowerdir={lower},upperdir={upper},workdir={work},".format(**escaped) + options
        at = os.fsencode(overlay["at"])
        check(
            LIBC.mount(b"overlay", at, b"overlay", ctypes.c_ulong(0), os.fsencode(data)),
            overlay["at"],
        )


def check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def kill(group: int | None = None) -> None:
    """Kills the group of the program, and all descendants of this process."""
    with contextlib.suppress(OSError):  # nothing of it may be left
        if group:
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


def delete(folder: str) -> None:
    """Deletes a folder, also where the kernel or the program has closed a folder in it."""

    def open_up(act: Any, path: str, _: Any) -> None:
        with contextlib.suppress(OSError):
            os.chmod(os.path.dirname(path), 0o700)
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            elif os.path.lexists(path):
                os.unlink(path)

    shutil.rmtree(folder, onerror=open_up)


if __name__ == "__main__":
    raise SystemExit(main(json.loads(sys.argv[1]), sys.argv[2:]))
