"""Runs a program so that nothing of it outlives the process that started this one.

`guard.py SECONDS FOLDER CWD LOCKS [LOWER UPPER WORK AT]… -- COMMAND…` runs as a process of its own.
It imports nothing of sweepd and little of Python, since each trial waits for it. The program runs
in CWD, and overlays are mounted for it alone, of folders LOWER and UPPER at AT. It does not inherit
the descriptors LOCKS, which stay locked until the end of this process.

A byte on its standard input asks the program to end: its process group gets SIGTERM, and what is
left of it after SECONDS is killed. Where standard input closes, whoever started this process is
dead: the program is killed at once, and FOLDER is deleted. Returns the program's exit code, 128 and
the signal's number where a signal ended it, and that of SIGKILL where anything had to be killed.

There are two processes, of which each kills the program where the other dies. The outer one adopts
what the inner one leaves, and deletes the folder.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

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
NO_MOUNT, NO_PROGRAM = 125, 127
"""The exit codes where the overlays cannot be mounted, and where there is no such program."""
LIBC = ctypes.CDLL(None, use_errno=True)


def main(words: list[str]) -> int:
    cut = words.index("--")
    seconds, folder, cwd, locks, *layers = words[:cut]
    for lock in locks.split():
        os.set_inheritable(int(lock), False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    # A handler, since a program would inherit that a signal is ignored.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    outer = os.getpid()
    inner = os.fork()
    if not inner:
        code = KILLED
        try:
            code = run(float(seconds), cwd, layers, words[cut + 1 :], outer)
        finally:
            os._exit(code)
    code = exit_code(os.waitpid(inner, 0)[1])
    kill()
    while select.select([0], [], [], 0)[0]:
        if not os.read(0, 1):
            delete(folder)
            break
    return code


def run(seconds: float, cwd: str, layers: list[str], command: list[str], outer: int) -> int:
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        mount(layers)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return NO_MOUNT
    program = os.fork()
    if not program:
        become(command, cwd)
    waking, until = [0], None
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # an older kernel
            waking.append(os.pidfd_open(program))
    code = None
    while True:
        # The end of the program is its end as a whole, unless it was asked to save itself: then a
        # script may be gone before the program that it started.
        if code is None and (ended := os.waitpid(program, os.WNOHANG))[0]:
            code, waking = exit_code(ended[1]), [0]
        if code is not None and (until is None or not alive()):
            kill(program)
            return code
        late = until is not None and time.monotonic() > until
        if late or os.getppid() != outer:
            kill(program)
            return KILLED
        if 0 in select.select(waking, [], [], LOOK_SECONDS)[0]:
            if not os.read(0, 1):
                kill(program)
                return KILLED
            until = time.monotonic() + seconds
            signal_group(program, signal.SIGTERM)


def become(command: list[str], cwd: str) -> None:
    """Replaces this process by the program, which dies with its parent."""
    parent = os.getppid()
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(KILLED)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(cwd)
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.stderr.flush()
    finally:
        os._exit(NO_PROGRAM)


def exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        LIBC.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def mount(layers: list[str]) -> None:
    """Mounts overlays for this process and its descendants alone. layers: LOWER UPPER WORK AT of
    one after the other. Raises OSError."""
    if not layers:
        return
    user, group, options = os.getuid(), os.getgid(), "volatile"
    if LIBC.unshare(CLONE_NEWNS):  # this takes a privilege, which one has in a namespace of users
        check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
                file.write(text)
        options += ",userxattr"
    check(LIBC.mount(None, b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "/")
    while layers:
        lower, upper, work, at = layers[:4]
        layers = layers[4:]
        ways = f"lowerdir={escaped(lower)},upperdir={escaped(upper)},workdir={escaped(work)}"
        data = os.fsencode(f"{ways},{options}")
        there = os.fsencode(at)
        check(LIBC.mount(b"overlay", there, b"overlay", ctypes.c_ulong(0), data), at)


def escaped(path: str) -> str:
    """Returns a path as a mount's options hold it."""
    return "".join(f"\\{letter}" if letter in "\\:," else letter for letter in path)


def check(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def signal_group(group: int, number: int) -> None:
    with contextlib.suppress(OSError):  # nothing of it may be left
        os.killpg(group, number)


def kill(group: int | None = None) -> None:
    """Kills the group of the program, and all descendants of this process."""
    if group:
        signal_group(group, signal.SIGKILL)
    until = time.monotonic() + KILL_SECONDS
    while (found := alive()) and time.monotonic() < until:
        for process in found:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.001)


def alive() -> set[int]:
    """Returns the descendants of this process that have not ended; off Linux, none."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:  # all orphans would be children
        return set()
    parents = {}
    for process in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208
        try:
            with open(f"/proc/{process}/stat", errors="replace") as stat:  # noqa: PTH123
                state, parent = stat.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state not in "ZX" and process.isdigit():
            parents[int(process)] = int(parent)
    found: set[int] = set()
    waiting = {os.getpid()}
    while waiting:
        waiting = {child for child, parent in parents.items() if parent in waiting} - found
        found |= waiting
    return found


def delete(folder: str) -> None:
    """Deletes a folder, also where the kernel or the program has closed a folder in it."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
    for path, below, _ in os.walk(folder):  # what could not be deleted
        for name in below:
            with contextlib.suppress(OSError):
                if not os.path.islink(f"{path}/{name}"):  # noqa: PTH114
                    os.chmod(f"{path}/{name}", 0o700)  # noqa: PTH101
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
