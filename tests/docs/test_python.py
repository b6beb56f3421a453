"""The Python that pages and the notebook show runs, against a small real store."""

from __future__ import annotations

import json
from typing import Any

import pytest
from docs.conftest import Place
from pages import MANUAL, ROOT, blocks, name

LAUNCHES = "sweepd.launch("
"""tests/e2e/test_python.py launches."""
SHOWN = {
    name(page): [
        code
        for block in blocks(page)
        if block.language == "python" and "import sweepd" in page.read_text()
        if LAUNCHES not in (code := "\n".join(block.lines))
    ]
    for page in MANUAL
}
NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))


def run(programs: list[str], place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run pieces of a program one after the other, in the place's folder."""
    monkeypatch.chdir(place.folder)
    names: dict[str, Any] = {}
    for program in programs:
        exec(compile(program, "<page>", "exec"), names)


@pytest.mark.parametrize("page", [page for page, programs in SHOWN.items() if programs])
def test_pages(page: str, docs_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run(SHOWN[page], docs_place, monkeypatch)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks(notebook: Any, docs_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    run(["".join(c["source"]) for c in cells if c["cell_type"] == "code"], docs_place, monkeypatch)
