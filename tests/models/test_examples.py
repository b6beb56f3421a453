"""The docstring of each model names its source and the flow of shapes, from (B, T, d) to (B, T,
d)."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from sweepd.grid.registry import find_model, shipped_models


@pytest.mark.parametrize("name", [model.name for model in shipped_models()])
def test_docstrings_tell_source_and_shapes(name: str) -> None:
    docstring = inspect.getdoc(find_model(name, Path())) or ""
    assert "\nSource: " in docstring
    _, _, flow = docstring.partition("\nExamples:\n")
    flow = " ".join(flow.split())
    assert flow.startswith("x (B, T, d) → ") and flow.endswith("→ (B, T, d)")
