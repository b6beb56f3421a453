"""Commands of sweepd and other programs, run as whole processes, and what each costs. Several
benchmarks use this."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SWEEPD = str(Path(sys.executable).with_name("sweepd"))
WIDTH = 28
"""The width in characters of the name that begins each line."""
LAUNCHER = """
import os, sys, time
null = os.open(os.devnull, os.O_WRONLY)
began = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
_, ended, used = os.wait4(pid, 0)
print(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(ended != 0)
"""
"""Runs a program from a small process: Linux counts the memory of who starts it as its own."""


@dataclass(frozen=True)
class Cost:
    """The cost of one whole process. seconds: by the clock. cpu: seconds of all its threads, which
    other load on the machine disturbs less. memory: its greatest resident set, in MiB."""

    seconds: float
    cpu: float
    memory: float


def cost(program: Sequence[str]) -> Cost:
    done = subprocess.run([sys.executable, "-S", "-c", LAUNCHER, *program], stdout=subprocess.PIPE)
    assert done.returncode == 0, program
    seconds, cpu, kibibytes = map(float, done.stdout.split())
    return Cost(seconds, cpu, kibibytes / 1024)


def sweepd(*arguments: str | Path, also: int = 0) -> str:
    """Runs a command of sweepd, and returns what it printed. It may end with 0 or with `also`.

    Raises SystemExit if it ends in any other way. What went wrong is on the terminal already.
    """
    done = subprocess.run([SWEEPD, *arguments], stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, also):
        raise SystemExit(f"sweepd {' '.join(map(str, arguments))}: exit code {done.returncode}")
    return done.stdout


def compare(name: str, ours: Sequence[str], peer: Sequence[str], rounds: int) -> None:
    pairs = [(cost(ours), cost(peer)) for _ in range(rounds)]
    shown = [name.ljust(WIDTH)]
    for what, unit in (("seconds", "s"), ("cpu", "s of CPU"), ("memory", "MiB")):
        both = [(getattr(a, what), getattr(b, what)) for a, b in pairs]
        ratios = sorted(a / b for a, b in both)
        mine, theirs = (statistics.median(side) for side in zip(*both, strict=True))
        shown.append(
            f"{mine:8.2f} {unit} beside {theirs:7.2f} {unit}: {statistics.median(ratios):.2f} times"
            f" ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )
    print("  ".join(shown), flush=True)


def alone(name: str, program: Sequence[str]) -> None:
    found = cost(program)
    print(
        f"{name.ljust(WIDTH)} {found.seconds:8.2f} s  {found.cpu:8.2f} s of CPU  "
        f"{found.memory:8.0f} MiB",
        flush=True,
    )
