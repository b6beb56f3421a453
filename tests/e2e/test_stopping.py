"""Trials that are given up early and go on later. A rule that Tune decides leaves a trial stopped,
and a question then says `at most`. A trial that is wanted in full goes on where it was left.
tests/trial/test_attempt.py compares its numbers with those of one that was never stopped, and has
what is wanted for longer."""

from typing import Any

import pytest
from shell import ONE_AT_A_TIME, SharedShell

GRID = f"""
name: early
task:  {{name: fixed_memory, memories: 1, longest: 4, length: 16}}
model: {{name: standard, d: [2, 4, 32], layers: 1, heads: 1, positions: learned}}
train:
- {{steps: 400, batch_size: 16, warmup: 10, lr: [1.0e-2, 1.0e-9]}}
- {{steps: 4, schedule: cosine, lr: 1.0e-3}}
evaluate: {{check_every: 25, check_samples: 128, verdict_samples: 128}}
goal:  acc > 0.7
tune:  [train.lr]
stop:
- {{asha: {{grace: 50, reduction: 2}}}}
- {{success: 0.9, plateau: {{grace: 60, std: 0.02, checks: 3}}}}
resources: {ONE_AT_A_TIME}
"""
RULE = "CASE WHEN plateau IS NULL THEN 'asha' ELSE 'plateau' END AS rule"
WHERE = "where acc > 0.7 and steps = 400 and plateau is not null"
Trials = dict[tuple[str, int, float], dict[str, Any]]
"""by rule, d and rate"""


@pytest.fixture(scope="module")
def given_up(module_shell: SharedShell) -> SharedShell:
    module_shell.write("grid.yaml", GRID)
    module_shell.run("launch", "grid.yaml")
    return module_shell


@pytest.fixture(scope="module")
def first(given_up: SharedShell) -> Trials:
    """The trials as the first launch left them; later tests change the store."""
    rows = given_up.sql(f"SELECT *, {RULE} FROM trials WHERE steps = 400")
    return {(row["rule"], row["d"], row["lr"]): row for row in rows}


GOOD, USELESS = 1e-2, 1e-9


def test_a_plateau_is_given_up_after_its_grace(first: Trials) -> None:
    """The trial at d = 4 is given up too, though it would have begun to learn in time. The docs
    name this danger."""
    for d in (2, 4):
        assert first["plateau", d, GOOD]["status"] == "stopped"
    for trial in [first["plateau", d, GOOD] for d in (2, 4)]:
        assert trial["step"] == 75 and trial["acc"] is None and trial["loss"] is None
        assert trial["tokens"] > 0 and trial["seconds"] > 0 and trial["train_flops"] > 0
        assert trial["started"] < trial["ended"]
    assert first["plateau", 32, GOOD]["status"] == "solved"


def test_asha_compares_within_a_cell_alone(first: Trials) -> None:
    """d = 2 scores at chance even with the better rate, far below d = 32. It is not stopped, since
    it competes only with trials of its own cell."""
    assert first["asha", 2, GOOD]["status"] == "completed"
    assert first["asha", 4, GOOD]["status"] == "completed"
    assert first["asha", 32, GOOD]["status"] == "completed"
    late = first["asha", 32, USELESS]
    assert (late["status"], late["step"]) == ("stopped", 50)


def test_checks_of_a_stopped_trial_are_in_its_metrics(given_up: SharedShell, first: Trials) -> None:
    trial = first["plateau", 4, GOOD]["id"]
    rows = given_up.sql(f"SELECT step, acc FROM metrics WHERE id = '{trial}' ORDER BY step")
    assert rows[-1]["step"] == 75
    assert [row["step"] for row in rows if row["acc"] is not None] == [25, 50, 75]


def test_the_answer_says_at_most(given_up: SharedShell, first: Trials) -> None:
    [row] = given_up.rows("query", f"min d {WHERE}")
    assert (row["value"], row["fail"], row["verdict"]) == (32, None, "at most")


def test_stopped_is_an_ending(given_up: SharedShell, first: Trials) -> None:
    assert "nothing to do" in given_up.run("launch", "grid.yaml", "--in-process").stderr


@pytest.fixture(scope="module")
def in_full(given_up: SharedShell, first: Trials) -> SharedShell:
    """The trials that were given up and on which the answer hangs, continued in full."""
    given_up.run("launch", "grid.yaml", "--promote", "--in-process")
    return given_up


def test_a_stopped_trial_goes_on_under_its_own_id(in_full: SharedShell, first: Trials) -> None:
    after = in_full.sql(f"SELECT *, {RULE} FROM trials WHERE steps = 400")
    promoted = {}
    for row in after:
        was = first[row["rule"], row["d"], row["lr"]]
        assert row["id"] == was["id"]
        if row != was:
            assert (was["status"], row["status"]) == ("stopped", "completed")
            assert row["attempt"] > was["attempt"] and row["seconds"] > was["seconds"]
            promoted[row["rule"], row["d"], row["lr"]] = row
    assert {("plateau", 2, GOOD), ("plateau", 4, GOOD)} <= promoted.keys()
    assert not any(d == 32 for _, d, _ in promoted)  # nothing hangs on what is given up there
    [row] = in_full.rows("query", f"min d {WHERE}")
    assert (row["value"], row["fail"], row["verdict"]) == (4, 2, "exact")


def test_what_must_start_again_is_said_before(in_full: SharedShell) -> None:
    cosine = ("--set", "train={schedule: cosine, steps: 8, lr: 1e-3}")
    told = in_full.run("plan", "grid.yaml", *cosine).stderr
    assert "would start again: 6: with schedule: cosine the rate at every step depends on" in told
