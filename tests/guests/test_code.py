"""Other people's code, each piece as a loop of one launch: what it does, and what must come out.
The launch's virtual environment lies in a path that no shell takes as it is, and each warning of
Python's is an error."""

import re
import sys
from pathlib import Path
from typing import Any

from shell import SharedShell, Shell

LOOP = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Loop:
    task = "guest"
    size_field = "n"
    metrics = {"acc": "up"}
    n: int = 2
    steps: int = 3
    gamma: int | float | bool | str | None = None

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
ENDS_ITS_DATA = """
class Run:
    def advance(self):
        return {"acc": next(iter([]))}
"""
EXITS = """
class Run:
    def advance(self):
        raise SystemExit(3)
"""
LEAVES = """
class Run:
    def advance(self):
        raise GeneratorExit
"""
INTERRUPTS = """
class Run:
    def advance(self):
        raise KeyboardInterrupt
"""
OWN_NAMES = """
Loop.metrics = {"acc": "up", "done": "up", "saved": "up", "checks": "down", "failure": "down"}

class Run:
    def advance(self):
        return {"acc": 0.5, "done": 0.25, "saved": 7, "checks": 0.125, "failure": 0.75}
"""
GUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "elsewhere": (STARTS_OTHERS, {"status": "completed", "acc": 0.0625}),
    "ends-its-data": (ENDS_ITS_DATA, {"status": "failed", "error": r"ends-its-data.py:18: .*Stop"}),
    "exits": (EXITS, {"status": "failed", "error": "exits.py:18: SystemExit: 3"}),
    "interrupts": (INTERRUPTS, {"status": "failed", "error": r"interrupts.py:18: KeyboardInterr"}),
    "leaves": (LEAVES, {"status": "failed", "error": "leaves.py:18: GeneratorExit"}),
    "own-names": (OWN_NAMES, {"status": "completed", "done": 0.25, "checks": 0.125}),
    "plain": (PLAIN, {"status": "completed", "acc": 0.5}),
    "starts-others": (STARTS_OTHERS, {"status": "completed", "acc": 0.25}),
    "threads": (WITH_THREADS, {"status": "completed", "acc": 0.5}),
}
"""The code of each file besides LOOP, and what its trial's row says, of an error a pattern."""
FILES = {name: f"{name}.py" for name in GUESTS} | {"elsewhere": "folder/starts-others.py"}
"""Where each stands. Both folders have a helper of one name."""
FIELDS = {"plain": ", gamma: [null, 0.001, auto, 1, true]"}
QUESTIONS = {
    "gamma = 0.001": ["0.001"],
    "gamma <> 1": ["0.001", "auto", "true"],
    "gamma in (1, 'auto')": ["1", "auto"],
    "gamma between 0 and 0.1": ["0.001"],
    "gamma = true": ["true"],
}
"""Conditions on a field with values of several types, and which of them meet it."""


def test_what_comes_out(tmp_path: Path) -> None:
    environment = tmp_path / "it's $x & (y)" / "venv"
    environment.parent.mkdir()
    environment.symlink_to(sys.prefix)
    command = [str(environment / "bin" / "python"), "-m", "sweepd"]
    shell = Shell(tmp_path, command, {"PYTHONWARNINGS": "error"})
    (tmp_path / "folder").mkdir()
    for name, (code, _) in GUESTS.items():
        shell.write(FILES[name], LOOP + code)
    shell.write("beside.py", "SCALE = 0.5\n")
    shell.write("folder/beside.py", "SCALE = 0.25\n")
    loops = ", ".join(
        f"{{name: '{FILES[name]}:Loop', as: {name}{FIELDS.get(name, '')}}}" for name in GUESTS
    )
    shell.write("grid.yaml", f"loop: [{loops}]\nseeds: [0]\nretries: 0\n")
    told = shell.run("launch", "grid.yaml", "--yes", exits=1).stderr
    # What the launch says of metrics that are called as Tune and the worker call their own.
    assert "completed, acc 0.5, done 0.25, saved 7, checks 0.125, failure 0.75" in told
    shell = SharedShell(tmp_path)  # whatever else is asked needs no process of its own
    rows = {row["model"]: row for row in shell.sql("SELECT * FROM trials")}
    for name, (_, wanted) in GUESTS.items():
        if pattern := wanted.get("error"):
            assert re.search(pattern, rows[name]["error"]), rows[name]["error"]
            assert re.search(pattern, told), told
            rows[name]["error"] = pattern
    came_out = {
        name: {column: rows[name][column] for column in wanted}
        for name, (_, wanted) in GUESTS.items()
    }
    assert came_out == {name: wanted for name, (_, wanted) in GUESTS.items()}

    # Questions over a field of several types, and a field that differs from it in a capital alone.
    for condition, met in QUESTIONS.items():
        found = shell.rows("query", f"max acc by gamma where model = 'plain' and {condition}")
        assert [row["gamma"] for row in found] == met, condition
    shell.write("capital.py", LOOP.replace("gamma", "Gamma") + PLAIN)
    shell.write("capital.yaml", "loop: {name: 'capital.py:Loop'}\nseeds: [0]\n")
    said = shell.run("plan", "capital.yaml", exits=2).stderr
    assert "a field Gamma, and these results have a column gamma" in said
