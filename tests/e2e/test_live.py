"""A launch on a real terminal (a pty). It runs in a folder full of traps, and the user's home is
empty. The board fills in, and nobody else gets in. Ctrl-C saves what runs and gives the terminal
back."""

import contextlib
import fcntl
import ipaddress
import os
import pty
import re
import select
import signal
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from shell import ONE_AT_A_TIME, SWEEPD, TASKS, SharedShell, clean_environment

GRID = f"""\
name: live
task: {{name: mine.py:Slow, n: 2, value_range: 64}}
model: {{name: standard, d: [4, 8], layers: 1, heads: 1}}
train: {{steps: 500, batch_size: 4}}
evaluate: {{check_samples: 16, verdict_samples: 16}}
resources: {ONE_AT_A_TIME}
"""
COLUMNS, LINES = 80, 30
SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
NOBODY = 65534
KEYS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
    *("AZURE_STORAGE_KEY", "GOOGLE_BEARER_TOKEN", "HF_TOKEN", "WANDB_API_KEY"),
)
SECRET = "not-for-everybody"
"""What the environment of the launch has as each of these."""
LIBRARIES = ("pyarrow", "pydantic", "numba", "torch", "duckdb", "yaml", "tasks", "models")
"""What files of these names in the current folder would be taken for."""


class Terminal:
    """A process on a terminal of its own, and all that it has printed there."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *command: str) -> None:
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.chdir(folder)
            os.execve(command[0], command, {**environment, "TERM": "xterm-256color"})
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


@dataclass(frozen=True)
class Ended:
    """How the launch ended, and what there was of it while it ran."""

    folder: Path
    printed: str
    exit_code: int
    reached_at: frozenset[ipaddress.IPv4Address | ipaddress.IPv6Address]
    """where its processes listened"""
    commands: str
    """the command lines of its processes"""
    tokens: frozenset[str | None]
    """those of its raylets"""
    session: Path
    """the folder of its Ray"""
    written: Mapping[Path, bytes]
    """the files there"""
    intruded: Sequence[str]
    """what another user could do there"""


@pytest.fixture(scope="module")
def ended(module_shell: SharedShell) -> Iterator[Ended]:
    folder = module_shell.folder
    for name in ("grids", "home"):
        (folder / name).mkdir()
    module_shell.write("grids/mine.py", TASKS.read_text())
    module_shell.write("grids/grid.yaml", GRID)
    for name in LIBRARIES:
        module_shell.write(f"{name}.py", f"open({str(folder / 'sprung')!r}, 'w')")
    environment = {**clean_environment(), "HOME": str(folder / "home")}
    environment |= dict.fromkeys(KEYS, SECRET)
    terminal = Terminal(folder, environment, SWEEPD, "launch", "grids/grid.yaml")
    try:
        terminal.read_until(lambda told: b"running, so much done" in told)
        terminal.resize(60)
        terminal.read_until(lambda told: "▸ ".encode() in told and b"step" in told)
        begun = len(terminal.printed)
        terminal.read_until(lambda told: b"Ctrl-C saves what runs" in told[begun:])
        driver = psutil.Process(terminal.process)
        everyone = [driver, *driver.children(recursive=True)]
        found = (
            frozenset(address for process in everyone for address in listening(process)),
            "".join(word for process in everyone for word in process.cmdline()),
            frozenset(p.environ().get("RAY_AUTH_TOKEN") for p in everyone if p.name() == "raylet"),
        )
        [inner] = {*re.findall(r"--temp_dir=(\S+?)--", found[1])}
        session = Path(inner).parent
        written = {path: path.read_bytes() for path in session.rglob("*") if path.is_file()}
        intruded = intrusions(session) if os.getuid() == 0 else ()
        terminal.press(b"\x03")
        code = terminal.exit_code()
        yield Ended(folder, terminal.printed.decode(), code, *found, session, written, intruded)
    finally:
        terminal.close()


def listening(
    process: psutil.Process,
) -> Iterator[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """The addresses at which a process can be reached."""
    for connection in process.net_connections("inet"):
        if connection.status in (psutil.CONN_LISTEN, psutil.CONN_NONE) and connection.laddr:
            address = ipaddress.ip_address(connection.laddr.ip)
            yield getattr(address, "ipv4_mapped", None) or address


def intrusions(session: Path) -> list[str]:
    """What a process of another user can do in a folder: it tries all of it."""
    folders = [session, *(path for path in session.rglob("*") if path.is_dir())]
    sockets = [path for path in session.rglob("*") if path.is_socket()]
    assert sockets, "Ray has none there"
    reader, writer = os.pipe()
    if (other := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            for folder in folders:
                with contextlib.suppress(PermissionError):
                    list(folder.iterdir())
                    os.write(writer, f"listed {folder}\n".encode())
                with contextlib.suppress(PermissionError):
                    (folder / "planted").touch()
                    os.write(writer, f"wrote to {folder}\n".encode())
            for path in sockets:
                with contextlib.suppress(PermissionError), socket.socket(socket.AF_UNIX) as way:
                    way.connect(str(path))
                    os.write(writer, f"connected to {path}\n".encode())
                with contextlib.suppress(PermissionError):
                    path.rename(path.with_name("moved"))
                    os.write(writer, f"moved {path}\n".encode())
            os.write(writer, b"tried\n")
        finally:
            os._exit(0)
    os.close(writer)
    os.waitpid(other, 0)
    with os.fdopen(reader) as pipe:
        *done, end = pipe.read().splitlines()
    assert end == "tried", done
    return done


def test_the_board_fills_in_and_ctrl_c_gives_the_terminal_back(
    ended: Ended, module_shell: SharedShell
) -> None:
    told = ended.printed
    assert told.index(HIDE_CURSOR) < told.index("running, so much done")
    assert "starting Ray" in told and ended.exit_code == 130
    assert "stopping: saving what runs" in told and "`sweepd resume live` continues it" in told
    assert told.rindex(SHOW_CURSOR) > told.rindex(HIDE_CURSOR)
    assert "Traceback" not in told

    [row] = module_shell.rows("status")
    assert row["interrupted"] == 1
    [running] = module_shell.sql("SELECT step FROM attempts WHERE status = 'interrupted'")
    assert running["step"] > 0


def test_nothing_but_the_user_gets_in(ended: Ended) -> None:
    assert ended.reached_at and all(address.is_loopback for address in ended.reached_at)
    [token] = ended.tokens
    assert token and len(token) >= 32
    assert token not in ended.commands + ended.printed
    assert not (ended.folder / "sprung").exists()
    assert not list((ended.folder / "home").iterdir())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can play another user")
def test_another_user_can_neither_list_nor_connect_nor_write(ended: Ended) -> None:
    assert not ended.intruded
    assert Path("/", "tmp", "ray") not in (ended.session, *ended.session.parents)


def test_no_file_holds_a_key_or_the_token(ended: Ended) -> None:
    stored = (path for path in (ended.folder / "sweepd-results").rglob("*") if path.is_file())
    files = {**ended.written, **{path: path.read_bytes() for path in stored}}
    assert any(path.name.startswith("runtime_env_agent") for path in files)
    assert any(path.suffix == ".pt" for path in files)
    [token] = ended.tokens
    for secret in (SECRET, token or ""):
        assert not [path for path, content in files.items() if secret.encode() in content]


def test_nothing_is_left_of_its_ray(ended: Ended) -> None:
    assert not ended.session.exists()


def test_ray_starts_no_more_than_it_needs(ended: Ended) -> None:
    spared = ("dashboard.py", "log_monitor.py", "monitor.py")  # ray_private.starting
    assert "raylet" in ended.commands and not any(name in ended.commands for name in spared)
