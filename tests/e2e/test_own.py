"""A task and a model of the user's own, as docs/own.md has them, from a file to an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell import Shell

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.fixture(scope="module")
def swept(module_shell: Shell) -> Shell:
    for path in EXAMPLES.iterdir():
        module_shell.write(path.name, path.read_text())
    short = ("--set", "train.steps=20", "--set", "task.n=[6,7]", "--set", "seeds=[0]")
    samples = ("--set", "evaluate.check_samples=32", "--set", "evaluate.verdict_samples=64")
    module_shell.run("launch", "grid.yaml", "--yes", *short, *samples, "--set", "model.d=[4,8]")
    return module_shell


def test_trials_of_both_models_end_with_their_costs(swept: Shell) -> None:
    rows = swept.sql("SELECT * FROM trials")
    assert len(rows) == 2 * 2 * 2
    for row in rows:
        assert row["task"] == "parity.py:Parity"
        assert row["status"] == "completed" and 0 <= row["acc"] <= 1
        assert row["flops"] >= row["flops_weights"] > 0 and row["params"] > 0
        assert row["state_bytes"] > 0
    assert {row["model"] for row in rows} == {"lstm.py:Lstm", "standard"}


def test_their_widths_are_asked_for(swept: Shell) -> None:
    rows = swept.rows("query", "min d where acc >= 0")
    assert {(row["model"], row["n"], row["value"]) for row in rows} == {
        (model, n, 4) for model in ("lstm.py:Lstm", "standard") for n in (6, 7)
    }
