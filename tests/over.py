"""What is known of a run of the built-in training that has ended."""

import dataclasses

from sweepd.trial.evaluation import Score
from sweepd.trial.runs import Result, StepRow
from sweepd.trial.training import Training


def result_of(training: Training) -> Result:
    """How it ended."""
    assert training.result is not None
    return training.result


def score_of(training: Training) -> Score:
    """Its test score."""
    assert training.score is not None
    return training.score


def untimed(row: StepRow) -> StepRow:
    """A row without its time."""
    return dataclasses.replace(row, columns={**row.columns, "seconds": 0.0})


def finish(training: Training) -> list[StepRow]:
    """All rows to the end, without their times."""
    return [untimed(row) for row in training.advance() if row is not None]
