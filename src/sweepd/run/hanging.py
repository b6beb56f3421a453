"""Says at which line the user's code stands when it takes long. A trial that makes no step is noted
in its log before its worker is killed. A class that is inspected is watched too.

Code that holds Python's global lock all the while, as some C code does, cannot be looked at.
"""

from __future__ import annotations

import multiprocessing
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from traceback import extract_stack

from sweepd.grid.user_files import is_own_file

SHARE = 0.5
"""The share of `hang_seconds` after which a trial without a step is noted in its log. The driver's
clock starts earlier, when it hands the trial out. So with a larger share, the worker of a short
`hang_seconds` would be killed before the note."""

BY_FORK = (
    ", and has started processes by fork, which hang where torch has threads: start them by spawn "
    "(`multiprocessing.get_context('spawn')`, or `multiprocessing_context='spawn'` of a DataLoader)"
)


def stepping(hang_seconds: float, note: Callable[[str], None]) -> AbstractContextManager[None]:
    """Notes where this thread stands if the block has not ended after SHARE of `hang_seconds`."""
    seconds = SHARE * hang_seconds
    return watched(seconds, lambda at: note(f"no step for {seconds:g} s; it stands at {at}"))


def dumped_at(trace: str) -> str:
    """Returns the file and line of the innermost user's frame in a trace of faulthandler, or ""."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
    return next((f"{file}:{line}" for file, line in frames if is_own_file(file)), "")


@contextmanager
def watched(seconds: float, tell: Callable[[str], None]) -> Iterator[None]:
    """Calls `tell` once if the block has not ended after `seconds`; with 0 it may take for ever. It
    is told the file and line where this thread stands, in the user's own code if possible."""
    thread = threading.get_ident()

    def look() -> None:
        stack = extract_stack(sys._current_frames()[thread])
        own = [frame for frame in stack if is_own_file(frame.filename)]
        at = (own or stack)[-1]
        children = (type(child).__name__ for child in multiprocessing.active_children())
        tell(f"{at.filename}:{at.lineno}" + BY_FORK * ("ForkProcess" in children))

    timer = threading.Timer(seconds, look)
    timer.daemon = True
    if seconds:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
