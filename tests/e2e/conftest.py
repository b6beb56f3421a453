"""The command line as a user runs it: real processes, real Ray, real training."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MINE = Path(__file__).with_name("mine.py")
SWEEPD = str(Path(sys.executable).with_name("sweepd"))
TIMEOUT = 240


@dataclass
class Shell:
    """Runs sweepd in a folder of its own."""

    folder: Path
    command: Sequence[str] = (SWEEPD,)
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, *arguments: str, exits: int = 0) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments)
        out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == exits, f"{arguments}: exit {process.returncode}\n{out}\n{err}"
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def rows(self, *arguments: str, exits: int = 0) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = json.loads(
            self.run(*arguments, "--json", exits=exits).stdout
        )
        return answer

    def sql(self, text: str) -> list[dict[str, Any]]:
        return self.rows("sql", text)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def mine(shell: Shell) -> Shell:
    """A folder that holds a user's own tasks."""
    shutil.copy(MINE, shell.folder)
    return shell


@pytest.fixture(scope="module")
def module_shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """One folder for a whole file, where launching once serves many tests."""
    return Shell(tmp_path_factory.mktemp("sweep"))


@pytest.fixture
def running() -> Iterator[Callable[[subprocess.Popen[str]], subprocess.Popen[str]]]:
    """Registers processes to be killed when the test ends, however it ends."""
    processes: list[subprocess.Popen[str]] = []

    def register(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
        processes.append(process)
        return process

    yield register
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def raylets():
    """The program that runs the cluster, and the address of its dashboard."""
    folder = tempfile.mkdtemp(prefix="sweepd-", dir="/tmp")  # sockets' paths must be short
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex()}
    process = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("raylets.py")],
        env={**os.environ, **token, "TMPDIR": folder, "RAY_TMPDIR": folder},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process, process.stdout.readline().strip(), token
        process.stdin.close()
        process.wait(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
