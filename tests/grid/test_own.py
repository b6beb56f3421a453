"""What part of a grid is the user's own: the files that its classes run, and the defaults that have
changed since a sweep was launched."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweepd.grid.spec import Grid, parse_grid
from sweepd.grid.user_classes import changed_defaults, own_classes, own_files

NET = """
from dataclasses import dataclass
from sweepd.models.standard import Standard

@dataclass(frozen=True)
class Net(Standard):
    FIELDS
    kind: str = "a"
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def grid(folder: Path, fields: str, model: str = "name: v1.py:Net") -> Grid:
    write(folder, "v1.py", NET.replace("FIELDS", fields))
    text = f"name: s\ntask: {{name: lis, n: 6}}\nmodel: {{{model}, d: 8}}\n"
    return parse_grid(text, "grid.yaml", [], folder)


def test_files_go_by_their_path_from_the_grid(tmp_path: Path) -> None:
    write(tmp_path, "here/models/v1.py", "import beside\n" + NET.replace("FIELDS", ""))
    write(tmp_path, "here/models/beside.py", "")
    write(tmp_path, "here/models/unused.py", "")
    write(tmp_path, "lib/task.py", "from sweepd.tasks.lis import LIS\n")
    classes: list[tuple[Any, str]] = [
        ("model", "./models/v1.py:Net"),
        ("task", "../lib/task.py:LIS"),
        ("task", "lis"),
    ]
    beside, packages = own_files(classes, tmp_path / "here")
    assert beside == {
        "models/v1.py": tmp_path / "here/models/v1.py",
        "models/beside.py": tmp_path / "here/models/beside.py",
        "../lib/task.py": tmp_path / "lib/task.py",
    }
    assert packages == {}


def test_packages_go_by_their_path_from_where_they_are_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("__init__.py", "inner/__init__.py", "inner/far.py"):
        write(tmp_path, f"own_pack_a/{name}", "")
    write(tmp_path, "own_pack_a/inner/net.py", "from . import far\n" + NET.replace("FIELDS", ""))
    monkeypatch.syspath_prepend(tmp_path)
    beside, packages = own_files([("model", "own_pack_a.inner.net:Net")], tmp_path / "elsewhere")
    assert beside == {} and set(packages) == {
        f"own_pack_a/{name}"
        for name in ("__init__.py", "inner/__init__.py", "inner/far.py", "inner/net.py")
    }


def test_a_default_that_changed_is_told_as_long_as_it_is_not_used(tmp_path: Path) -> None:
    saved = own_classes(grid(tmp_path, "level: int = 1"), {})
    assert saved["task"] == {}
    assert saved["model"]["v1.py:Net"]["where"] == "v1.py:Net"
    assert saved["model"]["v1.py:Net"]["defaults"]["level"] == 1
    assert list(changed_defaults(grid(tmp_path, "level: int = 1"), saved)) == []

    frozen = grid(tmp_path, "level: int = 2", "name: v1.py:Net, level: 1")  # as `resume` reads it
    told = (
        "v1.py:Net: the default of level was 1 when the sweep was launched and is 2 now; used is 1"
    )
    assert list(changed_defaults(frozen, saved)) == [told]
    saved_again = own_classes(frozen, saved)
    assert list(changed_defaults(frozen, saved_again)) == [told], "at every resume"

    launched = grid(tmp_path, "level: int = 2")
    assert list(changed_defaults(launched, saved)) == [told.replace("used is 1", "used is 2")]
    assert list(changed_defaults(launched, own_classes(launched, saved))) == []


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            "level: int = 1; more: float = 0.5",
            "more did not exist when the sweep was launched and ",
        ),
        ("more: int = 1", "the field level, whose default was 1, is gone"),
        ("level: bool = True", "level was 1 when the sweep was launched and is True now; used is"),
        ("level: int = 1; d: int = 4", "the default of d did not exist"),
    ],
)
def test_fields_that_came_and_went(tmp_path: Path, fields: str, told: str) -> None:
    saved = own_classes(grid(tmp_path, "level: int = 1"), {})
    lines = list(changed_defaults(grid(tmp_path, fields), saved))
    assert any(told in line for line in lines), lines


def test_classes_of_ours_and_new_ones_have_no_past(tmp_path: Path) -> None:
    saved = own_classes(grid(tmp_path, "", "name: standard"), {})
    assert saved == {"task": {}, "model": {}, "loop": {}}
    assert list(changed_defaults(grid(tmp_path, "level: int = 1"), saved)) == []


@given(st.dictionaries(st.sampled_from("uvw"), st.integers(-2, 2)), st.data())
@settings(max_examples=20)
def test_what_is_told_is_what_differs(
    tmp_path_factory: pytest.TempPathFactory, then: dict[str, int], data: st.DataObject
) -> None:
    """A launch that writes no field is told of each default that came, went or changed, and of no
    other."""
    now = data.draw(st.dictionaries(st.sampled_from("uvw"), st.integers(-2, 2)))
    folder = tmp_path_factory.mktemp("own")

    def of(defaults: dict[str, int]) -> Grid:
        return grid(folder, "; ".join(f"{name}: int = {v}" for name, v in defaults.items()))

    saved = own_classes(of(then), {})
    told = list(changed_defaults(of(now), saved))
    differing = {n for n in then.keys() | now.keys() if then.get(n) != now.get(n)}
    assert len(told) == len(differing)
    assert all(
        any(f" {name} " in f"{line} ".replace(",", " ") for line in told) for name in differing
    )
