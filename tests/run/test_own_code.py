"""The user's code in the store. A launch keeps it there, once. Where the original is gone, the code
is put back from the store."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sweepd.errors import EnvironmentFailure, UserError
from sweepd.grid import plan as planning
from sweepd.grid import registry, user_files
from sweepd.grid.plan import Plan
from sweepd.grid.spec import parse_grid
from sweepd.provenance import home
from sweepd.run import driver
from sweepd.run.own_code import MOST_BYTES, as_launched, folder_of, launch_copy
from sweepd.store.store import Store

NET = """
from dataclasses import dataclass
from sweepd.models.standard import Standard
import beside_own_code

@dataclass(frozen=True)
class Net(Standard):
    level: int = beside_own_code.LEVEL
"""
GRID = """
name: s
task: {name: ../lib/task.py:LIS, n: 4}
model: {name: [v1.py:Net, own_pack_b.net:Net], d: 8, heads: 2}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a grid with code beside it, above it and in a package."""
    for name, text in {
        "a/grid/v1.py": NET,
        "a/grid/beside_own_code.py": "LEVEL = 3\n",
        "a/lib/task.py": "from sweepd.tasks.lis import LIS\n",
        "a/path/own_pack_b/__init__.py": "",
        "a/path/own_pack_b/net.py": NET.replace("import beside_own_code", "").replace(
            "beside_own_code.LEVEL", "4"
        ),
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "a/path")
    yield tmp_path / "a/grid"
    forget_imports()


def forget_imports() -> None:
    """As in a new process."""
    for name in [name for name in sys.modules if name.startswith(("own_pack_b", "beside_own"))]:
        del sys.modules[name]
    user_files._beside.clear()


def planned(folder: Path, text: str = GRID) -> Plan:
    return planning.plan(parse_grid(text, "grid.yaml", [], folder))


def kept(store: Store) -> list[str]:
    return sorted(path.name for path in Path(store.address, "code").iterdir())


def test_files_are_kept_once_and_by_content(folder: Path, store: Store) -> None:
    found = planned(folder)
    driver._save(found, store)
    driver._save(found, store)
    info = store.load_sweep("s")
    assert set(info.sources) == {trial.code for trial in found.trials}
    beside: set[str] = set()
    packages: set[str] = set()
    for files in info.sources.values():
        beside |= files["beside"].keys()
        packages |= files["packages"].keys()
    assert beside == {"v1.py", "beside_own_code.py", "../lib/task.py"}
    assert packages == {"own_pack_b/__init__.py", "own_pack_b/net.py"}
    assert len(kept(store)) == 5
    first = next(iter(info.sources.values()))
    task = (folder.parent / "lib/task.py").read_bytes()
    assert store.read_source(first["beside"]["../lib/task.py"]) == task
    with folder_of("s", info, store, pytest.fail) as base:
        assert base == folder, "it is there, and is used"


def test_what_sweepd_brings_is_not_kept(folder: Path, store: Store) -> None:
    grid = "name: s\ntask: {name: lis, n: 4}\nmodel: {name: standard, d: 8}\n"
    driver._save(planned(folder, grid), store)
    assert store.load_sweep("s").sources == {} and not Path(store.address, "code").exists()


def test_a_copied_store_goes_on(folder: Path, store: Store, tmp_path: Path) -> None:
    """The copied store goes on with the very same trials, though nothing but the store is left."""
    before = planned(folder)
    driver._save(before, store)
    store.new_launch({"sweep": "s", "host": "h", "pid": 1, "commit": "abc", "diff": ""})
    shutil.rmtree(folder.parent)
    sys.path.remove(str(folder.parent / "path"))
    forget_imports()
    copied = Store.open(str(shutil.copytree(store.address, tmp_path / "b")))
    info, path = copied.load_sweep("s"), list(sys.path)
    said: list[str] = []
    with folder_of("s", info, copied, said.append) as base:
        grid = parse_grid(copied.load_grid("s"), "grid.yaml", [], base)
        again = planning.plan(grid)
        assert [trial.id for trial in again.trials] == [trial.id for trial in before.trials]
        assert home(base) == str(folder)
        assert json.loads((base / "sweepd-origin.json").read_text())["commit"] == "abc"
        driver._save(again, copied)
    assert not base.exists() and sys.path == path
    [told] = said
    assert told.startswith(f"{folder} lacks ../lib/task.py:LIS: going on with the code that")
    assert copied.load_sweep("s").sources == info.sources
    assert copied.load_sweep("s").base == str(folder)


def test_the_latest_code_is_put_back(folder: Path, store: Store) -> None:
    """This also holds if an edit was taken back."""
    grid = "name: s\ntask: {name: lis, n: 4}\nmodel: {name: v1.py:Net, d: 8, heads: 2}\n"
    for mark in ("A = 1", "A = 2", "A = 1"):
        (folder / "v1.py").write_text(f"{NET}\n{mark}\n")
        driver._save(planned(folder, grid), store)
    assert len(store.load_sweep("s").sources) == 2
    shutil.rmtree(folder.parent)
    with folder_of("s", store.load_sweep("s"), store, lambda line: None) as base:
        assert (base / "v1.py").read_text().endswith("A = 1\n")


def test_a_file_that_is_too_large_or_changed_meanwhile(folder: Path, store: Store) -> None:
    found = planned(folder)
    (folder / "v1.py").write_text(f"{NET}\nA = 1\n")
    with pytest.raises(UserError, match=r"v1.py:Net was changed meanwhile; launch again"):
        driver._save(found, store)
    (folder / "beside_own_code.py").write_text(f"LEVEL = 3\nDATA = '{'x' * MOST_BYTES}'\n")
    with pytest.raises(UserError, match=r"own_code.py: 1,048,.* bytes are too many for code"):
        driver._save(planned(folder), store)
    assert store.sweeps() == []


@pytest.mark.parametrize("edit", ["changed", "gone", "helper"])
def test_a_worker_runs_the_code_of_the_launch(
    folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch, edit: str
) -> None:
    """It does so whatever happens to the files, before it starts and while it runs."""
    monkeypatch.setattr(registry, "_held", {})
    made = planned(folder)
    driver._save(made, store)
    (folder / "data.csv").write_text("7")
    path = folder / ("beside_own_code.py" if edit == "helper" else "v1.py")
    right = path.read_text()

    def worker() -> tuple[Path, str | None]:
        forget_imports()
        registry._held.clear()
        every = {trial.classes for trial in made.trials}
        return as_launched("s", every, folder, made.codes, store, stack)

    def spoil() -> None:
        if edit == "gone":
            path.unlink()
        else:
            path.write_text("1 / 0\n")

    def level(base: Path) -> Any:
        return registry.find("model", "v1.py:Net", base)(d=8).level

    with ExitStack() as stack:
        base, note = worker()
        assert base == folder and note is None
        spoil()
        assert level(base) == 3, "loaded before the edit"
        base, note = worker()
        assert base != folder and note is not None and "was changed since the launch" in note
        assert level(base) == 3, "put back from the store"
        assert (base / "data.csv").read_text() == "7", "data lie where they were"
        path.write_text(f"# A remark.\n{right}")
        base, note = worker()
        assert base == folder and note is None and level(base) == 3


def test_programs_run_the_code_of_the_launch_beside_the_data(folder: Path, store: Store) -> None:
    (folder / "code").mkdir()
    (folder / "code/train.py").write_text("open('data.csv')")
    (folder / "data.csv").write_text("7")
    made = planned(
        folder,
        "name: s\nloop: {program: python code/train.py, as: mine, task: t, metrics: {acc: up}}\n",
    )
    driver._save(made, store)
    (folder / "code/train.py").write_text("1 / 0")
    copy = launch_copy("s", folder, made.codes, store, 1)
    base = Path(f"{copy.tree}{os.path.realpath(folder)}")
    assert (base / "data.csv").read_text() == "7"
    assert (base / "code/train.py").read_text() == "open('data.csv')"
    copy.close()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ("gone", "is missing"),
        ("changed", "is damaged"),
        ("moved", r"\.\./\.\./evil.py lies outside"),
    ],
)
def test_kept_code_that_cannot_be_put_back(
    folder: Path, store: Store, damage: str, told: str
) -> None:
    """Whoever sent the store may have changed the paths in it."""
    driver._save(planned(folder), store)
    shutil.rmtree(folder.parent)
    for path in Path(store.address, "code").iterdir() if damage != "moved" else ():
        path.unlink()
        if damage == "changed":
            path.write_text(damage)
    saved = Path(store.address, "sweeps/s/sweep.json")
    if damage == "moved":
        content = json.loads(saved.read_text().replace('"own_pack_b/net.py"', '"../../evil.py"'))
        del content["sweepd.digest"]  # as files of earlier versions have none
        saved.write_text(json.dumps(content))
    with (
        pytest.raises(EnvironmentFailure, match=told),
        folder_of("s", Store.open(store.address).load_sweep("s"), store, lambda line: None),
    ):
        pass
