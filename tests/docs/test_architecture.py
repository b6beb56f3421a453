"""docs/architecture.md is short and true. Its floors are those of import-linter's contract, and the
files along which it leads exist."""

import re
import tomllib

import pytest
from pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROWS = re.findall(r"(?m)^\| (\d+) \| ([^|]+) \| (.+) \|$", PAGE)
"""Floor, rooms, what they are for."""
WORDS_A_PAGE = 750
"""Of a sheet of A4 in small print."""


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
    rooms = [set.union(*(quoted(names) for f, names, _ in ROWS if int(f) == n)) for n in floors]
    assert rooms == contract


@pytest.mark.parametrize("walk", ["Follow one grid point", "Follow one question"])
def test_a_walk_has_ten_steps_along_files_that_exist(walk: str) -> None:
    steps = re.findall(r"(?m)^\d+\. (.+)$", PAGE.partition(f"## {walk}\n")[2].partition("\n## ")[0])
    assert len(steps) == 10
    for step in steps:
        files = re.findall(r"`([\w/]+\.py)`", step)
        assert files, f"names no file: {step}"
        missing = [file for file in files if not (ROOT / "src" / "sweepd" / file).is_file()]
        assert not missing, f"{missing} moved: {step}"
