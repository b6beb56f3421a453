"""What `sample`, `flops` and `plan` say when a user's class raises an error: what was raised, and
in which line. `sample --csv` is a table of what `sample --json` prints."""

import csv
import json
from pathlib import Path

import pytest
from inprocess import Answer, sweepd

MINE = """\
from dataclasses import dataclass
from sweepd.tasks.lis import LIS

@dataclass(frozen=True)
class Bad(LIS):
    k: int = 0

    def __post_init__(self):
        if self.k == 1:
            return {}["key"]
        if self.k == 2:
            raise ValueError("k = 2: is not allowed")

    def sample(self, rng, count, split):
        return [0][1]

@dataclass(frozen=True)
class Silent(LIS):
    def examples(self, rng, count, split):
        return iter(())
"""


def run(command: str, exits: int = 0) -> Answer:
    return sweepd(*command.split(), exits=exits)


@pytest.fixture(autouse=True)
def written(folder: Path) -> None:
    (folder / "mine.py").write_text(MINE)
    for k in (1, 2):
        grid = f"task: {{name: 'mine.py:Bad', k: {k}}}\nmodel: {{name: standard, d: 8}}\n"
        (folder / f"grid{k}.yaml").write_text(grid)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("sample mine.py:Bad", "mine.py:Bad: {}:15: IndexError: list index out of range"),
        ("sample mine.py:Bad --set k=1", "mine.py:Bad: {}:10: KeyError: 'key'"),
        ("flops standard --task mine.py:Bad --set k=1 --set d=8", "{}:10: KeyError: 'key'"),
        ("plan grid1.yaml", "grid1.yaml:1: task: {}:10: KeyError: 'key'"),
        ("plan grid2.yaml", "grid2.yaml:1: task.k: k = 2: is not allowed"),
        ("sample lis --set n=0", "lis: n = 0: must be from 1 to"),
    ],
)
def test_a_class_that_raises_is_named_with_file_and_line(
    folder: Path, command: str, told: str
) -> None:
    assert told.format(folder / "mine.py") in run(command, exits=2).err


def test_a_gpu_that_is_not_there_is_refused_in_the_plan(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    grid = "task: {name: lis}\nmodel: {name: standard, d: 8}\nresources: {gpus: %s}\n"
    (folder / "one.yaml").write_text(grid % 1)
    (folder / "two.yaml").write_text(grid % 2)
    run("plan one.yaml")
    refused = run("plan two.yaml", exits=3).err
    assert "2 GPUs" in refused and "`resources`" in refused


def test_samples_as_csv_are_those_of_json() -> None:
    drawn = [json.loads(line) for line in run("sample lis --json").out.splitlines()]
    rows = list(csv.DictReader(run("sample lis --csv").out.splitlines()))
    told = [
        {n: " ".join(v) if isinstance(v, list) else str(v) for n, v in one.items()} for one in drawn
    ]
    assert len(rows) == 5 and rows == told
    assert run("sample mine.py:Silent --csv").out.strip() == ",".join(rows[0])


@pytest.mark.parametrize("words", ["--seed 9999999999999999999", "--count 999999999", "--count 0"])
def test_numbers_that_are_too_large_are_refused(words: str) -> None:
    assert words.split()[1] in run(f"sample lis --set n=8 {words}", exits=2).err


@pytest.mark.parametrize(
    "command",
    ["sample loud.py:Loud", "plan loud.yaml", "flops standard --task loud.py:Loud --set d=8"],
)
def test_what_a_file_prints_while_it_is_imported_is_no_data(folder: Path, command: str) -> None:
    loud = MINE.replace("Bad", "Loud").replace("def sample", "def unused") + "print('loaded')\n"
    (folder / "loud.py").write_text(loud)
    (folder / "loud.yaml").write_text("task: {name: 'loud.py:Loud'}\nmodel: {name: linear, d: 8}\n")
    answer = run(f"{command} --json")
    assert "loaded" in answer.err
    for line in answer.out.splitlines() if command.startswith("sample") else [answer.out]:
        json.loads(line)
