"""Runs the command line in this process. It returns what the command answers. If the command is
watched, it also returns what it writes, runs or connects to.

It serves tests with thousands of inputs, and launches that share one Ray (`shell.py`).
"""

import contextlib
import functools
import io
import json
import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweepd import cli

PATIENCE = 120.0
"""Seconds after which an input counts as one that hangs."""
_CHANGES = {"mkdir", "remove", "rename", "rmdir", "link", "symlink", "truncate", "chmod", "chown"}
_OUTWARD = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect")
_HARMLESS = ("/dev/null", "__pycache__", ".nbi", ".nbc")
"""Parts of the paths of what Python, numba and the shell's redirections write by themselves."""


@dataclass(frozen=True)
class Answer:
    """deeds: what it wrote, ran or connected to, as audit events; None where nobody watched."""

    code: int
    out: str
    err: str
    deeds: list[str] | None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What --json printed."""
        rows: list[dict[str, Any]] = json.loads(self.out)
        return rows

    def written_outside(self, folder: Path) -> list[str]:
        """What was done elsewhere than in a folder and in the user's cache."""
        assert self.deeds is not None, "nobody watched"
        inside = (str(folder), os.environ["XDG_CACHE_HOME"])
        return [deed for deed in self.deeds if not deed.partition(" ")[2].startswith(inside)]


_deeds: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _deeds is None or threading.current_thread() is not threading.main_thread():
        return  # other tests' servers and leases live in threads of this process
    if event == "open":
        path, _, flags = arguments
        if not isinstance(path, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            _note("open", path)
    elif event in _OUTWARD:
        _deeds.append(f"{event} {arguments}")
    elif event.startswith("os.") and event[3:] in _CHANGES:
        _note(event, arguments[0])


def _note(event: str, path: Any) -> None:
    shown = os.path.realpath(os.fsdecode(path))
    if _deeds is not None and not any(part in shown for part in _HARMLESS):
        _deeds.append(f"{event} {shown}")


@functools.cache
def _begin_to_watch() -> None:
    """It slows the process for good: nobody can take an audit hook away again."""
    sys.addaudithook(_watch)


def sweepd(
    *arguments: str, exits: int | None = None, patience: float = PATIENCE, watched: bool = False
) -> Answer:
    """Run a command, which is to end with the exit code `exits` if that is given. Whatever it
    raises but SystemExit is raised here: the user would see it."""
    global _deeds
    if watched:
        _begin_to_watch()
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["sweepd", *arguments]
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, patience)
    deeds: list[str] | None = [] if watched else None
    _deeds = deeds
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    finally:
        _deeds = None
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.argv = before
    assert exits in (None, code), err.getvalue()
    return Answer(code, out.getvalue(), err.getvalue(), deeds)


def _give_up(*_: object) -> None:
    raise AssertionError("no answer in time")
