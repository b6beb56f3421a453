"""What a person reads while a sweep runs, and at its end."""

from __future__ import annotations

import pytest
from simulated import simulated

from sweepd.cli import run
from sweepd.cli.progress import Progress, duration
from sweepd.run.driver import Launched
from sweepd.search.ledger import Standing

TRIALS = simulated().trials


def test_a_trial_that_fails_names_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(TRIALS, 10, todo_is_exact=False)
    trial = TRIALS[0]
    ending = {"status": "failed", "acc": None, "loss": None, "error": "ValueError: no\nmore"}
    progress.ended(trial, ending)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("[ 0/~10] lis standard ")
    assert line.endswith(f" seed=0: failed: ValueError: no (`sweepd logs {trial.id}`)")
    progress.ended(trial, {**ending, "status": "completed", "acc": 0.5, "error": None})
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("[ 1/~10]") and line.endswith("completed, acc 0.5")


def test_the_end_of_a_launch_names_the_logs_of_what_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Progress(TRIALS, 10, todo_is_exact=True)
    launched = Launched(Standing((), (), (), {}), TRIALS[:5], interrupted=False)
    run._name_failed(launched, progress, "simulated")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == run.MOST_NAMED + 2
    for line, trial in zip(lines, TRIALS[: run.MOST_NAMED], strict=False):
        assert f"`sweepd logs {trial.id}`" in line and progress.label(trial) in line
    assert "2 more failed; `sweepd status simulated` names them" in lines


def test_durations() -> None:
    spans = (0, 89, 91, 5399, 5401, 90 * 3600 + 1, 400 * 86400)
    told = ["0 s", "89 s", "2 min", "90 min", "1.5 h", "3.8 days", "1.1 years"]
    assert [duration(seconds) for seconds in spans] == told
