"""A user's classes before their first trial. They are refused, or inspected once for each version
of their code, whatever the store. The inspection is in a process of its own, so that such a class
cannot end the launch. Covers
`check/own_process.py`."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import wait_until

from sweepd.check import own_process
from sweepd.check.cases import Case, Finding, cases_of
from sweepd.check.own_process import inspect_new
from sweepd.errors import UserError
from sweepd.grid.spec import parse_grid
from sweepd.store.store import Store

MINE = """
import os, sys
from dataclasses import dataclass
from sweepd.tasks.lis import LIS
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Problem(LIS):
    def fill(self, rng, tokens):
        FILL
        super().fill(rng, tokens)

@dataclass(frozen=True)
class Net(Standard):
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        BUILD
        return model
"""
LEAK = "forward = model.logits; model.logits = lambda x: forward(x + x.mean(-2, keepdim=True))"
GRID = """
name: s
task: {name: mine.py:Problem, n: [4, 8]}
model: {name: mine.py:Net, d: [8, 16], heads: 2}
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(own_process, "LONG_SECONDS", 1000)  # a busy machine is not told of
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Store.create(str(tmp_path / "results"))


def inspected(
    folder: Path, store: Store, fill: str = "pass", build: str = "pass", *sets: str
) -> list[str]:
    (folder / "mine.py").write_text(MINE.replace("FILL", fill).replace("BUILD", build))
    said: list[str] = []
    inspect_new(parse_grid(GRID, "grid.yaml", sets, folder), store, said.append)
    return said


def test_what_is_right_is_inspected_once(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the current folder shadows no library."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/torch.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert inspected(tmp_path, store) == []
    assert len(list(Path(store.address, "checked").iterdir())) == 5

    def again(cases: Sequence[Case], *_: object) -> list[list[Finding]]:
        return pytest.fail("inspected again") if cases else []

    monkeypatch.setattr(own_process, "inspected", again)
    assert inspected(tmp_path, store, "pass  # a remark") == []
    assert inspected(tmp_path, store, "pass", "pass", "task.n=8", "seeds=[3]") == []
    other = Store.create(str(tmp_path / "other"))
    assert inspected(tmp_path, other) == []
    assert len(list(Path(other.address, "checked").iterdir())) == 5
    with pytest.raises(pytest.fail.Exception):
        inspected(tmp_path, store, "self.size")


def test_what_is_wrong_is_refused_and_not_remembered(tmp_path: Path, store: Store) -> None:
    for sets in ((), ("task.n=4", "model.d=8")):  # a part of it, so that it takes less
        with pytest.raises(UserError) as caught:
            inspected(tmp_path, store, "pass", LEAK, *sets)
        [fault] = str(caught.value).splitlines()
        assert fault.startswith(f"{tmp_path / 'mine.py'}:15: mine.py:Net is not causal: changing ")
    assert not Path(store.address, "checked").exists()


@pytest.mark.parametrize(
    ("fill", "told"),
    [
        ("os._exit(3)", "its process died (3)"),
        ("sys.exit(3)", "SystemExit: 3"),
        ("import time; time.sleep(99)", "it took more than 9 s; look for a loop without an end"),
    ],
)
def test_what_takes_its_process_along_is_left_to_its_trials(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch, fill: str, told: str
) -> None:
    hangs = "sleep" in fill
    if hangs:
        monkeypatch.setattr(own_process, "LONG_SECONDS", 5)
        monkeypatch.setattr(own_process, "MOST_SECONDS", 9)
    *before, last = inspected(tmp_path, store, fill, "pass", "model.name=standard")
    at = "" if "_exit" in fill else f"{tmp_path}/mine.py:10: "
    assert last == f"mine.py:Problem could not be inspected: {at}{told}; its trials will show"
    assert before == hangs * [
        f"still looking at mine.py:Problem, size 4, after 5 s: it stands at {tmp_path}/mine.py:10; "
        "at most 9 s are waited"
    ]
    assert not Path(store.address, "checked").exists()
    wait_until(lambda: not left_behind(tmp_path), 30)  # nor those that waited to be asked


def test_classes_that_come_with_sweepd_are_not_inspected(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_spawn", None)
    assert inspected(tmp_path, store, "pass", "pass", "task.name=lis", "model.name=standard") == []
    assert not Path(store.address, "checked").exists()


LEAVES = """
from dataclasses import dataclass
from sweepd.models.standard import Standard

BEFORE = []

@dataclass(frozen=True)
class Net(Standard):
    def build(self, vocab, L, capacity, generator):
        model = super().build(vocab, L, capacity, generator)
        BEFORE.append(generator.initial_seed())
        model.head.weight.data *= 1 + BEFORE[0] % 1000
        return model

@dataclass(frozen=True)
class Loop:
    n: int = 2
    task = "walking"
    size_field = "n"
    metrics = {"acc": "up"}

    def start(self, seed, device):
        BEFORE.append(seed)
        return self

    def advance(self):
        return {"acc": 1 / BEFORE[0]}
"""


def test_what_one_trial_leaves_to_the_next_is_found(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LEAVES)
    task, cases = "task: {name: lis, n: 4}", []
    net, lstm = (f"{task}\nmodel: {{name: {name}, d: 8}}" for name in ("mine.py:Net", "lstm"))
    for given in (net, "loop: {name: mine.py:Loop}", lstm):
        all_cases = cases_of(parse_grid(f"name: s\n{given}\n", "grid.yaml", [], tmp_path))
        cases += [case for case in all_cases if case.kind in ("trial", "loop")]
    of_model, of_loop, of_shipped = own_process.inspected(cases, tmp_path, print)
    for findings, what in ((of_model, "the loss of step 1 is "), (of_loop, "acc of row 1 is ")):
        *right, wrong = findings
        assert all(finding.ok for finding in right), right
        assert (wrong.check, wrong.ok, wrong.raised) == ("fresh", False, False)
        assert f"gives other numbers after other trials in its process: {what}" in wrong.detail
    [seen] = [finding for finding in of_shipped if finding.check == "fresh"]
    assert seen.detail == "after other trials it gives the same numbers as in a fresh process"


def test_a_launch_tells_of_what_trials_leave_each_time(tmp_path: Path, store: Store) -> None:
    (tmp_path / "mine.py").write_text(LEAVES)
    grid = "name: s\ntask: {name: lis, n: 4}\nmodel: {name: mine.py:Net, d: 8}\n"
    said: list[str] = []
    inspect_new(parse_grid(grid, "grid.yaml", [], tmp_path), store, said.append)
    [one] = said
    assert one.startswith(f"{tmp_path / 'mine.py'}:9: mine.py:Net gives other numbers after other ")
    assert len(list(Path(store.address, "checked").iterdir())) == 1


def left_behind(folder: Path) -> list[int]:
    """The processes that a test with this folder has started, and that are still there."""
    found, mark = [], f"XDG_CACHE_HOME={folder}/".encode()  # which they inherit
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if mark in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return [pid for pid in found if pid != os.getpid()]
