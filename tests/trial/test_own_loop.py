"""A loop of the user's own, as an attempt runs it. What it hands over is read, or refused with file
and line. Also tested are its end and its budgets. A loop that was cut off goes on with the same
numbers."""

from pathlib import Path

import pytest
from faults import Runs

LOOP = '''
import json, random
from dataclasses import dataclass
import numpy as np
import torch

@dataclass(frozen=True)
class Walk:
    """A random walk that draws from all three global generators."""
    width: int = 1
    n: int = 2
    steps: int = 5
    task, size_field, metrics = "walking", "n", {"acc": "up", "far": "up"}

    def start(self, seed, device):
        return Walker(self)

class Walker:
    def __init__(self, walk):
        self.walk, self.at = walk, 0.0

    def advance(self):
        self.at += random.random() + np.random.rand() + torch.rand(1).item()
        ADVANCE
        return {"acc": 0.5, "far": self.at, "total": 10}

    def save(self):
        return json.dumps(self.at).encode()

    def load(self, data):
        self.at = json.loads(data)
'''
GRID = """
loop: {name: mine.py:Walk}
goal: far > 0
"""


class Loops(Runs):
    """Runs trials of a file `mine.py`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, GRID)
        self.write()

    def write(self, advance: str = "pass", *changes: tuple[str, str]) -> None:
        text = LOOP.replace("ADVANCE", advance)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (self.folder / "mine.py").write_text(text)

    def place(self, what: str) -> str:
        """The file and the line in which a text stands first."""
        lines = (self.folder / "mine.py").read_text().splitlines()
        line = next(i for i, text in enumerate(lines, 1) if what in text)
        return f"{self.folder}/mine.py:{line}: "


@pytest.fixture
def runs(tmp_path: Path) -> Loops:
    return Loops(tmp_path)


def test_its_last_row_is_its_score(runs: Loops) -> None:
    ending = runs.run()
    rows = runs.metrics(runs.trial(), "far")
    assert [*rows] == [1, 2, 3, 4, 5]
    assert (ending["status"], ending["step"]) == ("completed", 5)
    assert (ending["far"], ending["acc"]) == (*rows[5], 0.5)
    assert (ending["total"], ending["correct"], ending["tokens"]) == (10, 5, None)
    assert (ending["task"], ending["model"]) == ("walking", "mine.py:Walk")
    assert (ending["size"], ending["L"]) == (2, None)


def test_seeds_decide_what_it_draws_from_global_generators(runs: Loops) -> None:
    scores = [runs.run(f"seeds=[{seed}]")["far"] for seed in (0, 1)]
    assert scores[0] != scores[1]
    assert runs.run()["far"] == scores[0]


@pytest.mark.parametrize("cut", [1, 4])
def test_cut_off_it_goes_on_with_the_same_numbers(runs: Loops, cut: int) -> None:
    attempt = runs.at(runs.trial(), cut)
    attempt.interrupt()
    assert attempt.status == "interrupted"
    (runs.folder / "whole").mkdir()
    whole = Loops(runs.folder / "whole")
    assert runs.run()["far"] == whole.run()["far"]
    cut_off, curve = (one.metrics(one.trial(), "acc", "far") for one in (runs, whole))
    assert cut_off == curve


def test_without_save_it_starts_again_and_says_so(runs: Loops) -> None:
    runs.write("pass", ("def save(self)", "def keep(self)"), ("def load", "def take"))
    trial = runs.trial()
    runs.at(trial, 1).interrupt()
    assert not list(runs.store.checkpoints(trial.trunk))
    assert "its loop gives no `save`; it will start again" in runs.store.read_log(trial.id)
    assert runs.run()["status"] == "completed"


def test_it_may_say_itself_when_it_has_ended(runs: Loops) -> None:
    runs.write("if self.at > 3: return None", ("    steps: int = 5\n", ""))
    ending = runs.run()
    assert ending["status"] == "completed" and ending["step"] == len(runs.metrics(runs.trial()))
    assert 0 < ending["far"] <= 3 + 3


def test_a_budget_of_seconds_ends_it_at_a_row(runs: Loops) -> None:
    ending = runs.run("stop.seconds=1e-9")
    assert (ending["status"], ending["step"]) == ("completed", 1)


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "-float('inf')"])
def test_what_is_no_finite_number_is_a_fail_that_says_where(runs: Loops, value: str) -> None:
    runs.write(f"if self.at > 2: return {{'acc': 0.1, 'far': {value}}}")
    ending = runs.run()
    assert ending["status"] == "diverged" and ending.get("far") is None
    told = f"{runs.place('def advance')}Walker.advance reported far = "
    assert ending["error"].startswith(told)


@pytest.mark.parametrize(
    ("advance", "message"),
    [
        ("return 3", "returned 3 (int); it must return a mapping of its metrics (acc, far)"),
        ("return {'acc': 1, 'far': 'x' * 10**6}", "… (str); it must be one number"),
        ("return {'acc': 1, 'far': 10**400}", "… (int); it must be one number"),
        (
            "return {'acc': 1, 'far': 1, 'total': 1e30}",
            "total = 1e+30; it lies between 0 and 9.007",
        ),
        ("return {'acc': True, 'far': 1}", "reported acc = True (bool); it must be one number"),
        ("return {'acc': 1, 'far': 1, 'total': 0.5}", "reported total = 0.5; it is a count"),
    ],
)
def test_a_wrong_row_is_an_error_that_says_where(runs: Loops, advance: str, message: str) -> None:
    runs.write(advance)
    ending = runs.run()
    assert ending["status"] == "failed"
    assert ending["error"].startswith(f"{runs.place('def advance')}Walker.advance ")
    assert message in ending["error"] and len(ending["error"]) < 300


def test_a_wrong_start_or_save_too(runs: Loops) -> None:
    """`check` sees these before, as docs/check.md says."""
    for change, place, message in (
        (("def load", "def take"), "start", "which has only one of `save()` and `load(data)`"),
        (("return json.dumps(self.at).encode()", "return self.at"), "save", "must return bytes"),
    ):
        runs.write("pass", change)
        attempt = runs.begin(runs.trial())
        if attempt.status is None:
            attempt.advance(0.0)
            attempt.interrupt()
        assert attempt.ending is not None and attempt.status == "failed"
        error = attempt.ending["error"]
        assert error.startswith(runs.place(f"def {place}")) and message in error


def test_an_exception_is_told_with_its_line(runs: Loops) -> None:
    """Also one in `load`, of a state that it has saved itself."""
    runs.write("assert self.at > 9, 'too near'")
    error = runs.run()["error"]
    assert error == f"{runs.place('assert')}AssertionError: too near"
    runs.write("pass", ("self.at = json.loads(data)", "self.at = json.loads(data)['at']"))
    runs.at(runs.trial(), 1).interrupt()
    assert runs.run()["error"].startswith(f"{runs.place('self.at = json.loads')}TypeError: ")
