"""The Python code in pages, docstrings and the notebook runs on a small real store. The notebook
holds its outputs. They are small, and have the same forms as those of a fresh run."""

import doctest
import json
from types import ModuleType
from typing import Any

import pytest
from docs.conftest import Place
from docs.notebook import NOTEBOOK, executed
from pages import MANUAL, blocks, name

import sweepd
from sweepd import api, tabular

LAUNCHES = "sweepd.launch("
"""tests/e2e/test_main_job.py launches."""
SHOWN = {
    name(page): [
        code
        for block in blocks(page)
        if block.language == "python" and "import sweepd" in page.read_text()
        if LAUNCHES not in (code := "\n".join(block.lines))
    ]
    for page in MANUAL
}
MOST_BYTES = 300_000


@pytest.mark.parametrize("page", [page for page, programs in SHOWN.items() if programs])
def test_pages(page: str, docs_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docs_place.folder)
    names: dict[str, Any] = {}
    for program in SHOWN[page]:
        exec(compile(program, page, "exec"), names)


@pytest.mark.parametrize("module", [sweepd, api, tabular], ids=lambda module: module.__name__)
def test_docstrings(module: ModuleType, docs_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(docs_place.folder)
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert done.attempted and not done.failed


def test_the_notebook(docs_place: Place) -> None:
    kept = json.loads(NOTEBOOK.read_text())
    assert NOTEBOOK.stat().st_size < MOST_BYTES
    assert forms(executed(kept, docs_place.folder)) == forms(kept)


def forms(notebook: dict[str, Any]) -> list[list[str]]:
    """Of each cell of code: the forms of its output, of which there is one."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [sorted(output["data"]) for cell in cells for output in cell["outputs"]]
