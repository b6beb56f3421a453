"""What is known of a run of the built-in training that has ended."""

from __future__ import annotations

from sweepd.trial.evaluation import Score
from sweepd.trial.training import Training, TrainingResult


def result_of(training: Training) -> TrainingResult:
    """How it ended."""
    assert training.result is not None
    return training.result


def score_of(training: Training) -> Score:
    """Its test score."""
    score = result_of(training).score
    assert score is not None
    return score
