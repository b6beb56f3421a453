"""docs/architecture.md is short and true. Its floors are those of import-linter's contract."""

from __future__ import annotations

import re
import tomllib

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
    told = [set.union(*(quoted(rooms) for f, rooms, _ in ROWS if int(f) == n)) for n in floors]
    assert told == contract
