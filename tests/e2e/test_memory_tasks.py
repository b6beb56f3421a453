"""Trials of tasks without chains, as the command line shows them: a goal on the loss, and real
numbers as inputs and targets."""

import pytest
from shell import SharedShell
from trained import run

from sweepd.store.store import Store

GRID = """
name: memory
task:
  - {name: fixed_memory, memories: 1, longest: 4, values: [tokens, reals], length: 12}
  - {name: adaptive_memory, longest: 8, length: 12}
  - {name: sparse_memory, length: 12}
model: {name: standard, d: [4, 8], layers: 1, heads: 2}
train: {steps: 20, batch_size: 16}
evaluate: {check_every: 10, check_samples: 32, verdict_samples: 64}
goal:  loss < 1.5
lengths: [1.5]
"""


@pytest.fixture(scope="module")
def swept(module_shell: SharedShell) -> SharedShell:
    grid = module_shell.write("grid.yaml", GRID)
    run(Store.create(str(module_shell.folder / "sweepd-results")), grid)
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
