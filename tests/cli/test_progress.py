"""What a person reads while a sweep runs without a terminal, and what the sweep prints at its end.
The board for a terminal is tested in test_board.py, and for real in tests/e2e/test_live.py. Covers
`cli/run.py`."""

from dataclasses import replace

import pytest
from simulated import simulated

from sweepd.cli.progress import QUIET_SECONDS, Progress
from sweepd.cluster import Local
from sweepd.listing import duration
from sweepd.run.launching import estimate, planned

PLAN = simulated()
TRIALS = PLAN.trials


def progress() -> Progress:
    made = planned(PLAN.grid, None)
    return Progress(
        made.search, estimate(made, Local(kind="local")), "sweepd-results", "sweepd resume"
    )


def test_a_trial_that_fails_names_its_log(capsys: pytest.CaptureFixture[str]) -> None:
    shown, trial = progress(), TRIALS[0]
    ending = {"status": "failed", "acc": None, "loss": None, "error": "ValueError: no\nmore"}
    shown.ended(trial, ending)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"[ 0/~26] {trial.id[:8]} lis standard ")
    assert line.endswith(f" seed=0: failed: ValueError: no (`sweepd logs {trial.id}`)")
    assert shown.board().errors == (line.partition("] ")[2],)
    shown.ended(trial, {**ending, "status": "completed", "acc": 0.5, "error": None})
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("[ 1/~26]") and line.endswith("completed, acc 0.5")
    many = replace(trial, metrics=dict.fromkeys((f"m{i}" for i in range(300)), "up"))
    shown.ended(
        many, {**ending, "status": "completed", "error": None, **dict.fromkeys(many.metrics, 1)}
    )
    assert capsys.readouterr().err.endswith(", m4 1, m5 1, and 294 more\n")


def test_what_takes_the_time_before_the_first_step_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = progress()
    shown.preparing("starting Ray")
    assert capsys.readouterr().err == "starting Ray (after 0 s)\n"
    assert shown.board().waiting == "starting Ray" and shown.board().seconds == 0
    shown.spent(1.25, 2.0)
    shown.spoken -= QUIET_SECONDS
    shown.running(TRIALS[0], {"step": 1, "acc": None})
    assert capsys.readouterr().err.endswith("; $1.25 spent, $2.00 an hour\n")
    assert shown.board().waiting == "" and len(shown.board().running()) == 1


def test_durations() -> None:
    spans = (0, 89, 91, 5399, 5401, 90 * 3600 + 1, 400 * 86400)
    told = ["0 s", "89 s", "2 min", "90 min", "1.5 h", "3.8 days", "1.1 years"]
    assert [duration(seconds) for seconds in spans] == told
