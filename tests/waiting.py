"""Helpers that start other processes, and wait for what they do."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def python(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A process that runs this code, whose input and output are pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_until(
    condition: Callable[[], object],
    seconds: float = 120,
    process: subprocess.Popen[str] | None = None,
) -> None:
    """Until a condition holds, looked at again and again; AssertionError if that takes longer, or
    if the process that is to bring it about ends before."""
    until = time.monotonic() + seconds
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)


@contextmanager
def meanwhile(happens: Callable[[], None]) -> Iterator[None]:
    """Within this block a thread lets something happen."""
    thread = threading.Thread(target=happens)
    thread.start()
    yield
    thread.join()


def alive(pid: int) -> bool:
    """Returns whether a process has not ended, by /proc."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"
