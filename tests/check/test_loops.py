"""What is wrong with a user's loop that its trials would not show. It is found before the first of
them, and is told with its line. A loop that is right passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweepd.check.cases import Finding, cases_of
from sweepd.check.inspection import inspect
from sweepd.grid.spec import parse_grid

LOOP = """
import json, random, time
from dataclasses import dataclass

@dataclass(frozen=True)
class Mine:
    n: int = 2
    task, size_field, metrics = "t", "n", {"acc": "up"}

    def start(self, seed, device):
        return Run(seed)

class Run:
    def __init__(self, seed):
        self.random, self.at = random.Random(SEED), 0.0

    def advance(self):
        self.at += self.random.random() / 10
        return ROW

    def save(self):
        return json.dumps(SAVED).encode()

    def load(self, data):
        self.at, state = json.loads(data)
        self.random.setstate((state[0], tuple(state[1]), state[2]))
"""
RIGHT = {"SEED": "seed", "ROW": "{'acc': self.at}", "SAVED": "[self.at, self.random.getstate()]"}


def faults(folder: Path, **changes: str) -> list[Finding]:
    return [finding for finding in findings(folder, **changes) if not finding.ok]


def findings(folder: Path, **changes: str) -> list[Finding]:
    text = LOOP
    for name, value in {**RIGHT, **changes}.items():
        text = text.replace(name, value)
    (folder / "mine.py").write_text(text)
    grid = parse_grid("loop: {name: mine.py:Mine}", "grid.yaml", [], folder)
    [case] = cases_of(grid)
    return list(inspect(case, folder))


def test_what_is_right_passes(tmp_path: Path) -> None:
    assert faults(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "line", "message"),
    [
        ({"SEED": ""}, 10, "gives other numbers for the same seed: acc 0.0"),
        ({"ROW": "{'acc': time.time() % 1}"}, 10, "report nothing that depends on time"),
        ({"SAVED": "[0, self.random.getstate()]"}, 24, "goes on with other numbers than"),
        ({"SAVED": "[self.at, random.Random(7).getstate()]"}, 24, "goes on with other"),
        ({"ROW": "{'f1': 1.0}"}, 17, "Run.advance reported 'f1' (str), which its `metrics` do not"),
    ],
)
def test_a_mistake_is_found(
    tmp_path: Path, changes: dict[str, str], line: int, message: str
) -> None:
    [fault] = faults(tmp_path, **changes)
    assert fault.place == f"{tmp_path}/mine.py:{line}" and not fault.raised
    assert message in fault.detail


@pytest.mark.parametrize(("used", "remark"), [("seed", False), ("7", True)])
def test_a_seed_that_changes_nothing_is_remarked_on(
    tmp_path: Path, used: str, remark: bool
) -> None:
    [found] = [finding for finding in findings(tmp_path, SEED=used) if finding.check == "seed"]
    assert found.ok and ("is `seed` used?" in found.detail) == remark


def test_what_raises_is_left_to_its_trials(tmp_path: Path) -> None:
    [fault] = faults(tmp_path, ROW="1 / 0")
    assert fault.raised and "ZeroDivisionError" in fault.detail


def test_a_loop_that_ends_early_and_one_without_save_pass(tmp_path: Path) -> None:
    assert faults(tmp_path, ROW="{'acc': self.at} if self.at < 0.1 else None") == []
    text = (tmp_path / "mine.py").read_text()
    assert "def save" in text
    assert faults(tmp_path, **{"def save": "def keep", "def load": "def take"}) == []


def test_the_first_row_of_a_slow_loop_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweepd.check.training.MOST_SECONDS", -1)
    assert faults(tmp_path) == []
    [fault] = faults(tmp_path, ROW="{'acc': float('nan')}")
    assert "reported acc = nan at step 1" in fault.detail
