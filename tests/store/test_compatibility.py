"""Stores that earlier versions wrote are still read as they were. These are the ones below
tests/stores/. `stores/make.py` made them, and they were never changed since."""

import json
import runpy
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sweepd.store.store import Store

STORES = Path(__file__).parents[1] / "stores"
MAKE = runpy.run_path(str(STORES / "make.py"))


def check(folder: Path) -> None:
    """What the commands print now has all that they printed then; columns may have been added."""
    expected = json.loads((folder / "expected.json").read_text())
    for then, now in zip(expected, MAKE["answers"](str(folder / "store")), strict=True):
        columns = then["rows"][0].keys()
        rows = [{name: row.get(name) for name in columns} for row in now["rows"]]
        assert ordered(rows) == ordered(then["rows"]), then["command"]


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
    Store.create(str(tmp_path / "store")).write_trials([{"id": "ff", "attempt": 1}])


def test_the_store_of_this_version_is_complete_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "somewhere")  # and back after `make`
    MAKE["make"](tmp_path)
    check(tmp_path)
    store = Store.open(str(tmp_path / "store"))
    statuses = set(store.read_trials().table["status"].to_pylist())
    assert statuses >= {"completed", "diverged", "failed", "interrupted"}
    kinds = {file.name.partition("/")[0] for file in store.folder.files()}
    assert kinds >= {"trials", "metrics", "sweeps", "launches", "checkpoints", "logs"}
    assert any(file.name.endswith(".keep.pt") for file in store.folder.files("checkpoints"))
    assert str(tmp_path) not in "".join(
        path.read_text("latin1") for path in tmp_path.rglob("*") if path.is_file()
    )
