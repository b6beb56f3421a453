"""Runs the cells of a notebook, as Jupyter would, and keeps what they show.

    python tests/docs/notebook.py FOLDER    # docs/notebook.ipynb, in a folder with sweepd-results

Of Jupyter's forms of output it knows those that sweepd, pandas and plain Python have: HTML, SVG and
text.
"""

import ast
import json
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"
FORMS = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_", "text/plain": "__repr__"}


def executed(notebook: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook as its cells are when they have run one after the other in a folder."""
    names: dict[str, Any] = {}
    counts = iter(range(1, len(notebook["cells"]) + 1))
    with chdir(folder):
        cells = [
            {**cell, **_outputs("".join(cell["source"]), names, next(counts))}
            if cell["cell_type"] == "code"
            else cell
            for cell in notebook["cells"]
        ]
    return {**notebook, "cells": cells}


def _outputs(source: str, names: dict[str, Any], count: int) -> dict[str, Any]:
    """Run a cell; what its last line is, if that is an expression, is its output."""
    *program, last = ast.parse(source).body
    if not isinstance(last, ast.Expr):
        program.append(last)
    exec(compile(ast.Module(program, []), "<cell>", "exec"), names)
    value = None
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    result = {
        "output_type": "execute_result",
        "metadata": {},
        "execution_count": count,
        "data": {
            form: getattr(value, method)().splitlines(keepends=True)
            for form, method in FORMS.items()
            if value is not None and hasattr(value, method)
        },
    }
    return {"execution_count": count, "outputs": [result] if result["data"] else []}


if __name__ == "__main__":
    read = json.loads(NOTEBOOK.read_text())
    written = executed(read, Path(sys.argv[1]))
    NOTEBOOK.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
