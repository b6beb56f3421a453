"""A launch on a terminal: the board fills in, and Ctrl-C saves what runs and gives the terminal
back. A real terminal (a pty), a real launch."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Iterator

import pytest
from shell import ONE_AT_A_TIME, SWEEPD, SharedShell

GRID = f"""\
name: live
task: {{name: mine.py:Slow, n: [2, 3], value_range: 64, nap: 0.02}}
model: {{name: standard, d: [4, 8], layers: 1, heads: 1}}
train: {{steps: 500, batch_size: 4}}
evaluate: {{check_samples: 16, verdict_samples: 16}}
resources: {ONE_AT_A_TIME}
"""
COLUMNS, LINES = 80, 30
SHOW_CURSOR, HIDE_CURSOR = b"\x1b[?25h", b"\x1b[?25l"


class Terminal:
    """A process on a terminal of its own, and all that it has printed there."""

    def __init__(self, folder: str, *command: str) -> None:
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.environ["TERM"] = "xterm-256color"
            os.execv(command[0], command)
        self.resize(COLUMNS)
        self.printed = b""

    def resize(self, columns: int) -> None:
        size = struct.pack("HHHH", LINES, columns, 0, 0)
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, size)

    def read_until(self, found: Callable[[bytes], object], seconds: float = 200) -> None:
        """Until what was printed says so, or the process has ended."""
        until = time.monotonic() + seconds
        while not found(self.printed):
            assert time.monotonic() < until, self.printed[-3000:].decode()
            if select.select([self.descriptor], [], [], 1.0)[0]:
                try:
                    self.printed += os.read(self.descriptor, 65536)
                except OSError:  # so a pty says that the other end is closed
                    return

    def press(self, key: bytes) -> None:
        os.write(self.descriptor, key)

    def exit_code(self) -> int:
        self.read_until(lambda _: False)
        _, status = os.waitpid(self.process, 0)
        self.process = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self.descriptor)


@pytest.fixture
def terminal(mine: SharedShell) -> Iterator[Terminal]:
    mine.write("grid.yaml", GRID)
    made = Terminal(str(mine.folder), SWEEPD, "launch", "grid.yaml")
    yield made
    made.close()


def test_the_board_fills_in_and_ctrl_c_gives_the_terminal_back(
    terminal: Terminal, mine: SharedShell
) -> None:
    terminal.read_until(lambda told: b"starting Ray" in told)
    assert HIDE_CURSOR in terminal.printed
    terminal.read_until(lambda told: b"running, so much done" in told)
    terminal.resize(60)
    terminal.read_until(lambda told: "▸ ".encode() in told and b"step" in told)
    begun = len(terminal.printed)
    terminal.read_until(lambda told: b"Ctrl-C saves what runs" in told[begun:])
    terminal.press(b"\x03")
    assert terminal.exit_code() == 130
    told = terminal.printed
    assert b"stopping: saving what runs" in told and b"`sweepd resume live` continues it" in told
    assert told.rindex(SHOW_CURSOR) > told.rindex(HIDE_CURSOR)
    assert b"Traceback" not in told

    [row] = mine.rows("status")
    assert row["interrupted"] == 1
    [running] = mine.sql("SELECT step FROM attempts WHERE status = 'interrupted'")
    assert running["step"] > 0
