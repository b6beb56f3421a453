"""Training that, once its model is trained, also scores it on longer rows of the same task.

Nothing is trained for this. The weights are loaded into a model that has room for the longer rows.
In all else that model is built for the length of training: a block of `sparse` stays as wide as it
was. Rows are drawn as those of the test are: from the same generator, and from inputs that are held
out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from sweepd.grid import lengths
from sweepd.grid.axes import reason
from sweepd.grid.metrics import directions
from sweepd.models.base import Model
from sweepd.tasks.base import Split, Task
from sweepd.trial.evaluation import Score, evaluate
from sweepd.trial.training import Stream, Training, TrainingResult, generator


class ScoredLonger(Training):
    """A `Training` whose result has scores at other lengths too, each a column of its own."""

    def __init__(
        self, factors: Sequence[float], task: Task, architecture: Model, *rest: Any
    ) -> None:
        super().__init__(task, architecture, *rest)
        self.factors, self.architecture = factors, architecture

    def ended(self, status: str, score: Score) -> TrainingResult:
        """Returns the result with the scores at other lengths that could be measured. It keeps its
        test score in any case. Its `error` says which scores could not be measured."""
        result = super().ended(status, score)
        metric = lengths.scored(directions(self.task.metrics))
        if result.score is None or metric is None:
            return result
        found, errors = dict(result.score.own), []
        for factor in self.factors:
            name = lengths.column(metric, factor)
            try:
                found[name] = getattr(self.score_at(factor), metric)
            except Exception as error:  # a user's model may raise anything on longer rows
                errors.append(f"no {name}: {reason(error)}")
        score = replace(result.score, own=found)
        return replace(result, score=score, error="; ".join(errors) or None)

    def score_at(self, factor: float) -> Score:
        """Returns the score of the present weights on the task at `factor` times its length."""
        there = lengths.longer(self.task, factor)
        words, unused = len(self.task.vocab), torch.Generator()
        model = self.architecture.build(words, self.task.L, there.capacity, unused)
        model.load_state_dict(self.model.state_dict())
        count = lengths.rows(self.task, there, self.evaluation.verdict_samples)
        sample = there.sample(generator(self.seed, Stream.TEST, self.step), count, Split.TEST)
        sample.check(count)
        return evaluate(model.to(self.device), there, sample)
