"""The command line as a user runs it. Ray and the training are real. A process is real where the
test needs one."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inprocess import sweepd

TASKS = Path(__file__).parent / "e2e" / "mine.py"
"""A user's own tasks."""
SWEEPD = str(Path(sys.executable).with_name("sweepd"))
TIMEOUT = 240
"""Seconds after which a command counts as stuck."""
INHERITED = frozenset(os.environ)

ONE_AT_A_TIME = f"{{cpus: {0.6 * len(os.sched_getaffinity(0))}}}"
"""Resources of a trial that leave no room for another: its worker is the only one to start."""

Done = subprocess.CompletedProcess[str]


def clean_environment() -> dict[str, str]:
    """What tests have set in this process's environment, without what is there for Ray."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or not name.startswith(("RAY_", "TUNE_"))
    }


@dataclass
class Shell:
    """Runs sweepd in a folder of its own: each command a process, each launch with its own Ray."""

    folder: Path
    command: Sequence[str] = (SWEEPD,)
    environment: dict[str, str] = field(default_factory=dict)
    timeout: float = TIMEOUT

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """A process that runs."""
        return subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.folder,
            env={**clean_environment(), **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    def run(self, *arguments: str, exits: int = 0) -> Done:
        """Run a command to its end, and check how it ends."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=self.timeout)
        return self.checked(Done(arguments, process.returncode, out, err), exits)

    def checked(self, done: Done, exits: int) -> Done:
        told = f"{done.args}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == exits and "Traceback" not in done.stderr, told
        return done

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


class SharedShell(Shell):
    """Runs commands in this process, where all launches share one Ray: only its workers are new.
    Most of what a launch costs is to start Ray and to import it, and few tests are about that.

    `start` still makes a process, which has a Ray of its own.
    """

    def run(self, *arguments: str, exits: int = 0) -> Done:
        with contextlib.chdir(self.folder):
            answer = sweepd(*arguments, patience=self.timeout)
        if answer.code == 130 != exits:  # it took the Ctrl-C that was meant for all tests
            raise KeyboardInterrupt
        return self.checked(Done(arguments, answer.code, answer.out, answer.err), exits)

    def run_alone(self, *arguments: str, exits: int = 0) -> Done:
        """Run a command in a process of its own."""
        return super().run(*arguments, exits=exits)
