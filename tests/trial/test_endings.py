"""The row that an ended attempt leaves: the row of the plan, extended by the results."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from simulated import simulated

from sweepd.store.schema import TRIALS
from sweepd.trial.endings import MOST_TOLD, described, ending_row, ledger_columns, storable
from sweepd.trial.results import StepRow

TRIAL = simulated().trials[0]
LATEST = StepRow(10, {"step": 10, "loss": 0.25, "acc": 0.5}, {"loss": 0.25, "acc": 0.5})
STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_row_of_the_ledger_extends_the_row_of_the_plan() -> None:
    columns = ledger_columns(TRIAL, 1001, "s")
    assert columns["train_flops"] is None  # of the plan it is a budget, here what was spent
    assert {**TRIAL.row(), "train_flops": None}.items() <= columns.items()
    assert columns.keys() - TRIAL.row().keys() == {"attempt", "sweep", "host"}


@pytest.mark.parametrize(
    "status, loss", [("interrupted", 0.25), ("failed", 0.25), ("stopped", None)]
)
def test_an_ending_without_a_test_score(status: str, loss: float | None) -> None:
    columns = ledger_columns(TRIAL, 1001, "s")
    row = ending_row(columns, status, "why", None, LATEST, STARTED)
    assert row.items() >= {"status": status, "error": "why", "loss": loss, "acc": None}.items()
    assert (row["step"], row["train_flops"], row["started"]) == (0, 0.0, STARTED)
    known = set(TRIALS.fixed) | TRIAL.axes.keys()
    assert row.keys() <= known


def test_errors_are_told_in_text_that_can_be_stored() -> None:
    class Untellable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert described(ValueError("no")) == "ValueError: no"
    assert described(Untellable()) == "Untellable: (its text can't be told)"
    assert storable("\x1b[31mred\x1b[0m \ud800") == "red ?"
    assert len(storable("x" * 2 * MOST_TOLD)) == MOST_TOLD
