"""A training loop of the user's own, as docs/own.md shows it, from a file to an answer. Beside it,
in the results of the same launch, is a loop that hangs."""

from pathlib import Path

import pytest
from shell import ONE_AT_A_TIME, Shell

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CHANGES = ["loop.classes=[2,5]", "loop.hidden=[2,8]", "loop.steps=6", "seeds=[0]", "settle=off"]
CHANGES += [f"resources={ONE_AT_A_TIME}"]
OPTIONS = [option for change in CHANGES for option in ("--set", change)]


@pytest.fixture(scope="module")
def swept(module_shell: Shell) -> Shell:
    for name in ("digits.py", "digits.yaml"):
        module_shell.write(name, (EXAMPLES / name).read_text())
    module_shell.run("launch", "digits.yaml", "--in-process", *OPTIONS)
    return module_shell


def test_its_trials_have_its_metrics(swept: Shell) -> None:
    rows = swept.sql("SELECT * FROM trials")
    assert {(row["task"], row["model"], row["L"]) for row in rows} == {("digits", "mlp", None)}
    for row in rows:
        assert (row["status"], row["step"], row["steps"]) == ("completed", 6, 6)
        assert 0 < row["f1"] <= 1 and row["correct"] == round(row["acc"] * row["total"])
    last = swept.sql("SELECT id, arg_max(f1, step) AS f1, count(*) AS n FROM metrics GROUP BY id")
    assert {(row["id"], row["f1"], row["n"]) for row in last} == {
        (row["id"], row["f1"], 6) for row in rows
    }


def test_it_is_asked_and_shown_as_any_other(swept: Shell) -> None:
    rows = swept.rows("query", "min hidden where f1 >= 0")
    assert [(row["size"], row["value"]) for row in rows] == [(2, 2), (5, 2)]
    assert all(0 <= row["f1_seed_min"] <= row["f1"] for row in rows)
    done = [row for row in swept.rows("status", "digits") if row["status"] == "completed"]
    assert done and all(row["f1"] > 0 for row in done)
    assert "step 6: acc 0." in swept.run("logs", done[0]["id"]).stdout


def test_what_is_done_is_not_run_again_and_tells_the_time(swept: Shell) -> None:
    [planned] = swept.rows("plan", "digits.yaml", *OPTIONS)
    assert planned["done"] == len(swept.sql("SELECT id FROM trials")) and planned["to_run"] == 0
    [more] = swept.rows("plan", "digits.yaml", *OPTIONS, "--set", "loop.classes=[2,5,10]")
    assert 0 < more["seconds_low"] <= more["seconds_high"] < 600
