"""A task and a model of the user's own, as docs/own.md shows them, from a file to an answer. The
task also reports a metric of its own."""

from pathlib import Path

import pytest
from shell import ONE_AT_A_TIME, Shell

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
SCORES = """
    metrics = {"acc": "up", "chain_acc": "up", "loss": "down", "finished": "up"}

    def scores(self, found, wanted):
        assert len(found) == len(wanted) and all(len(answer) == 1 for answer in wanted)
        return {"finished": sum(answer is not None for answer in found) / len(found)}
"""
"""A metric of its own: the share of rows that were decoded to an end."""


@pytest.fixture(scope="module")
def swept(module_shell: Shell) -> Shell:
    for name in ("parity.py", "lstm.py", "grid.yaml"):
        module_shell.write(name, (EXAMPLES / name).read_text() + SCORES * (name == "parity.py"))
    changes = ["task.n=[6,7]", "model.d=[4,8]", "train.steps=20", "search=grid"]
    changes += ["evaluate={check_samples: 32, verdict_samples: 64}", f"resources={ONE_AT_A_TIME}"]
    options = [option for change in changes for option in ("--set", change)]
    module_shell.run("launch", "grid.yaml", "--in-process", *options)
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
    assert {(row["model"], row["size"], row["value"]) for row in rows} == {
        (model, n, 4) for model in ("lstm.py:Lstm", "standard") for n in (6, 7)
    }


def test_the_task_s_own_metric_is_asked_for(swept: Shell) -> None:
    rows = swept.rows("query", "min d where finished >= 0")
    assert {row["value"] for row in rows} == {4}
    finished = {row["id"]: row["finished"] for row in swept.sql("SELECT id, finished FROM trials")}
    assert all(0 <= value <= 1 for value in finished.values())
    last = swept.sql("SELECT id, arg_max(finished, step) AS finished FROM metrics GROUP BY id")
    assert {row["id"]: row["finished"] for row in last} == finished
