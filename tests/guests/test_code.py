"""Other people's code, each piece as a loop of one launch: what it does, and what must come out.
The launch's virtual environment lies in a path that no shell takes as it is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from shell import Shell

LOOP = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Loop:
    task = "guest"
    size_field = "n"
    metrics = {"acc": "up"}
    n: int = 2
    steps: int = 3

    def start(self, seed, device):
        return Run()
"""
PLAIN = """
class Run:
    def advance(self):
        return {"acc": 0.5}
"""
WITH_THREADS = """
from threading import Thread
from time import sleep

Thread(target=sleep, args=(10_000,)).start()

class Run:
    def __init__(self):
        Thread(target=sleep, args=(10_000,)).start()
""" + PLAIN.partition("class Run:\n")[2]
STARTS_OTHERS = """
from multiprocessing import get_context

def scaled(x):
    from beside import SCALE  # beside this file, when it is called
    return SCALE * x

class Run:
    def advance(self):
        with get_context("spawn").Pool(1) as pool:
            return {"acc": pool.apply(scaled, (1.0,)) * scaled(1.0)}
"""
GUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": (PLAIN, {"status": "completed", "acc": 0.5}),
    "starts-others": (STARTS_OTHERS, {"status": "completed", "acc": 0.25}),
    "threads": (WITH_THREADS, {"status": "completed", "acc": 0.5}),
}
"""The code of each file besides LOOP, and what its trial's row says."""


def test_what_comes_out(tmp_path: Path) -> None:
    environment = tmp_path / "it's $x & (y)" / "venv"
    environment.parent.mkdir()
    environment.symlink_to(sys.prefix)
    shell = Shell(tmp_path, [str(environment / "bin" / "python"), "-m", "sweepd"])
    for name, (code, _) in GUESTS.items():
        shell.write(f"{name}.py", LOOP + code)
    shell.write("beside.py", "SCALE = 0.5\n")
    loops = ", ".join(f"{{name: '{name}.py:Loop', as: {name}}}" for name in GUESTS)
    shell.write("grid.yaml", f"loop: [{loops}]\nseeds: [0]\nretries: 0\n")
    shell.run("launch", "grid.yaml", "--yes")
    rows = {row["model"]: row for row in shell.sql("SELECT * FROM trials")}
    came_out = {
        name: {column: rows[name][column] for column in wanted}
        for name, (_, wanted) in GUESTS.items()
    }
    assert came_out == {name: wanted for name, (_, wanted) in GUESTS.items()}
