"""What `sweepd show` tells of a trial: its settings, its whole curve, its code as it ran, what
differs from another trial, and a grid that gives the very same trial. Covers `cli/show.py`."""

import json
from pathlib import Path

import pytest
from faults import ran
from inprocess import sweepd

from sweepd.cli.show import WIDTH, sparkline
from sweepd.errors import UserError
from sweepd.grid.plan import Plan, plan
from sweepd.grid.spec import load_grid, parse_grid
from sweepd.grid.trials import Trial
from sweepd.run import driver
from sweepd.store.store import Store
from sweepd.trial.record import TrialRecord, changed_code, changed_settings, record_of, write_out

NET = """
from dataclasses import dataclass
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Net(Standard):
    level: float = 1
"""
GRID = """
name: s
task: {name: lis, n: [2, 3], value_range: 16}
model:
  - {name: v1.py:Net, as: mine, d: [8, 16], layers: 1, heads: 2, level: 0.5}
  - {name: standard, d: 8, layers: 1, heads: 1}
train: {steps: [20, 40], batch_size: 4, warmup: 5, decay: 0.5, lr: [{base: 1e-3}, 5e-3]}
evaluate: {check_every: 10, check_samples: 8, verdict_samples: 16}
stop: {success: 1.0, flops: [null, 1e9]}
seeds: [0, 1]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A grid with a model of the user's beside it."""
    (tmp_path / "v1.py").write_text(NET)
    (tmp_path / "grid.yaml").write_text(GRID)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Store:
    return Store.create(str(folder / "results"))


def saved(folder: Path, store: Store) -> Plan:
    """The plan, saved as a launch does."""
    made = plan(load_grid(folder / "grid.yaml"))
    driver._save(made, store)
    command = ["/bin/sweepd", "launch", "grid.yaml", "--yes"]
    store.new_launch({"sweep": "s", "host": "h", "pid": 1, "command": command})
    return made


def trained(folder: Path, store: Store, trial: Trial, number: int = 1000) -> TrialRecord:
    ran(store, trial, number, folder)
    return record_of(store, trial.id)


def repeated(record: TrialRecord, folder: Path) -> list[str]:
    """The ids of the trials of the grid that a record has."""
    return [trial.id for trial in plan(parse_grid(record.grid, "grid.yaml", [], folder)).trials]


def test_its_grid_gives_the_same_trial(folder: Path, store: Store) -> None:
    """It does so for every point of the grid, also if the grid has changed since."""
    made = saved(folder, store)
    assert len(made.trials) == 2 * 3 * 4 * 2 * 2
    (folder / "grid.yaml").write_text(GRID.replace("0.5", "0.25").replace("[2, 3]", "7"))
    for trial in made.trials[::7]:
        record = record_of(store, trial.id)
        assert record.status == "untried" and not record.changed
        assert repeated(record, folder) == [trial.id]


def test_what_is_written_out_gives_the_same_trial(folder: Path, store: Store) -> None:
    """It is written out from the store alone."""
    made = saved(folder, store)
    [trial] = [t for t in made.trials if t.model_name == "mine"][:1]
    for path in ("v1.py", "grid.yaml"):
        (folder / path).unlink()
    record = record_of(store, trial.id)
    assert record.changed == ("its files are gone",)
    write_out(record, folder / "again")
    assert [t.id for t in plan(load_grid(folder / "again/grid.yaml")).trials] == [trial.id]
    with pytest.raises(UserError, match="again is not empty: name a new folder"):
        write_out(record, folder / "again")


def test_settings_and_the_whole_curve(folder: Path, store: Store) -> None:
    """The trial continues another one, so the parent's steps come first. A damaged store may name a
    trial as its own forebear."""
    trials = [t for t in saved(folder, store).trials if t.model_name == "mine" and t.seed == 1]
    short = next(trial for trial in trials if trial.train.steps == 20)
    long = next(t for t in trials if t.trunk == short.trunk and t.train.steps == 40)
    trained(folder, store, short)
    record = trained(folder, store, long, 2000)
    assert record.outcome["parent"] == short.id and record.status == "completed"
    assert [row["step"] for row in record.curve] == [10, 20, 30, 40]
    assert [row["id"] for row in record.curve] == [short.id, *[long.id] * 3]
    assert [row["step"] for row in record.checks()] == [10, 20, 30, 40]
    assert record.settings["model"] == {"name": "v1.py:Net", "as": "mine", **long.values.model}
    assert record.settings["task"] == {"name": "lis", **long.values.task}
    assert record.settings["train"]["steps"] == 40 and record.seed == 1
    assert record.sources == {"v1.py": NET}
    assert list(changed_settings(record, record_of(store, short.id))) == [
        ("train", "steps", 40, 20)
    ]
    assert not list(changed_code(record, record_of(store, short.id)))
    loop = {"attempt": 3000, "sweep": "s", "parent": long.id}
    store.write_trials([{**record.outcome, **short.row(), **loop}])
    assert [row["step"] for row in record_of(store, short.id).curve] == [10, 20]


def test_what_differs_in_the_code(folder: Path, store: Store) -> None:
    mine = [trial for trial in saved(folder, store).trials if trial.model_name == "mine"]
    first = mine[0]
    other = next(trial for trial in mine if type(trial.axes["lr"]) is not type(first.axes["lr"]))
    before = record_of(store, first.id)
    for trial in (first, other):  # the rate is a number, and a rule
        trained(folder, store, trial)
    (folder / "v1.py").write_text(NET + "    more: int = 3\n")
    now = next(t for t in plan(load_grid(folder / "grid.yaml")).trials if t.model_name == "mine")
    assert now.id != first.id
    later = saved(folder, store)
    after = record_of(store, next(t.id for t in later.trials if t.model_name == "mine"))
    lines = list(changed_code(after, before))
    assert lines[:2] == [f"--- {before.id[:8]} v1.py", f"+++ {after.id[:8]} v1.py"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["+    more: int = 3"]
    again = record_of(store, first.id)  # which no sweep plans any more
    assert (again.settings, again.sources) == (before.settings, before.sources)
    assert again.changed == ("v1.py",) and again.status == "completed"
    (folder / "v1.py").write_text(NET)
    assert repeated(again, folder) == [first.id]


def test_the_command_line(folder: Path, store: Store) -> None:
    trials = [t for t in saved(folder, store).trials if t.model_name == "mine"]
    one, other = trials[0].id, trials[-1].id
    trained(folder, store, trials[0])
    shown = sweepd("show", one[:12], "--results", store.address)
    assert shown.code == 0 and "class Net(Standard):" in shown.out and "▁" in shown.out
    rows = json.loads(sweepd("show", one, "--json", "--results", store.address).out)
    assert {"part": "model", "name": "as", "value": "mine", "against": None} in rows
    [repeat] = [row["value"] for row in rows if row["part"] == "command"]
    assert repeat in shown.out and f"sweepd show {one[:8]} --results {store.address}" in repeat
    difference = sweepd("show", one, "--against", other, "--results", store.address)
    assert difference.code == 0 and "the code is the same" in difference.out
    assert sweepd("show", "zz", "--results", store.address).code == 2


def test_a_sparkline_goes_from_low_to_high() -> None:
    assert sparkline([0.0, 1.0, 2.0]) == "▁▅█"
    assert sparkline([1.0]) == "▁"
    line = sparkline([float(i) for i in range(1000)])
    assert len(line) == WIDTH and list(line) == sorted(line)
