"""Tasks without chains, by the command line: a goal on the loss, real numbers as inputs and
targets, and samples of rows."""

from __future__ import annotations

import json

import pytest
from shell import ONE_AT_A_TIME, SharedShell

GRID = f"""
name: memory
task:
  - {{name: fixed_memory, memories: 1, longest: 4, values: [tokens, reals], length: 12}}
  - {{name: adaptive_memory, longest: 8, length: 12}}
  - {{name: sparse_memory, length: 12}}
model: {{name: standard, d: [4, 8], layers: 1, heads: 2}}
train: {{steps: 20, batch_size: 16}}
evaluate: {{check_every: 10, check_samples: 32, verdict_samples: 64}}
goal:  loss < 1.5
lengths: [1.5]
resources: {ONE_AT_A_TIME}
"""


@pytest.fixture(scope="module")
def swept(module_shell: SharedShell) -> SharedShell:
    module_shell.write("grid.yaml", GRID)
    module_shell.run("launch", "grid.yaml", "--yes")
    return module_shell


def test_ids_have_an_accuracy_and_real_numbers_a_loss_alone(swept: SharedShell) -> None:
    rows = swept.sql("SELECT * FROM trials")
    assert len(rows) == 8
    for row in rows:
        assert row["status"] == "completed" and row["loss"] > 0 and row["L"] == 12
        assert row["chain_acc"] is row["chain_correct"] is None
        if row["task"] == "sparse_memory" or row["values"] == "reals":
            assert row["acc"] is row["correct"] is None
        else:
            assert row["acc"] == row["correct"] / row["total"]
    [checks] = swept.sql("SELECT count(acc) AS checks FROM metrics")
    assert checks == {"checks": 4 * 2}


def test_a_loss_decides(swept: SharedShell) -> None:
    losses = {
        (row["task"], row["values"], row["d"]): row["loss"]
        for row in swept.sql('SELECT task, "values", d, loss FROM trials')
    }
    for limit in (1.5, 0.7):
        rows = swept.rows("query", f'min d by "values" where loss < {limit}')
        assert len(rows) == 4
        for row in rows:
            passing = [d for d in (4, 8) if losses[row["task"], row["values"], d] < limit]
            assert row["value"] == (min(passing) if passing else None)
    assert swept.rows("query", 'min d by "values"') == swept.rows(
        "query", 'min d by "values" where loss < 1.5'
    )


def test_longer_rows_are_scored_as_rows_of_the_task_are(swept: SharedShell) -> None:
    for row in swept.sql("SELECT * FROM trials"):
        real = row["task"] == "sparse_memory" or row["values"] == "reals"
        score, other = ("loss_1_5x", "acc_1_5x")[:: 1 if real else -1]
        assert row[score] > 0 and row[other] is None and row["score_lengths"] == "[1.5]"
    rows = swept.rows("query", "max acc_1_5x by d where \"values\" = 'tokens'")
    best = swept.sql("SELECT task, d, max(acc_1_5x) AS acc FROM trials GROUP BY ALL")
    assert {(r["task"], r["d"]): r["acc_1_5x"] for r in rows} == {
        (r["task"], r["d"]): r["acc"] for r in best if r["acc"] is not None
    }


def test_samples_are_a_prompt_and_its_answer(shell: SharedShell) -> None:
    lines = shell.run("sample", "sparse_memory", "--count", "3", "--json").stdout.splitlines()
    assert len(lines) == 3
    for row in map(json.loads, lines):
        prompt = row["tokens"][: row["prompt_length"]]
        assert prompt[-1] == "<sep>" and len(prompt) == 65
        assert row["tokens"] == [*prompt, *row["answer"].split(), "<eos>"]


@pytest.mark.parametrize("name", ["goal=acc > 0.5", "stop.success=0.9"])
def test_an_accuracy_is_refused_where_there_is_none(shell: SharedShell, name: str) -> None:
    shell.write("grid.yaml", GRID)
    refused = shell.run("plan", "grid.yaml", "--set", name, exits=2)
    assert "_memory" in refused.stderr and name.split("=")[0] in refused.stderr
