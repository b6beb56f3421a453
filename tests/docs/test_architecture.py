"""docs/architecture.md is short and true. Its floors are those of import-linter's contract, and it
names every module of the packages that it describes module by module. Besides, the tests of each
module are easy to find: they are in a file of its name, or a test file's docstring names it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROWS = re.findall(r"(?m)^\| (\d+) \| ([^|]+) \| (.+) \|$", PAGE)
"""Floor, rooms, what they are for."""
WORDS_A_PAGE = 750
"""Of a sheet of A4 in small print."""
WHOLE = ("cli", "cluster")
"""Rooms with a file for each group of commands, or for each kind of cluster."""
SOURCE, TESTS = ROOT / "src" / "sweepd", ROOT / "tests"
COVERS = re.compile(r"\bCovers ((?:`[^`]+`(?:, and |, | and )?)+)\.")
"""The sentence of a test file's docstring that names the modules that the file covers."""


def quoted(text: str) -> set[str]:
    return set(re.findall(r"`([\w.]+)`", text))


def test_it_fits_two_pages() -> None:
    assert len(PAGE.splitlines()) <= 110 and len(PAGE.split()) <= 2 * WORDS_A_PAGE


def test_its_floors_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [layers] = [c["layers"] for c in contracts["contracts"] if c["type"] == "layers"]
    contract = [set(layer.split(" | ")) for layer in layers if layer != "__main__"]
    floors = sorted({int(floor) for floor, _, _ in ROWS}, reverse=True)
    assert floors == list(range(len(contract), 0, -1))
    told = [set.union(*(quoted(rooms) for f, rooms, _ in ROWS if int(f) == n)) for n in floors]
    assert told == contract


def test_it_names_every_module() -> None:
    for _, rooms, purpose in ROWS:
        for room in quoted(rooms) - {*WHOLE, "tasks", "models"}:
            folder = ROOT / "src" / "sweepd" / room
            modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
            assert modules <= quoted(purpose), f"{room}: {sorted(modules - quoted(purpose))}"


def modules() -> list[Path]:
    """The modules of sweepd, relative to its folder. Tasks and models are links to other folders,
    and have their tests in tests/tasks and tests/models."""
    links = {path.name for path in SOURCE.iterdir() if path.is_symlink()}
    found = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")]
    return [path for path in found if path.parts[0] not in links and path.stem != "__init__"]


def covered(test: Path) -> list[str]:
    """The modules that the opening docstring of a test file says it covers."""
    text = " ".join((ast.get_docstring(ast.parse(test.read_text())) or "").split())
    return [name for names in COVERS.findall(text) for name in re.findall("`(.+?)`", names)]


def test_the_tests_of_each_module_are_easy_to_find() -> None:
    told = {name for test in TESTS.rglob("test_*.py") for name in covered(test)}
    for path in modules():
        test = TESTS / path.with_name(f"test_{path.name}")
        assert test.exists() or str(path) in told, (
            f"src/sweepd/{path}: nobody finds its tests; write {test.relative_to(ROOT)}, or add "
            f"'Covers `{path}`.' to the docstring at the top of the test file that tests it"
        )


def test_what_a_test_file_says_it_covers_exists() -> None:
    there = {str(path) for path in modules()}
    for test in TESTS.rglob("test_*.py"):
        gone = set(covered(test)) - there
        assert not gone, (
            f"{test.relative_to(ROOT)}: its docstring says that it covers {sorted(gone)}, which is "
            "no module of src/sweepd; write the path that the module has now"
        )
