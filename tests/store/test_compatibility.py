"""Stores that earlier versions wrote are still read as they were. These are the ones below
tests/stores/. `stores/make.py` made them, and they were never changed since."""

import json
import runpy
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sweepd.grid.fingerprint import trial_code
from sweepd.statuses import DONE
from sweepd.store.store import Store
from sweepd.store.sweeps import changed_files

STORES = Path(__file__).parents[1] / "stores"
MAKE = runpy.run_path(str(STORES / "make.py"))


def check(folder: Path) -> None:
    """What the commands print now has all that they printed then; columns may have been added."""
    expected = json.loads((folder / "expected.json").read_text())
    for then, now in zip(expected, MAKE["answers"](str(folder / "store")), strict=True):
        columns = then["rows"][0].keys()
        rows = [{name: row.get(name) for name in columns} for row in now["rows"]]
        assert ordered(rows) == ordered(then["rows"]), then["command"]


def none_left(folder: Path) -> None:
    """No sweep of a store has anything left to run, as long as our own code does what it did then;
    else the trials are accepted. The first store here is older than that promise."""
    store = Store.open(str(folder))
    models = "standard", "linear"
    codes = {trial_code([("task", "lis"), ("model", model)], Path()).digest for model in models}
    for name in store.sweeps():
        past = store.load_sweep(name).code_files
        if all("sweepd/trial/training.py" in files for files in past.values()):
            accepted = [] if past.keys() <= codes else ["--accept-code"]
            row = MAKE["planned"](folder, folder / "sweeps" / name, *accepted)
            assert (row["done"], row["to_run"]) == (row["trials"], 0), name


def ordered(rows: Iterable[dict[str, Any]]) -> list[str]:
    """ORDER BY ALL would order by added columns too."""
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in STORES.glob("*/expected.json"))
)
def test_a_store_of_an_earlier_version(name: str, tmp_path: Path) -> None:
    shutil.copy(STORES / name / "expected.json", tmp_path)
    shutil.unpack_archive(STORES / name / "store.tar.xz", tmp_path)
    check(tmp_path)
    none_left(tmp_path / "store")
    Store.create(str(tmp_path / "store")).write_trials([{"id": "ff", "attempt": 1}])


def test_the_store_of_this_version_is_complete_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "somewhere")  # and back after `make`
    MAKE["make"](tmp_path)
    check(tmp_path)
    none_left(tmp_path / "store")
    store = Store.open(str(tmp_path / "store"))
    statuses = set(store.read_trials().table["status"].to_pylist())
    assert statuses >= {"completed", "diverged", "failed", "interrupted"}
    kinds = {file.name.partition("/")[0] for file in store.folder.files()}
    assert kinds >= {"trials", "metrics", "sweeps", "launches", "checkpoints", "logs"}
    assert any(file.name.endswith(".keep.pt") for file in store.folder.files("checkpoints"))
    assert str(tmp_path) not in "".join(
        path.read_text("latin1") for path in tmp_path.rglob("*") if path.is_file()
    )


RESULTS = Path(__file__).parents[2] / "results"
SMALL = ("quickstart", "p1_block", "p1_block_16")
"""The sweeps of committed stores that take seconds to plan."""


@pytest.mark.parametrize(
    "sweep",
    [
        pytest.param(path.parent, marks=() if path.parent.name in SMALL else pytest.mark.long)
        for path in sorted(RESULTS.glob("**/sweeps/*/sweep.json"))
    ],
    ids=lambda path: path.name,
)
def test_committed_results_stay_usable(sweep: Path) -> None:
    """All that was done counts once more, although it was done when our own code counted by its
    text."""
    folder = sweep.parents[1]
    store = Store.open(str(folder))
    ended = store.read_trials().table.select(["config", "status"]).to_pylist()
    done = {row["config"] for row in ended if row["status"] in DONE}
    row = MAKE["planned"](folder, sweep, "--accept-code")
    stored = {*store.read_plans([sweep.name]).table["config"].to_pylist()}
    assert (row["done"], row["other_code"]) == (len(stored & done), 0)
    if sweep.name in SMALL:
        assert row["likely_trials"] == 0
        before = MAKE["planned"](folder, sweep)
        assert (before["done"], before["other_code"]) == (0, row["done"])


def test_changed_files_are_named() -> None:
    now = {"sweepd/tasks/lis.py": "2", "mine.py": "b"}
    past = {"sweepd/tasks/lis.py": "1", "mine.py": "b", "gone.py": "g"}
    assert changed_files(past, now) == {"sweepd/tasks/lis.py", "gone.py"}
    assert changed_files(now, now) == set()
    # Before our own code had versions, each of its files counted by its content.
    past = {"trial/training.py": "a", "tasks/lis.py": "x", "mine.py": "a"}
    assert changed_files(past, now) == {"sweepd", "mine.py"}
