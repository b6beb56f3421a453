"""Where code of the user's stands that takes long: a trial that makes no step, told in its log
before its worker is killed, and a class that is inspected.

Code that holds Python's lock meanwhile, as some C code does, cannot be looked at.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import extract_stack

from sweepd.grid.blame import is_own_file

SHARE = 0.5
"""Of the time after which a worker is killed. The driver's clock starts earlier, when it hands the
trial out: with a larger share the worker of a short `hang_seconds` would be killed before."""


@contextmanager
def stepping(hang_seconds: float, note: Callable[[str], None]) -> Iterator[None]:
    """Within this block `note` is told where this thread stands, once it has made no step for SHARE
    of `hang_seconds`; 0: it may stand for ever."""
    if not hang_seconds:
        yield
        return
    seconds = SHARE * hang_seconds
    with watched(seconds, lambda at: note(f"no step for {seconds:g} s; it stands at {at}")):
        yield


@contextmanager
def watched(seconds: float, tell: Callable[[str], None]) -> Iterator[None]:
    """Within this block `tell` is told once, after `seconds`, at which file and line this thread
    stands: the user's own where it is called from one."""
    thread = threading.get_ident()

    def look() -> None:
        stack = extract_stack(sys._current_frames()[thread])
        own = [frame for frame in stack if is_own_file(frame.filename)]
        at = (own or stack)[-1]
        tell(f"{at.filename}:{at.lineno}")

    timer = threading.Timer(seconds, look)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
